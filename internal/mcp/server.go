package mcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// server looks after one configured server for as long as the hub lives.
type server struct {
	name   string
	config Server
	opt    Options
	sign   *signIn
	kick   chan struct{} // look again without waiting
	turn   chan struct{} // held while connecting or signing in: never both

	mu      sync.Mutex
	status  Status
	why     string
	review  *Review
	pin     Pin
	session *session
	lists   lists
	settled chan struct{} // closed once the first attempt is over
	moved   chan struct{} // closed and replaced at every change of status
}

func newServer(name string, config Server, opt Options) *server {
	s := &server{
		name: name, config: config, opt: opt, kick: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		status: Connecting, settled: make(chan struct{}), moved: make(chan struct{}),
	}
	if config.URL != "" {
		s.sign = newSignIn(name, config, opt)
	}
	return s
}

// run connects, serves and connects again until ctx ends.
func (s *server) run(ctx context.Context) {
	if s.config.Disabled {
		s.set(Disabled, "", nil)
		return
	}
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		waits := s.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > steadyAfter {
			failures = 0
		}
		pause := time.Duration(0)
		if !waits {
			pause = backoff(s.opt.Limits, failures)
			failures++
		}
		if s.rest(ctx, pause) {
			failures = 0
		}
	}
}

// rest waits for a while, for ever if it is 0, and says whether it was kicked.
func (s *server) rest(ctx context.Context, pause time.Duration) bool {
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-s.kick:
		return true
	case <-ctx.Done():
	case <-over:
	}
	return false
}

// backoff grows with every failure and is spread, so that servers that went
// together do not come back together.
func backoff(l Limits, failures int) time.Duration {
	d := l.BackoffFirst
	for range failures {
		if d *= 2; d >= l.BackoffMost {
			d = l.BackoffMost
			break
		}
	}
	return d/2 + rand.N(d/2+1)
}

// attempt connects and serves once. It returns true if only a person can help.
func (s *server) attempt(ctx context.Context) (waits bool) {
	w, review, err := s.prepare()
	switch {
	case err != nil:
		s.set(Failed, err.Error(), nil)
		return false
	case review != nil:
		why := "nobody has approved this server yet"
		if review.Before != nil {
			why = "the server is not the one that was approved"
		}
		s.set(NeedsApproval, why, review)
		return true
	}
	live, found, err := s.begin(ctx, w)
	switch {
	case err != nil && s.sign.demanded():
		// The library goes on to ask in an older way, so its error may be another.
		s.set(NeedsSignIn, ErrSignIn.Error(), nil)
		return true
	case err != nil:
		s.set(Failed, err.Error(), nil)
		return false
	}
	s.adopt(live, found)
	s.serve(ctx, live)
	return false
}

// begin connects and reads what the server offers, within the time limit.
func (s *server) begin(ctx context.Context, w way) (*session, lists, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, lists{}, ctx.Err()
	}
	ctx, stop := context.WithTimeout(ctx, s.opt.Limits.Start)
	defer stop()
	s.sign.forget()
	live, err := connect(ctx, w)
	if err != nil {
		return nil, lists{}, err
	}
	found, err := live.readLists(ctx, s.name)
	if err != nil {
		live.end(ctx, err)
		return nil, lists{}, live.lost
	}
	return live, found, nil
}

// prepare finds out what would be started and whether that was approved.
func (s *server) prepare() (way, *Review, error) {
	env := baseEnv(s.opt.Environ)
	id, err := identify(s.config, env["PATH"])
	if err != nil {
		return way{}, nil, err
	}
	text, err := id.text()
	if err != nil {
		return way{}, nil, fmt.Errorf("describing the server: %w", err)
	}
	pin, err := s.opt.Pins.Load(s.name)
	if err != nil {
		return way{}, nil, err
	}
	s.mu.Lock()
	s.pin = pin.clone()
	s.mu.Unlock()
	if digest := digestOf(text); pin.Identity.Digest != digest {
		return way{}, &Review{Digest: digest, Before: pin.Identity.Text, After: text}, nil
	}
	w := way{name: s.name, server: s.config, id: id, opt: s.opt, sign: s.sign}
	if w.env, w.headers, w.secrets, err = expand(s.config, env, s.opt.Lookup); err != nil {
		return way{}, nil, err
	}
	return w, nil, nil
}

// serve keeps the lists fresh until the session ends.
func (s *server) serve(ctx context.Context, live *session) {
	for {
		select {
		case <-ctx.Done():
			live.end(ctx, errors.New("the hub was closed"))
			s.drop(live, "")
			return
		case <-live.done:
			s.drop(live, live.lost.Error())
			return
		case <-live.changed:
			s.refresh(ctx, live)
		}
	}
}

// refresh reads the lists again. Between two readings there is a pause, however
// often the server says that they changed.
func (s *server) refresh(ctx context.Context, live *session) {
	reading, stop := context.WithTimeout(ctx, s.opt.Limits.Start)
	defer stop()
	found, err := live.readLists(reading, s.name)
	if err != nil {
		live.end(reading, err)
		return
	}
	s.adopt(live, found)
	pause := time.NewTimer(s.opt.Limits.Relist)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-live.done:
	case <-ctx.Done():
	}
}

func (s *server) adopt(live *session, found lists) {
	s.mu.Lock()
	s.session, s.lists = live, found
	s.mu.Unlock()
	s.set(Connected, "", nil)
}

// drop forgets a session. The lists stay: its tools are still the server's.
func (s *server) drop(live *session, why string) {
	s.mu.Lock()
	if s.session == live {
		s.session = nil
	}
	s.mu.Unlock()
	s.set(Failed, why, nil)
}

func (s *server) set(status Status, why string, review *Review) {
	s.mu.Lock()
	s.status, s.why, s.review = status, why, review
	select {
	case <-s.settled:
	default:
		close(s.settled)
	}
	close(s.moved)
	s.moved = make(chan struct{})
	s.mu.Unlock()
	s.tell()
}

func (s *server) tell() {
	if s.opt.Changed != nil {
		s.opt.Changed()
	}
}

func (s *server) awaitSettled(ctx context.Context) error {
	select {
	case <-s.settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// live is the session to use now.
func (s *server) live() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		return s.session, nil
	}
	if s.why == "" {
		return nil, fmt.Errorf("MCP server %s is not connected (%s)", s.name, s.status)
	}
	return nil, fmt.Errorf("MCP server %s is not connected: %s", s.name, s.why)
}

// restart ends what is there and tries again at once.
func (s *server) restart() {
	s.mu.Lock()
	live := s.session
	s.mu.Unlock()
	if live != nil {
		live.end(context.Background(), errors.New("the connection was ended to begin again"))
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
