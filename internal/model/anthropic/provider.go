// Package anthropic is the provider for Anthropic's Messages API and for
// endpoints that speak it.
//
// Anthropic's own Go library is not used but in tests, which show that requests
// say what its types would: those encode the whole conversation for every
// request. Its client and its stream decoder retry by themselves, read keys and
// addresses from the environment, keep error bodies and events of any size in
// memory, and take a stream that is cut between two events for a complete one.
package anthropic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"stave/internal/model"
	"stave/internal/model/codec"
	"stave/internal/model/sse"
)

// Origin marks the thoughts and calls that came from here.
const Origin = "anthropic"

// Defaults of Options, and the limits of what is sent and read.
const (
	DefaultBaseURL   = "https://api.anthropic.com"
	DefaultVersion   = "2026-10-21"
	DefaultMaxTokens = 8192

	MaxRequestBytes = 32 << 20  // what the API takes
	MaxErrorBytes   = 64 << 10  // read of the body of a refusal
	MaxEventBytes   = 4 << 20   // one event of a stream
	MaxStreamBytes  = 256 << 20 // of a whole stream
	MaxRetryAfter   = 5 * time.Minute

	maxHeaderBytes = 256 << 10
	dialTimeout    = 15 * time.Second
	maxIdle        = 512
	writeBuffer    = 32 << 10 // requests are long
)

// Options says where the service is and how to reach it.
type Options struct {
	APIKey  string
	BaseURL string            // without /v1/messages; empty is Anthropic's own
	Version string            // the anthropic-version header; empty is DefaultVersion
	Headers map[string]string // sent besides, for gateways; their values are kept secret too
	HTTP    *http.Client      // its redirect policy and its cookies are not used
	// MaxOutput knows how long an answer of a model may be, for requests that
	// do not say; nil or 0 is DefaultMaxTokens.
	MaxOutput func(model string) int64
}

// Provider calls one endpoint. What it holds only saves time; it may be used
// concurrently.
type Provider struct {
	opt      Options
	endpoint string
	client   *http.Client
	secrets  []string
	limits   sse.Limits
	problem  error // with the options; every call reports it

	said  codec.Cache[*conversation]
	tools codec.Tools
}

var _ model.Provider = (*Provider)(nil)

// New returns a provider. What is wrong with the options is reported by every
// call, so that a conversation says it and can be helped.
func New(opt Options) *Provider {
	p := &Provider{opt: opt, client: clientOf(opt.HTTP), limits: sse.Limits{Event: MaxEventBytes, Stream: MaxStreamBytes, Events: model.MaxResponseEvents}}
	if p.opt.Version == "" {
		p.opt.Version = DefaultVersion
	}
	if p.opt.BaseURL == "" {
		p.opt.BaseURL = DefaultBaseURL
	}
	p.secrets = secretsOf(opt)
	p.endpoint, p.problem = endpointOf(p.opt)
	return p
}

func clientOf(given *http.Client) *http.Client {
	var c http.Client
	if given != nil {
		c = *given
	} else {
		c.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSHandshakeTimeout:    dialTimeout,
			ForceAttemptHTTP2:      true,
			IdleConnTimeout:        90 * time.Second,
			MaxIdleConns:           maxIdle, // as many as conversations may be waiting for their tools
			MaxIdleConnsPerHost:    maxIdle,
			WriteBufferSize:        writeBuffer,
			MaxResponseHeaderBytes: maxHeaderBytes,
		}
	}
	// A redirect could carry the key to another host; the API never sends one.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Jar = nil
	return &c
}

func endpointOf(opt Options) (string, error) {
	u, err := url.Parse(opt.BaseURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", &model.Error{Kind: model.ErrBadRequest, Message: "the base URL of the provider is not an http or https address without user, query and fragment; correct it"}
	}
	if opt.APIKey == "" && opt.BaseURL == DefaultBaseURL {
		return "", &model.Error{Kind: model.ErrAuth, Message: "there is no key for the Anthropic API; set ANTHROPIC_API_KEY or a key file"}
	}
	if strings.ContainsFunc(opt.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", &model.Error{Kind: model.ErrAuth, Message: "the key for the Anthropic API has spaces or characters that cannot be sent; copy it again"}
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	return u.Scheme + "://" + u.Host + path + "/v1/messages", nil
}

// errLeft says that whoever reads the stream wants no more.
var errLeft = errors.New("the reader left")

// Stream makes one attempt at one call.
func (p *Provider) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		err := p.stream(ctx, r, func(ev model.Event) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !yield(ev, nil) {
				return errLeft
			}
			return nil
		})
		if err == nil || errors.Is(err, errLeft) {
			return
		}
		if ended := ctx.Err(); ended != nil {
			err = ended
		}
		yield(model.Event{}, err)
	}
}

func (p *Provider) stream(ctx context.Context, r model.Request, emit func(model.Event) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.problem != nil {
		return p.problem
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := p.call(ctx, r, true)
	if staleThought(err) && hasThoughts(r) {
		// The API refuses thoughts whose beginning of the conversation has changed,
		// before it does anything. Without them the conversation can go on.
		resp, err = p.call(ctx, r, false)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	done := false
	err = p.read(model.Pulsing(ctx, resp.Body), toolNames(r.Tools), func(ev model.Event) error {
		done = done || ev.Done != ""
		return emit(ev)
	})
	if done {
		sse.Drain(resp.Body, cancel)
	}
	return err
}

// call sends the request and returns the response once it is known to be a stream.
func (p *Provider) call(ctx context.Context, r model.Request, thoughts bool) (*http.Response, error) {
	if n := sizeOf(r); n > MaxRequestBytes { // not worth encoding
		return nil, tooLarge(n)
	}
	body, err := p.body(r, thoughts)
	if err != nil {
		return nil, err
	}
	if len(body) > MaxRequestBytes {
		return nil, tooLarge(len(body))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, &model.Error{Kind: model.ErrBadRequest, Message: p.clean("make the request: " + err.Error())}
	}
	for name, value := range p.opt.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	// Asked for by us, a compressed body would be unpacked without a limit.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("Anthropic-Version", p.opt.Version)
	if p.opt.APIKey != "" {
		req.Header.Set("X-Api-Key", p.opt.APIKey)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, p.unreachable(ctx, err)
	}
	if err := p.checkResponse(resp); err != nil {
		resp.Body.Close() //nolint:errcheck // read only
		return nil, err
	}
	return resp, nil
}

func (p *Provider) checkResponse(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return p.refusal(resp)
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return streamError("the answer is compressed as %s, which was not asked for", p.clean(e))
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media == "text/event-stream" {
		return nil
	}
	start, _ := io.ReadAll(io.LimitReader(resp.Body, MaxErrorBytes))
	if f, ok := failureIn(start); ok {
		return p.failed(f, 0)
	}
	return streamError("the answer is no stream but %s; is the base URL right, or a proxy in between?", p.describe(media, start))
}

func tooLarge(n int) error {
	return &model.Error{Kind: model.ErrTooLong, Message: fmt.Sprintf("the request has at least %d bytes and the API takes %d", n, MaxRequestBytes)}
}

func streamError(format string, args ...any) error {
	return &model.Error{Kind: model.ErrStream, Message: fmt.Sprintf(format, args...), Retryable: true}
}
