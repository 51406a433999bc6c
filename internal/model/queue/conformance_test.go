package queue_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"stave/internal/conformance"
	"stave/internal/model"
	"stave/internal/model/queue"
)

// A provider behind the queue keeps every promise of a provider.
func TestConformance(t *testing.T) {
	conformance.Provider(t, func(_ *testing.T, s conformance.ProviderScenario) model.Provider {
		q := queue.New(queue.Options{Limits: queue.Limits{Concurrency: 8, Rate: 10_000, Burst: 10}})
		return q.Provider("p", actor(s))
	})
}

// actor plays a scenario without any network.
type actor conformance.ProviderScenario

// Stream plays the try that the request is.
func (a actor) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	try := a.Tries[min(r.Attempt, len(a.Tries))-1]
	return func(yield func(model.Event, error) bool) {
		if try.Refusal != nil {
			refusal := *try.Refusal
			refusal.Message = "refused"
			yield(model.Event{}, &refusal)
			return
		}
		for _, ev := range words(try) {
			if !yield(ev, nil) {
				return
			}
			if ctx.Err() != nil {
				yield(model.Event{}, ctx.Err())
				return
			}
		}
		ending(ctx, try, yield)
	}
}

func words(try conformance.Try) []model.Event {
	var all []model.Event
	if try.Reasoning != "" {
		all = append(all, model.Event{Reasoning: &model.Reasoning{Text: try.Reasoning}})
	}
	for _, text := range try.Text {
		all = append(all, model.Event{Text: text})
	}
	for _, c := range try.Calls {
		all = append(all, model.Event{Call: &c})
	}
	return all
}

func ending(ctx context.Context, try conformance.Try, yield func(model.Event, error) bool) {
	switch try.Ending {
	case conformance.Complete:
		_ = yield(model.Event{Usage: &try.Usage}, nil) && yield(model.Event{Done: try.Stop}, nil)
	case conformance.Cut:
		yield(model.Event{}, &model.Error{Kind: model.ErrStream, Message: "cut", Retryable: true})
	case conformance.Stall:
		<-ctx.Done()
		yield(model.Event{}, ctx.Err())
	case conformance.Endless:
		for yield(model.Event{Text: "more"}, nil) {
			if ctx.Err() != nil {
				yield(model.Event{}, ctx.Err())
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}
