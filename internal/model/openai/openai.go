// Package openai talks to OpenAI and to the many services that speak one of its
// two dialects: Responses, and the older Chat Completions.
//
// Requests are built with the types of the official SDK and sent by it, without
// its retries. Answers are read by a small reader of our own, because the SDK's
// joins the lines of an event without a limit, reports a stream that was cut
// before its [DONE] exactly as one that came to its end, and takes "error": null
// for an error.
package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/openai/openai-go/v3/option"

	"stave/internal/model"
)

const defaultBaseURL = "https://api.openai.com/v1/"

// Options says which service to talk to, and how.
type Options struct {
	Name         string            // of the service in messages, and whose thoughts it can read; empty is openai
	APIKey       string            // may be empty: servers on this machine need none
	BaseURL      string            // up to and with /v1; empty is OpenAI's own
	Organization string            // optional
	Project      string            // optional
	Headers      map[string]string // sent with every request
	HTTP         *http.Client      // nil makes one; redirects are never followed

	Summary string // Responses: which summary of the thinking to ask for: auto, concise, detailed; empty asks for none

	UseMaxTokens    bool   // Chat: send max_tokens, as older and local servers want, not max_completion_tokens
	NoStreamOptions bool   // Chat: the server refuses stream_options; usage is then mostly unknown
	ThoughtField    string // Chat: send thoughts of the running tool loop back in this field (reasoning_content, reasoning); empty sends none
}

// NewResponses returns a provider that speaks the Responses dialect. A response
// is complete at response.completed or response.incomplete, and not before.
func NewResponses(o Options) model.Provider {
	s := newService(o)
	return &provider{s, func(ctx context.Context, r model.Request) (*http.Response, error) {
		return s.sendResponses(ctx, r)
	}, func(out *sink) reader { return newResponsesReader(s, out) }}
}

// NewChat returns a provider that speaks the Chat Completions dialect. A
// response is complete when a finish_reason came and then [DONE] or the orderly
// end of the body; some servers leave [DONE] out, none leaves both out.
func NewChat(o Options) model.Provider {
	s := newService(o)
	return &provider{s, func(ctx context.Context, r model.Request) (*http.Response, error) {
		return s.sendChat(ctx, r)
	}, func(out *sink) reader { return newChatReader(s, out) }}
}

// service is what both dialects know about the other side.
type service struct {
	Options
	base    *url.URL
	baseErr error
	options []option.RequestOption
}

func newService(o Options) *service {
	if o.Name == "" {
		o.Name = "openai"
	}
	if o.BaseURL == "" {
		o.BaseURL = defaultBaseURL
	}
	s := &service{Options: o}
	s.base, s.baseErr = parseBase(o.BaseURL)
	if s.baseErr != nil {
		return s
	}
	s.options = []option.RequestOption{
		option.WithBaseURL(s.base.String()),
		option.WithHTTPClient(withoutRedirects(o.HTTP)),
		option.WithMaxRetries(0),
		option.WithHeader("User-Agent", "stave"),
		option.WithHeader("Accept", "text/event-stream"),
		// A compressed stream would be unpacked before our limits see it.
		option.WithHeader("Accept-Encoding", "identity"),
	}
	if o.APIKey != "" {
		s.options = append(s.options, option.WithAPIKey(o.APIKey))
	}
	if o.Organization != "" {
		s.options = append(s.options, option.WithOrganization(o.Organization))
	}
	if o.Project != "" {
		s.options = append(s.options, option.WithProject(o.Project))
	}
	for name, value := range o.Headers {
		s.options = append(s.options, option.WithHeader(name, value))
	}
	return s
}

// parseBase never repeats the URL: it may hold a password.
func parseBase(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the base URL is not of the form https://host/v1")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return u, nil
}

func withoutRedirects(c *http.Client) *http.Client {
	client := http.Client{}
	if c != nil {
		client = *c
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.DisableCompression = true
		t.MaxResponseHeaderBytes = maxHeaderBytes
		client.Transport = t
	}
	// A redirect would hand the key, and the conversation, to whom it names.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// own reports whether the service is OpenAI itself, which knows parameters that
// others refuse.
func (s *service) own() bool { return s.base.Hostname() == "api.openai.com" }

type provider struct {
	*service
	send func(context.Context, model.Request) (*http.Response, error)
	read func(*sink) reader
}

// reader makes sense of the events of one stream.
type reader interface {
	// event takes the next event and reports whether the response is complete.
	event(name string, data []byte) (complete bool, err error)
	// end takes the orderly end of the body.
	end() error
}

// Stream makes one attempt at one call.
func (p *provider) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		err := p.attempt(ctx, r, yield)
		if err == nil || errors.Is(err, errLeft) {
			return
		}
		// The end of the context is no failure of the service, however it shows.
		if ended := ctx.Err(); ended != nil {
			err = ended
		}
		yield(model.Event{}, err)
	}
}

func (p *provider) attempt(ctx context.Context, r model.Request, yield func(model.Event, error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.baseErr != nil {
		return &model.Error{Kind: model.ErrBadRequest, Message: fmt.Sprintf("%s: %v", p.Name, p.baseErr)}
	}
	res, err := p.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return p.readAll(res.Body, p.read(&sink{ctx: ctx, yield: yield, origin: p.Name}))
}

func (s *service) readAll(body io.Reader, r reader) error {
	events := newEventReader(body)
	for {
		name, data, err := events.next()
		if errors.Is(err, io.EOF) {
			return r.end()
		}
		if err != nil {
			return s.readError(err)
		}
		complete, err := r.event(name, data)
		if err != nil || complete {
			return err
		}
	}
}
