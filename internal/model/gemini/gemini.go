// Package gemini speaks to Google's Gemini API: one streamed HTTP request for
// each model call, thought signatures kept and sent back on the part they came with.
package gemini

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"stave/internal/model"
	"stave/internal/model/codec"
	"stave/internal/model/sse"
)

// Origin marks the thoughts and calls that only this provider can read again.
const Origin = "gemini"

// DefaultBaseURL is Google's own service.
const DefaultBaseURL = "https://generativelanguage.googleapis.com"

// Limits of one stream, and of what is held of connections.
const (
	maxStreamBytes = 256 << 20
	maxIdle        = 512
	writeBuffer    = 32 << 10 // requests are long
)

// Options says how to reach the service.
type Options struct {
	APIKey  string
	BaseURL string       // DefaultBaseURL if empty
	HTTP    *http.Client // one of its own if nil; it follows no redirects either way
}

// Provider is the port to the Gemini API. It may be used concurrently.
type Provider struct {
	key    string
	base   *url.URL
	client *http.Client
	said   codec.Cache[*conversation]
	tools  codec.Tools
}

var _ model.Provider = (*Provider)(nil)

// versioned matches a base URL that already names the version of the API.
var versioned = regexp.MustCompile(`^v\d`)

// New returns a provider. It connects to nothing yet.
func New(o Options) (*Provider, error) {
	if o.BaseURL == "" {
		o.BaseURL = DefaultBaseURL
	}
	base, err := url.Parse(strings.TrimRight(o.BaseURL, "/"))
	if err != nil {
		return nil, fmt.Errorf("gemini: the base URL cannot be read: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" {
		return nil, fmt.Errorf("gemini: the base URL %q is not of the form https://host/path", base.Redacted())
	}
	if strings.ContainsFunc(o.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("gemini: the API key has a space or another character no key has: copy it again")
	}
	if !versioned.MatchString(path.Base(base.Path)) {
		base = base.JoinPath("v1beta")
	}
	client := http.Client{Transport: newTransport()}
	if o.HTTP != nil {
		client = *o.HTTP
	}
	// The key is in a header that net/http would send along to any host.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Provider{key: o.APIKey, base: base, client: &client}, nil
}

// newTransport keeps as many idle connections as many conversations need.
func newTransport() http.RoundTripper {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t := usual.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdle, maxIdle
	t.WriteBufferSize = writeBuffer
	return t
}

// Stream makes one attempt at one call.
func (p *Provider) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(model.Event{}, err)
			return
		}
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := p.post(inner, r)
		if err != nil {
			yield(model.Event{}, p.ended(ctx, err))
			return
		}
		defer func() { _ = resp.Body.Close() }()
		a := &answer{yield: yield}
		err = a.read(ctx, resp.Body)
		switch {
		case a.finished:
			sse.Drain(resp.Body, cancel)
		case err != nil && !a.left:
			yield(model.Event{}, p.ended(ctx, err))
		}
	}
}

// post sends the request and returns the answer once it is known to be a stream.
func (p *Provider) post(ctx context.Context, r model.Request) (*http.Response, error) {
	if p.key == "" && p.base.Host == hostOf(DefaultBaseURL) {
		return nil, &model.Error{Kind: model.ErrAuth, Message: "there is no API key for Gemini: set GEMINI_API_KEY"}
	}
	body, err := p.body(r)
	if err != nil {
		return nil, err
	}
	endpoint, err := p.endpoint(r.Model)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, &model.Error{Kind: model.ErrInternal, Message: "make the request: " + err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	// A compressed stream would be unpacked before our limits see it.
	req.Header.Set("Accept-Encoding", "identity")
	if p.key != "" {
		req.Header.Set("X-Goog-Api-Key", p.key)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, unsent(err)
	}
	if err := checkResponse(resp); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func (p *Provider) endpoint(name string) (string, error) {
	name = strings.TrimPrefix(name, "models/")
	kind := "models"
	if tuned, ok := strings.CutPrefix(name, "tunedModels/"); ok {
		kind, name = "tunedModels", tuned
	}
	if name == "" || name == "." || name == ".." {
		return "", &model.Error{Kind: model.ErrBadRequest, Message: fmt.Sprintf("%q is no name of a Gemini model", name)}
	}
	return p.base.String() + "/" + kind + "/" + url.PathEscape(name) + ":streamGenerateContent?alt=sse", nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// ended makes an error fit to be shown: the end of the caller's context is
// reported as itself, and no message repeats the key.
func (p *Provider) ended(ctx context.Context, err error) error {
	if stopped := ctx.Err(); stopped != nil {
		return stopped
	}
	var known *model.Error
	if !errors.As(err, &known) {
		known = &model.Error{Kind: model.ErrInternal, Message: err.Error()}
	}
	if p.key != "" && strings.Contains(known.Message, p.key) {
		hidden := *known
		hidden.Message = strings.ReplaceAll(hidden.Message, p.key, "[key]")
		known = &hidden
	}
	return known
}
