package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
	"stave/internal/model/queue"
)

var (
	down     = &model.Error{Kind: model.ErrUnreachable, Message: "down", Retryable: true}
	declined = &model.Error{Kind: model.ErrBadRequest, Message: "no"}
)

func one(l queue.Limits) *queue.Queue { return queue.New(queue.Options{Limits: l}) }

// enter fails the test unless the call may go at once.
func enter(t *testing.T, q *queue.Queue, ticket queue.Ticket) func(error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	release, err := q.Enter(ctx, ticket)
	if err != nil {
		t.Fatalf("enter: %v", err)
	}
	return release
}

// later starts a call that has to wait, and notes when it goes.
type later struct {
	mu    sync.Mutex
	gone  []string
	start time.Time
	at    map[string]time.Duration
	errs  map[string]error
}

func newLater() *later {
	return &later{start: time.Now(), at: map[string]time.Duration{}, errs: map[string]error{}}
}

func (l *later) call(ctx context.Context, q *queue.Queue, name string, t queue.Ticket, hold time.Duration, end error) {
	go func() {
		t.Conversation = name
		release, err := q.Enter(ctx, t)
		l.mu.Lock()
		l.gone = append(l.gone, name)
		l.at[name], l.errs[name] = time.Since(l.start), err
		l.mu.Unlock()
		if err == nil {
			time.Sleep(hold)
			release(end)
		}
	}()
	synctest.Wait()
}

// Lower priorities go first, and among equals whoever came first.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := one(queue.Limits{Concurrency: 1})
		release := enter(t, q, queue.Ticket{})
		l := newLater()
		for _, c := range []struct {
			name     string
			priority int
		}{{"x", 200}, {"a", 0}, {"b", 100}, {"urgent", 1}, {"c", 0}, {"very urgent", -5}} {
			l.call(t.Context(), q, c.name, queue.Ticket{Priority: c.priority}, time.Second, nil)
		}
		var listed []string
		for _, e := range q.List()[1:] {
			listed = append(listed, e.Conversation)
		}
		release(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"very urgent", "urgent", "a", "b", "c", "x"}
		if diff := cmp.Diff(want, l.gone); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, listed); diff != "" {
			t.Errorf("order in the list (-want +got):\n%s", diff)
		}
	})
}

// Each provider has its own places, and one release frees one of them.
func TestConcurrencyIsPerProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Limits: queue.Limits{Concurrency: 1}, Providers: map[string]queue.Limits{"wide": {Concurrency: 2}}})
		a := enter(t, q, queue.Ticket{Provider: "wide"})
		enter(t, q, queue.Ticket{Provider: "wide"})
		enter(t, q, queue.Ticket{Provider: "narrow"})
		l := newLater()
		l.call(t.Context(), q, "wide 3", queue.Ticket{Provider: "wide"}, 0, nil)
		l.call(t.Context(), q, "narrow 2", queue.Ticket{Provider: "narrow"}, 0, nil)
		if len(l.gone) != 0 {
			t.Fatalf("%v went past the limit", l.gone)
		}
		a(nil)
		a(nil) // a second release gives no second place
		synctest.Wait()
		if diff := cmp.Diff([]string{"wide 3"}, l.gone); diff != "" {
			t.Errorf("gone (-want +got):\n%s", diff)
		}
		if !q.Cancel(q.List()[len(q.List())-1].ID) {
			t.Error("the last call of the list is not there")
		}
		synctest.Wait()
		if !errors.Is(l.errs["narrow 2"], queue.ErrCancelled) {
			t.Errorf("got %v, want %v", l.errs["narrow 2"], queue.ErrCancelled)
		}
	})
}

// A burst goes at once, the rest at the rate.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := one(queue.Limits{Rate: 2, Burst: 2})
		l := newLater()
		for i := range 6 {
			l.call(t.Context(), q, fmt.Sprint(i), queue.Ticket{}, 0, nil)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := map[string]time.Duration{
			"0": 0, "1": 0, "2": 500 * time.Millisecond, "3": time.Second,
			"4": 1500 * time.Millisecond, "5": 2 * time.Second,
		}
		if diff := cmp.Diff(want, l.at); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
	})
}

// A provider's wish for patience holds all of its calls, and only its.
func TestRetryAfterHoldsTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := one(queue.Limits{MaxHold: time.Minute})
		busy := func(d time.Duration) error {
			return fmt.Errorf("call: %w", &model.Error{Kind: model.ErrRateLimited, Retryable: true, RetryAfter: d})
		}
		enter(t, q, queue.Ticket{Provider: "p"})(busy(10 * time.Second))
		enter(t, q, queue.Ticket{Provider: "other"})(nil)
		l := newLater()
		l.call(t.Context(), q, "a", queue.Ticket{Provider: "p"}, 0, busy(24*time.Hour))
		if s := q.List()[0].State; s != queue.Held {
			t.Errorf("state is %q, want %q", s, queue.Held)
		}
		time.Sleep(11 * time.Second)
		l.call(t.Context(), q, "b", queue.Ticket{Provider: "p"}, 0, nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		want := map[string]time.Duration{"a": 10 * time.Second, "b": 70 * time.Second}
		if diff := cmp.Diff(want, l.at); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
	})
}

// A caller that gives up is gone at once, and leaves nothing behind.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := one(queue.Limits{Concurrency: 1})
		release := enter(t, q, queue.Ticket{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := newLater()
		l.call(ctx, q, "late", queue.Ticket{}, 0, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(l.errs["late"], context.DeadlineExceeded) || len(q.List()) != 1 {
			t.Errorf("got %v with %d calls in the queue", l.errs["late"], len(q.List()))
		}
		if _, err := q.Enter(ctx, queue.Ticket{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that has ended: got %v", err)
		}
		release(nil)
		enter(t, q, queue.Ticket{})(nil)
		if n := len(q.List()); n != 0 {
			t.Errorf("%d calls are left", n)
		}
	})
}

// A full queue refuses at once rather than grow.
func TestMostWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Waiting: 2, Limits: queue.Limits{Concurrency: 1}})
		enter(t, q, queue.Ticket{})
		ctx, cancel := context.WithCancel(t.Context())
		l := newLater()
		for _, name := range []string{"a", "b", "c"} {
			l.call(ctx, q, name, queue.Ticket{}, 0, nil)
		}
		var full *model.Error
		if !errors.As(l.errs["c"], &full) || full.Kind != model.ErrOverloaded || !full.Retryable || len(l.gone) != 1 {
			t.Errorf("got %v after %v, want the third refused", l.errs["c"], l.gone)
		}
		cancel()
		synctest.Wait()
	})
}

// The list says of every call what it is and how far.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := one(queue.Limits{Concurrency: 1})
		began := time.Now()
		release := enter(t, q, queue.Ticket{Provider: "p", Conversation: "c1", Model: "m"})
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		newLater().call(ctx, q, "c2", queue.Ticket{Provider: "p", Model: "m", Priority: 7}, 0, nil)
		want := []queue.Entry{
			{ID: "q1", Provider: "p", Conversation: "c1", Model: "m", Priority: 100, Since: began, State: queue.Running},
			{ID: "q2", Provider: "p", Conversation: "c2", Model: "m", Priority: 7, Since: began.Add(time.Second), State: queue.Waiting},
		}
		if diff := cmp.Diff(want, q.List()); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]queue.Health{{Provider: "p", Running: 1, Waiting: 1}}, q.Providers()); diff != "" {
			t.Errorf("providers (-want +got):\n%s", diff)
		}
		cancel()
		release(nil)
		synctest.Wait()
		if q.Cancel("q1") || q.Cancel("nobody") {
			t.Error("a call that is gone was cancelled")
		}
	})
}

// manual is a clock that moves when it is told.
type manual struct {
	now     time.Time
	planned []*plan
}

type plan struct {
	at      time.Time
	f       func()
	stopped bool
}

func (p *plan) Stop() bool { p.stopped = true; return true }

func (m *manual) Now() time.Time { return m.now }

func (m *manual) AfterFunc(d time.Duration, f func()) queue.Timer {
	p := &plan{at: m.now.Add(d), f: f}
	m.planned = append(m.planned, p)
	return p
}

func (m *manual) advance(d time.Duration) {
	m.now = m.now.Add(d)
	due := slices.Clone(m.planned)
	for _, p := range due {
		if !p.stopped && !p.at.After(m.now) {
			p.stopped = true
			p.f()
		}
	}
}

// All time comes from the clock that was given.
func TestInjectedClock(t *testing.T) {
	clock := &manual{now: time.Unix(1000, 0)}
	q := queue.New(queue.Options{Clock: clock, Limits: queue.Limits{Rate: 1}})
	enter := func() chan error {
		answer := make(chan error, 1)
		go func() { _, err := q.Enter(t.Context(), queue.Ticket{}); answer <- err }()
		return answer
	}
	if err := <-enter(); err != nil {
		t.Fatal(err)
	}
	second := enter()
	for q.Providers()[0].Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	clock.advance(999 * time.Millisecond)
	if n := q.Providers()[0].Waiting; n != 1 {
		t.Fatalf("%d calls wait, want 1", n)
	}
	clock.advance(time.Millisecond)
	if err := <-second; err != nil {
		t.Fatal(err)
	}
}
