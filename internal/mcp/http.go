package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const maxRedirects = 5

// remote is the way to a server on the network: it adds the configured headers,
// stays with the configured host, and lets no message past the gate unseen.
type remote struct {
	base    http.RoundTripper
	origin  *url.URL
	headers map[string]string
	gate    *gate
}

func (r *remote) client() *http.Client {
	return &http.Client{Transport: r, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return errors.New("the server redirects too often")
		}
		return nil
	}}
}

// RoundTrip sends one request of the protocol.
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	// The configured headers hold secrets. A redirect, or an endpoint the server
	// names, must not carry them to another host.
	if req.URL.Scheme != r.origin.Scheme || req.URL.Host != r.origin.Host {
		return nil, fmt.Errorf("the server points to another host, %s, which is not followed", cleanLine(req.URL.Host, 100))
	}
	ctx := req.Context()
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { markSent(ctx) }}
	req = req.Clone(httptrace.WithClientTrace(ctx, trace))
	for k, v := range r.headers {
		req.Header.Set(k, v)
	}
	if err := r.watchBody(req); err != nil {
		return nil, err
	}
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if f := fateOf(ctx); f != nil && req.Method == http.MethodPost {
		f.status.Store(int32(resp.StatusCode))
	}
	r.checkBody(resp)
	return resp, nil
}

// watchBody lets the gate see what we say.
func (r *remote) watchBody(req *http.Request) error {
	if req.Body == nil || req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	r.gate.out(text)
	return nil
}

// checkBody puts the gate in front of what the server says.
func (r *remote) checkBody(resp *http.Response) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	ok := resp.StatusCode >= 200 && resp.StatusCode < 300
	switch {
	case err == nil && ok && kind == "text/event-stream":
		resp.Body = &events{from: bufio.NewReader(resp.Body), closer: resp.Body, gate: r.gate}
	case err == nil && ok && kind == "application/json":
		resp.Body = &document{from: resp.Body, gate: r.gate}
	default:
		// Only the beginning of an error page is of use.
		resp.Body = limited{io.LimitReader(resp.Body, int64(r.gate.maxBytes)), resp.Body}
	}
}

type limited struct {
	io.Reader
	io.Closer
}

// document is a JSON body that is read whole and checked before any of it is
// handed on.
type document struct {
	from io.ReadCloser
	gate *gate
	text *bytes.Reader
	err  error
}

func (d *document) Read(p []byte) (int, error) {
	if d.text == nil && d.err == nil {
		d.load()
	}
	if d.err != nil {
		return 0, d.err
	}
	return d.text.Read(p)
}

func (d *document) load() {
	text, err := io.ReadAll(io.LimitReader(d.from, int64(d.gate.maxBytes)+1))
	if err == nil && len(bytes.TrimSpace(text)) > 0 {
		_, err = d.gate.in(text)
	}
	d.text, d.err = bytes.NewReader(text), err
}

func (d *document) Close() error { return d.from.Close() }

// events is a stream of server-sent events that hands on whole events whose
// message passed the gate. Of the others only the id is kept, so that a stream
// can still be taken up where it broke.
type events struct {
	from   *bufio.Reader
	closer io.Closer
	gate   *gate

	ready bytes.Buffer
	err   error
}

func (e *events) Read(p []byte) (int, error) {
	for e.ready.Len() == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.err = e.next()
	}
	return e.ready.Read(p)
}

func (e *events) Close() error { return e.closer.Close() }

// next reads one event.
func (e *events) next() error {
	var data, rest []byte
	name := ""
	for {
		text, err := readLine(e.from, e.gate.maxBytes-len(data)-len(rest))
		if errors.Is(err, errTooLong) {
			e.gate.breakOff(err)
		}
		if err != nil {
			return err
		}
		text = bytes.TrimRight(text, "\r\n")
		if len(text) == 0 {
			break
		}
		field, value, _ := bytes.Cut(text, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			data = append(append(data, value...), '\n')
		case "event":
			name = string(value)
			rest = append(append(rest, text...), '\n')
		case "id", "retry":
			rest = append(append(rest, text...), '\n')
		}
	}
	return e.pass(name, bytes.TrimSuffix(data, []byte("\n")), rest)
}

func (e *events) pass(name string, data, rest []byte) error {
	if len(data) > 0 && (name == "" || name == "message") {
		ok, err := e.gate.in(data)
		if err != nil {
			return err
		}
		if !ok {
			data = nil
		}
	}
	e.ready.Write(rest)
	if len(data) > 0 {
		for part := range bytes.SplitSeq(data, []byte("\n")) {
			fmt.Fprintf(&e.ready, "data: %s\n", part)
		}
	}
	if e.ready.Len() > 0 {
		e.ready.WriteByte('\n')
	}
	return nil
}

// detached connects in a context that outlives the connecting: the library ends
// an event stream with the context it was opened in.
type detached struct {
	sdk.Transport
	ctx context.Context
}

// Connect ignores the context of the connecting.
func (d detached) Connect(context.Context) (sdk.Connection, error) { return d.Transport.Connect(d.ctx) }
