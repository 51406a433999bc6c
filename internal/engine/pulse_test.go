package engine_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"stave/internal/engine"
	"stave/internal/model"
	"stave/internal/runelog/memory"
)

// TestPulse shows that a call which lives is not taken for a silent one although
// it yields nothing for long, and that one without a sign of life is.
func TestPulse(t *testing.T) {
	const idle = 200 * time.Millisecond
	for _, alive := range []bool{true, false} {
		r := newRig(t, memory.New(), `{replies: [{text: done}]}`, func(o *engine.Options) {
			o.StreamIdle = idle
			usual := o.Provider
			o.Provider = func(ctx context.Context, name string) (model.Provider, error) {
				p, err := usual(ctx, name)
				return slow{p, alive, idle}, err
			}
		})
		log := r.begin("hello", "ask")
		r.settle(log)
		if got := count(r.kinds(log), "turn.retried"); (got > 0) == alive {
			t.Errorf("alive %t: tried again %d times", alive, got)
		}
	}
}

// slow takes several times the patience before its first word, in its first
// attempt.
type slow struct {
	model.Provider
	alive bool
	idle  time.Duration
}

func (s slow) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		for i := 0; i < 30 && ctx.Err() == nil && r.Attempt == 1; i++ {
			select {
			case <-time.After(s.idle / 10):
			case <-ctx.Done():
			}
			if s.alive {
				model.Pulse(ctx)
			}
		}
		s.Provider.Stream(ctx, r)(yield)
	}
}
