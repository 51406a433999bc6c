// Package openai talks to OpenAI and to the many services that speak one of its
// two dialects: Responses, and the older Chat Completions.
//
// The official library is not used but in tests, which show that requests say
// what its types would: those encode the whole conversation for every request.
// Its reader joins the lines of an event without a limit, reports a stream that
// was cut before its [DONE] exactly as one that came to its end, and takes
// "error": null for an error.
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

	"stave/internal/model"
	"stave/internal/model/codec"
	"stave/internal/model/sse"
)

const defaultBaseURL = "https://api.openai.com/v1/"

// Limits of one stream, and of what is held of connections.
const (
	maxEventBytes  = model.MaxResponseBytes
	maxEvents      = 300_000 // more than any model has tokens to say
	maxStreamBytes = 512 << 20
	maxHeaderBytes = 1 << 20
	maxIdle        = 512
	writeBuffer    = 32 << 10 // requests are long
)

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
	return &provider{s, "responses", s.responsesBody, func(out *sink) reader { return newResponsesReader(s, out) }}
}

// NewChat returns a provider that speaks the Chat Completions dialect. A
// response is complete when a finish_reason came and then [DONE] or the orderly
// end of the body; some servers leave [DONE] out, none leaves both out.
func NewChat(o Options) model.Provider {
	s := newService(o)
	return &provider{s, "chat/completions", s.chatBody, func(out *sink) reader { return newChatReader(s, out) }}
}

// service is what both dialects know about the other side.
type service struct {
	Options
	base    *url.URL
	baseErr error
	client  *http.Client
	said    codec.Cache[*conversation]
	tools   codec.Tools
}

func newService(o Options) *service {
	if o.Name == "" {
		o.Name = "openai"
	}
	if o.BaseURL == "" {
		o.BaseURL = defaultBaseURL
	}
	s := &service{Options: o, client: withoutRedirects(o.HTTP)}
	s.base, s.baseErr = parseBase(o.BaseURL)
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
		t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdle, maxIdle // as many as conversations may be waiting for their tools
		t.WriteBufferSize = writeBuffer
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
	path string
	body func(model.Request) ([]byte, error)
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
	body, err := p.body(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res, err := p.post(ctx, p.path, body)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	out := &sink{ctx: ctx, yield: yield, origin: p.Name}
	err = p.readAll(model.Pulsing(ctx, res.Body), p.read(out))
	if out.done {
		sse.Drain(res.Body, cancel)
	}
	return err
}

func (s *service) readAll(body io.Reader, r reader) error {
	events := sse.NewReader(body, sse.Limits{Event: maxEventBytes, Stream: maxStreamBytes, Events: maxEvents})
	defer events.Release()
	for {
		ev, err := events.Next()
		// An event that its blank line does not follow may be cut.
		if errors.Is(err, io.EOF) || errors.Is(err, sse.ErrUnfinished) {
			return r.end()
		}
		if err != nil {
			return s.readError(err)
		}
		complete, err := r.event(ev.Name, ev.Data)
		if err != nil || complete {
			return err
		}
	}
}
