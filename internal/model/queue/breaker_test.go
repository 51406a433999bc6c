package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
	"stave/internal/model/queue"
)

func fail(t *testing.T, q *queue.Queue, times int, err error) {
	t.Helper()
	for range times {
		enter(t, q, queue.Ticket{Provider: "p"})(err)
	}
}

// wantOpen demands that a call is refused until a time.
func wantOpen(t *testing.T, q *queue.Queue, wait time.Duration) {
	t.Helper()
	_, err := q.Enter(t.Context(), queue.Ticket{Provider: "p"})
	var open *queue.OpenError
	var known *model.Error
	if !errors.As(err, &open) || !errors.As(err, &known) {
		t.Fatalf("got %v, want an open error", err)
	}
	if open.Provider != "p" || !open.Until.Equal(time.Now().Add(wait)) || known.RetryAfter != wait || !known.Retryable {
		t.Errorf("got %+v with %+v, want a wait of %v", open, known, wait)
	}
}

// After failures in a row nothing goes; then one probe decides for all.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := one(queue.Limits{Failures: 3, Open: 10 * time.Second, MaxOpen: 30 * time.Second})
		fail(t, q, 2, down)
		fail(t, q, 1, declined) // a refusal is the answer of a service that works
		fail(t, q, 2, down)
		fail(t, q, 1, context.Canceled) // and this says nothing
		fail(t, q, 1, down)
		wantOpen(t, q, 10*time.Second)
		enter(t, q, queue.Ticket{Provider: "other"})(nil)
		for _, next := range []time.Duration{20, 30, 30} { // probes that fail: longer each time
			time.Sleep(time.Until(q.Providers()[1].Open))
			fail(t, q, 1, down)
			wantOpen(t, q, next*time.Second)
		}
		time.Sleep(30 * time.Second)
		fail(t, q, 1, nil) // the probe works
		fail(t, q, 2, down)
		enter(t, q, queue.Ticket{Provider: "p"})(nil)
	})
}

// While the probe is under way others wait for it; its end is theirs.
func TestProbeDecides(t *testing.T) {
	for name, end := range map[string]error{"works": nil, "fails": down, "says nothing": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := one(queue.Limits{Failures: 1, Open: 10 * time.Second})
				fail(t, q, 1, down)
				time.Sleep(10 * time.Second)
				probe := enter(t, q, queue.Ticket{Provider: "p"})
				l := newLater()
				for _, call := range []string{"a", "b"} {
					l.call(t.Context(), q, call, queue.Ticket{Provider: "p"}, time.Second, nil)
				}
				if len(l.gone) > 0 || !q.Providers()[0].Probing {
					t.Fatalf("%v did not wait for the probe", l.gone)
				}
				probe(end)
				time.Sleep(time.Minute)
				synctest.Wait()
				var refused *queue.OpenError
				isRefused := errors.As(l.errs["a"], &refused) && errors.As(l.errs["b"], &refused)
				if isRefused != (end == down) || len(l.gone) != 2 {
					t.Errorf("gone %v with %v", l.gone, l.errs)
				}
				want := map[string]time.Duration{"a": 0, "b": 0}
				if errors.Is(end, context.Canceled) {
					want["b"] = time.Second // a became the probe
				}
				if diff := cmp.Diff(want, l.at); diff != "" {
					t.Errorf("times (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Calls from before the opening neither close it nor open it again, and those
// that wait when it opens are told.
func TestBreakerAndOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := one(queue.Limits{Failures: 1, Open: 10 * time.Second, Concurrency: 3})
		first, second, third := enter(t, q, queue.Ticket{Provider: "p"}), enter(t, q, queue.Ticket{Provider: "p"}), enter(t, q, queue.Ticket{Provider: "p"})
		l := newLater()
		l.call(t.Context(), q, "waits", queue.Ticket{Provider: "p"}, 0, nil)
		first(down)
		synctest.Wait()
		var open *queue.OpenError
		if !errors.As(l.errs["waits"], &open) {
			t.Errorf("the waiting call got %v", l.errs["waits"])
		}
		second(nil)
		wantOpen(t, q, 10*time.Second)
		time.Sleep(10 * time.Second)
		fail(t, q, 1, nil)
		third(down)
		enter(t, q, queue.Ticket{Provider: "p"})(nil)
		if n := len(q.List()); n != 0 {
			t.Errorf("%d calls are left", n)
		}
	})
}

// A probe that has to wait for the rate is still the probe.
func TestProbeWaitsForTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := one(queue.Limits{Failures: 1, Open: time.Second, Rate: 0.1})
		fail(t, q, 1, down)
		l := newLater()
		time.Sleep(2 * time.Second)
		l.call(t.Context(), q, "probe", queue.Ticket{Provider: "p"}, 0, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff(map[string]time.Duration{"probe": 10 * time.Second}, l.at); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
	})
}

func TestBreakerCanBeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail(t, one(queue.Limits{Failures: -1}), 100, down)
	})
}
