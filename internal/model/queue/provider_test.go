package queue_test

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stave/internal/model"
	"stave/internal/model/queue"
)

// speech is a provider made of a function.
type speech func(ctx context.Context, yield func(model.Event, error) bool)

func (s speech) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) { s(ctx, yield) }
}

func silent(ctx context.Context, yield func(model.Event, error) bool) {
	<-ctx.Done()
	yield(model.Event{}, ctx.Err())
}

func play(ctx context.Context, p model.Provider, r model.Request) error {
	_, err := model.Assemble(p.Stream(ctx, r), model.Limits{}, func(model.Delta) error { return nil })
	return err
}

// However a stream ends, its place is free again.
func TestStreamsGiveTheirPlaceBack(t *testing.T) {
	ok := speech(func(_ context.Context, yield func(model.Event, error) bool) {
		_ = yield(model.Event{Text: "a"}, nil) && yield(model.Event{Done: model.StopEnd}, nil)
	})
	tests := map[string]struct {
		p       speech
		failure bool // of the provider
	}{
		"done":       {ok, false},
		"error":      {func(_ context.Context, yield func(model.Event, error) bool) { yield(model.Event{}, down) }, true},
		"no end":     {func(context.Context, func(model.Event, error) bool) {}, true},
		"panic":      {func(context.Context, func(model.Event, error) bool) { panic("bug") }, false},
		"given up":   {silent, false},
		"went quiet": {silent, true},
		"left": {func(_ context.Context, yield func(model.Event, error) bool) {
			for yield(model.Event{Text: "a"}, nil) {
			}
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := one(queue.Limits{Concurrency: 1, Failures: 1})
				func() {
					defer func() { _ = recover() }()
					ctx, cancel := context.WithCancelCause(t.Context())
					if name == "went quiet" {
						time.AfterFunc(time.Second, func() { cancel(&model.Error{Kind: model.ErrTimeout}) })
					} else {
						time.AfterFunc(time.Second, func() { cancel(nil) })
					}
					for ev := range q.Provider("p", tt.p).Stream(ctx, model.Request{}) {
						if ev.Done == "" && name == "left" {
							break
						}
					}
				}()
				if list := q.List(); len(list) > 0 {
					t.Fatalf("left behind: %+v", list)
				}
				err := play(t.Context(), q.Provider("p", ok), model.Request{})
				var open *queue.OpenError
				if errors.As(err, &open) != tt.failure {
					t.Errorf("the next call got %v, counted as a failure: want %v", err, tt.failure)
				}
				time.Sleep(2 * time.Second)
			})
		})
	}
}

// A call under way is stopped by its id, and its caller is told so.
func TestCancelRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := one(queue.Limits{Concurrency: 1})
		p := q.Provider("p", speech(silent))
		results := make([]error, 2)
		for i := range results {
			go func() {
				ctx := t.Context()
				if i == 0 {
					ctx = queue.WithConversation(ctx, "named")
				}
				results[i] = play(ctx, p, model.Request{Model: "m", CacheKey: "key", Priority: i})
			}()
			synctest.Wait()
		}
		list := q.List()
		if list[0].Conversation != "named" || list[1].Conversation != "key" || list[1].Priority != 1 {
			t.Errorf("list is %+v", list)
		}
		for _, e := range list {
			if !q.Cancel(e.ID) {
				t.Errorf("%s is not there", e.ID)
			}
			synctest.Wait()
		}
		for i, err := range results {
			if !errors.Is(err, queue.ErrCancelled) {
				t.Errorf("call %d got %v", i, err)
			}
		}
		if n := len(q.List()); n > 0 {
			t.Errorf("%d calls are left", n)
		}
	})
}

// Under any mix of calls, ends, cancels and failures the limits hold, nobody
// waits for ever and nothing is left behind.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, places = 2000, 7
		q := one(queue.Limits{Concurrency: places, Rate: 500, Burst: 20, Failures: 4, Open: time.Second})
		var running, over, went atomic.Int64
		p := q.Provider("p", speech(func(ctx context.Context, yield func(model.Event, error) bool) {
			went.Add(1)
			if running.Add(1) > places {
				over.Add(1)
			}
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			running.Add(-1) // its place is free with the last word
			switch rand.IntN(8) {
			case 0:
				yield(model.Event{}, down)
			case 1:
				yield(model.Event{}, &model.Error{Kind: model.ErrRateLimited, RetryAfter: 100 * time.Millisecond})
			default:
				yield(model.Event{Done: model.StopEnd}, ctx.Err())
			}
		}))
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				time.Sleep(time.Duration(rand.IntN(5000)) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(3000))*time.Millisecond)
				defer cancel()
				_ = play(ctx, p, model.Request{Priority: rand.IntN(5)})
			})
		}
		wg.Go(func() {
			for range 200 {
				time.Sleep(20 * time.Millisecond)
				if list := q.List(); len(list) > 0 {
					q.Cancel(list[rand.IntN(len(list))].ID)
				}
			}
		})
		wg.Wait()
		if over.Load() > 0 || went.Load() == 0 || len(q.List()) > 0 {
			t.Errorf("%d past the limit, %d went, %d left", over.Load(), went.Load(), len(q.List()))
		}
		if h := q.Providers()[0]; h.Running != 0 || h.Waiting != 0 || h.Probing {
			t.Errorf("left behind: %+v", h)
		}
	})
}

// A call that waits for its turn shows that it lives, and so does one that goes at once.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := one(queue.Limits{Concurrency: 1})
		release := enter(t, q, queue.Ticket{Provider: "p"})
		var beats atomic.Int64
		wait, stop := context.WithTimeout(model.WithPulse(t.Context(), func() { beats.Add(1) }), 12*time.Second)
		defer stop()
		p := q.Provider("p", speech(silent))
		if err := play(wait, p, model.Request{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		if n := beats.Load(); n != 3 { // two while it waited, one at its end
			t.Errorf("%d pulses in 12 s, want 3", n)
		}
		release(nil)
		beats.Store(0)
		short, stop := context.WithTimeout(model.WithPulse(t.Context(), func() { beats.Add(1) }), time.Second)
		defer stop()
		_ = play(short, p, model.Request{})
		if n := beats.Load(); n != 1 {
			t.Errorf("%d pulses of a call that went at once, want 1", n)
		}
	})
}

// BenchmarkWaiting is what it costs to pass the queue with ten thousand calls in it.
func BenchmarkWaiting(b *testing.B) {
	const callers = 10_000
	q := one(queue.Limits{Concurrency: 4})
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for i := range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				release, err := q.Enter(b.Context(), queue.Ticket{Priority: 1 + i%10})
				if err != nil {
					b.Error(err)
					return
				}
				release(nil)
			}
		})
	}
	wg.Wait()
}
