package mcp

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// maxAuthAnswer bounds an answer of a sign-in server.
const maxAuthAnswer = 1 << 20

// client speaks with sign-in servers: without the configured headers, and only
// over a channel that cannot be read on the way.
func (s *signIn) client() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: signInTransport{s.opt.HTTP, s.local()}}
}

// local says that the server runs on this machine, as in tests and development.
func (s *signIn) local() bool {
	u, err := url.Parse(s.config.URL)
	return err == nil && isLoopback(u.Hostname())
}

type signInTransport struct {
	base  http.RoundTripper
	local bool
}

func (t signInTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := checkAuthURL(req.URL, t.local); err != nil {
		return nil, err
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = limited{io.LimitReader(resp.Body, maxAuthAnswer), resp.Body}
	return resp, nil
}

// checkAuthURL lets a server that is elsewhere name no address on this machine.
func checkAuthURL(u *url.URL, local bool) error {
	loopback := isLoopback(u.Hostname())
	if u.User != nil || u.Hostname() == "" || loopback && !local || u.Scheme != "https" && (u.Scheme != "http" || !loopback) {
		return fmt.Errorf("the address %s is not a safe place to sign in", cleanLine(u.Redacted(), 200))
	}
	return nil
}

// back is the page a browser comes back to after signing in.
type back struct {
	url    string
	host   string
	server *http.Server
	result chan *auth.AuthorizationResult

	mu    sync.Mutex
	state string
}

func listenBack() (*back, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("preparing sign-in: %w", err)
	}
	b := &back{host: l.Addr().String(), result: make(chan *auth.AuthorizationResult, 1)}
	b.url = "http://" + b.host + "/callback"
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 32 << 10}
	go b.server.Serve(l) // ends with close
	return b, nil
}

func (b *back) close() { b.server.Close() }

// expect checks the page a person is about to be shown and remembers the state
// only the real answer can have.
func (b *back) expect(page string, local bool) error {
	u, err := url.Parse(page)
	if err != nil || page != cleanLine(page, len(page)) {
		return errors.New("the sign-in page has an address that cannot be shown")
	}
	if err := checkAuthURL(u, local); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state = u.Query().Get("state"); b.state == "" {
		return errors.New("the sign-in page has no state")
	}
	return nil
}

// ServeHTTP takes the browser's answer. Anyone can reach this page, so what does
// not carry the state is turned away and changes nothing.
func (b *back) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	b.mu.Lock()
	state := b.state
	b.mu.Unlock()
	good := r.Method == http.MethodGet && r.Host == b.host && r.URL.Path == "/callback" &&
		state != "" && subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) == 1
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if !good {
		http.Error(w, "This page is only for signing in.", http.StatusNotFound)
		return
	}
	select {
	case b.result <- &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}:
	default:
	}
	io.WriteString(w, "You can close this page now.\n") // a browser that left needs no answer
}

func (b *back) wait(ctx context.Context) (*auth.AuthorizationResult, error) {
	select {
	case r := <-b.result:
		if r.Code == "" {
			return nil, errors.New("the sign-in was refused")
		}
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
