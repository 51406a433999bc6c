package queue

import (
	"context"
	"errors"
	"iter"

	"stave/internal/model"
)

type conversationKey struct{}

// WithConversation names the conversation that the calls made with this context
// belong to. Without it a request's cache key stands for it.
func WithConversation(ctx context.Context, conversation string) context.Context {
	return context.WithValue(ctx, conversationKey{}, conversation)
}

// errLeft is the end of a call whose reader left it.
var errLeft = errors.New("the reader has left")

// Provider returns p behind the queue: a stream begins when its call may go,
// and tells the queue how it ended. Calls of the same name share their limits.
func (q *Queue) Provider(name string, p model.Provider) model.Provider {
	return &provider{q, name, p}
}

type provider struct {
	queue *Queue
	name  string
	inner model.Provider
}

// Stream waits for its turn and then passes on the stream of the provider. It
// tries once: a retry is a new call.
func (p *provider) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		inner, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		release, err := p.queue.Enter(inner, p.ticket(ctx, r, cancel))
		model.Pulse(ctx)
		if err != nil {
			yield(model.Event{}, told(ctx, inner, err))
			return
		}
		end := errLeft
		defer func() { release(learned(ctx, end)) }()
		for ev, err := range p.inner.Stream(inner, r) {
			if err != nil {
				end = told(ctx, inner, err)
				release(learned(ctx, end)) // whoever reads on need not be waited for
				yield(model.Event{}, end)
				return
			}
			if ev.Done != "" {
				end = nil
				release(end)
			}
			if !yield(ev, nil) || ev.Done != "" {
				return
			}
		}
		end = &model.Error{Kind: model.ErrStream, Message: "the provider ended its stream without a word", Retryable: true}
	}
}

// told is the error for the caller: the end of a context that Cancel ended is
// not the caller's own.
func told(outer, inner context.Context, err error) error {
	if outer.Err() == nil && errors.Is(context.Cause(inner), ErrCancelled) {
		return ErrCancelled
	}
	return err
}

// learned is the error for the queue: a caller that gave up tells by its cause
// whether the provider had gone silent.
func learned(ctx context.Context, err error) error {
	var cause *model.Error
	if err != nil && ctx.Err() != nil && errors.As(context.Cause(ctx), &cause) {
		return cause
	}
	return err
}

func (p *provider) ticket(ctx context.Context, r model.Request, cancel context.CancelCauseFunc) Ticket {
	conversation, _ := ctx.Value(conversationKey{}).(string)
	if conversation == "" {
		conversation = r.CacheKey
	}
	return Ticket{
		Provider: p.name, Conversation: conversation, Model: r.Model, Priority: r.Priority,
		Stop: func() { cancel(ErrCancelled) },
	}
}
