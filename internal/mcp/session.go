package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// initializeVersion is the newest protocol whose servers wait for "initialize".
// A server that reads its input is asked in this one first: some of them leave
// when they hear the newer question.
const initializeVersion = "2025-11-25"

// session is one living connection with a server.
type session struct {
	limits Limits
	gate   *gate
	tail   *tail
	redact redactor
	wire   *sdk.ClientSession
	hard   io.Closer // ends a started server even if the library waits

	ctx     context.Context // ends with the session
	cancel  context.CancelFunc
	changed chan struct{} // a list may have changed
	done    chan struct{}
	ended   sync.Once
	lost    error // set before done is closed

	tokens   atomic.Uint64
	progress sync.Map // progress token -> func(string)
}

// way is what is needed to reach a server once.
type way struct {
	name    string
	server  Server
	id      identity
	env     []string
	headers map[string]string
	secrets []string
	opt     Options
	sign    *signIn
}

// connect opens a session, trying the ways the configuration leaves open.
func connect(ctx context.Context, w way) (*session, error) {
	if w.server.Command != "" {
		s, err := open(ctx, w, typeStdio, initializeVersion)
		var answer *jsonrpc.Error
		if err != nil && errors.As(err, &answer) && ctx.Err() == nil {
			return open(ctx, w, typeStdio, "")
		}
		return s, err
	}
	if w.server.Type == typeSSE {
		return open(ctx, w, typeSSE, initializeVersion)
	}
	s, err := open(ctx, w, typeHTTP, "")
	if err == nil || w.server.Type == typeHTTP || ctx.Err() != nil || w.sign.demanded() {
		return s, err
	}
	old, oldErr := open(ctx, w, typeSSE, initializeVersion)
	if oldErr != nil {
		return nil, err
	}
	return old, nil
}

func open(ctx context.Context, w way, kind, version string) (*session, error) {
	s := &session{
		limits: w.opt.Limits, gate: newGate(w.opt.Limits.MessageBytes), tail: &tail{most: w.opt.Limits.StderrBytes},
		redact: redactor{fixed: w.secrets, more: w.sign.secrets}, changed: make(chan struct{}, 1), done: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	transport, err := s.transport(w, kind)
	if err != nil {
		s.cancel()
		return nil, err
	}
	connecting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	connected := make(chan struct{})
	go s.guard(ctx, stop, connected)
	s.wire, err = s.client().Connect(connecting, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	close(connected)
	if err != nil {
		late := ctx.Err()
		s.cancel()
		if s.hard != nil {
			s.hard.Close()
		}
		return nil, s.explain(late, err)
	}
	go s.watch()
	return s, nil
}

// guard ends an attempt to connect that takes too long or meets a violation. An
// event stream lives in the session's context, so that has to end as well.
func (s *session) guard(ctx context.Context, stop context.CancelCauseFunc, connected <-chan struct{}) {
	select {
	case <-connected:
		return
	case <-s.gate.breach:
	case <-ctx.Done():
	}
	select {
	case <-connected:
	default:
		stop(s.gate.broken())
		s.cancel()
	}
}

func (s *session) transport(w way, kind string) (sdk.Transport, error) {
	if kind == typeStdio {
		start, err := w.command()
		if err != nil {
			return nil, err
		}
		c := &command{start: start, grace: s.limits.Grace, gate: s.gate, tail: s.tail}
		s.hard = c
		return c, nil
	}
	origin, err := url.Parse(w.server.URL)
	if err != nil {
		return nil, err
	}
	r := &remote{base: w.opt.HTTP, origin: origin, headers: w.headers, gate: s.gate}
	if kind == typeSSE {
		t := &sdk.SSEClientTransport{Endpoint: w.server.URL, HTTPClient: r.client(), MaxEventSize: s.limits.MessageBytes}
		return detached{t, s.ctx}, nil
	}
	t := &sdk.StreamableClientTransport{Endpoint: w.server.URL, HTTPClient: r.client(), MaxEventSize: s.limits.MessageBytes}
	if w.sign != nil {
		t.OAuthHandler = w.sign
	}
	return t, nil
}

// command is how the server is started, behind its walls if there are any.
func (w way) command() (Command, error) {
	c := Command{Argv: w.id.argv, Dir: w.server.Cwd, Env: w.env, Programs: slices.Sorted(maps.Keys(w.id.Files))}
	if w.opt.Wrap == nil {
		return c, nil
	}
	c, err := w.opt.Wrap(w.name, w.server, c)
	if err == nil && len(c.Argv) == 0 {
		err = errors.New("there is nothing to start")
	}
	if err != nil {
		c.release()
		return Command{}, fmt.Errorf("building walls around it: %w", err)
	}
	return c, nil
}

func (s *session) client() *sdk.Client {
	relist := func(kind string) {
		s.gate.handled(kind)
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
	return sdk.NewClient(&sdk.Implementation{Name: "stave", Title: "Stave", Version: "1"}, &sdk.ClientOptions{
		// A server is told nothing about the machine and may ask for nothing.
		Capabilities:               &sdk.ClientCapabilities{},
		MultiRoundTrip:             &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { relist(toolsChanged) },
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { relist(promptsChanged) },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { relist(resourcesChanged) },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			s.gate.handled(progressMade)
			if tell, ok := s.progress.Load(fmt.Sprint(r.Params.ProgressToken)); ok {
				tell.(func(string))(progressLine(r.Params))
			}
		},
	})
}

func progressLine(p *sdk.ProgressNotificationParams) string {
	line := strconv.FormatFloat(p.Progress, 'g', -1, 64)
	if p.Total > 0 {
		line += " of " + strconv.FormatFloat(p.Total, 'g', -1, 64)
	}
	if text := cleanLine(p.Message, 500); text != "" {
		line += ": " + text
	}
	return line + "\n"
}

// watch ends the session when the server is gone or breaks the rules.
func (s *session) watch() {
	gone := make(chan error, 1)
	go func() { gone <- s.wire.Wait() }()
	select {
	case err := <-gone:
		if err == nil {
			err = errors.New("the server closed the connection")
		}
		s.end(context.Background(), err)
	case <-s.gate.breach:
		s.end(context.Background(), s.gate.why)
	case <-s.ctx.Done():
	}
}

// end closes everything, once, and keeps why. Calls under way learn that they
// are lost before the library is asked to close, because it waits for them.
func (s *session) end(ctx context.Context, why error) {
	s.ended.Do(func() {
		late := ctx.Err()
		s.cancel()
		if s.hard != nil {
			s.hard.Close() // from here on its last words are complete
		}
		s.lost = s.explain(late, why)
		closed := make(chan struct{})
		go func() {
			s.wire.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(s.limits.Grace):
		}
		close(s.done)
	})
}

// explain says why a server cannot be used, with its last words.
func (s *session) explain(late, err error) error {
	if broken := s.gate.broken(); broken != nil {
		err = broken
	}
	text := err.Error()
	switch {
	case errors.Is(late, context.DeadlineExceeded):
		text = fmt.Sprintf("it did not answer within %v", s.limits.Start)
	case errors.Is(err, io.EOF), errors.Is(err, sdk.ErrConnectionClosed):
		text = "it closed the connection"
	}
	text = cleanLine(s.redact.text(text), 500)
	if words := lastLines(s.redact.text(s.tail.String()), 5); words != "" {
		text += "; its last words: " + words
	}
	return &reason{text, err}
}

// reason is an error whose text is fit to be shown and whose cause can still be
// asked for.
type reason struct {
	text  string
	cause error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.cause }

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return clean(strings.Join(lines, "\n"), 1000)
}
