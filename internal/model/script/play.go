package script

import (
	"context"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"

	"stave/internal/model"
)

// endlessText is what an endless stream says, again and again.
const endlessText = "and so on "

type yieldFunc func(model.Event, error) bool

// play makes one attempt at a reply.
func (r *reply) play(ctx context.Context, number, attempt int, yield yieldFunc) {
	fault := r.fault(attempt)
	pause, sent := r.delay, 0
	for ev := range r.events(number) {
		if err := wait(ctx, pause); err != nil {
			yield(model.Event{}, err)
			return
		}
		if fault != nil && sent == fault.after {
			fault.strike(ctx, r.pace, yield)
			return
		}
		if !yield(ev, nil) {
			return
		}
		pause = r.pace
		sent++
	}
}

func (r *reply) fault(attempt int) *fault {
	// A request that does not count its attempts is a first one.
	i := max(attempt, 1) - 1
	if i >= len(r.faults) {
		return nil
	}
	return &r.faults[i]
}

func (f *fault) strike(ctx context.Context, pace time.Duration, yield yieldFunc) {
	switch f.kind {
	case fails:
		failure := *f.err
		yield(model.Event{}, &failure)
	case ends:
	case endless:
		for yield(model.Event{Text: endlessText}, nil) {
			if err := wait(ctx, pace); err != nil {
				yield(model.Event{}, err)
				return
			}
		}
	case stalls:
		<-ctx.Done()
		yield(model.Event{}, ctx.Err())
	case panics:
		panic(f.text)
	}
}

// events yields what the reply says when nothing goes wrong.
func (r *reply) events(number int) iter.Seq[model.Event] {
	return func(yield func(model.Event) bool) {
		if !r.reasoningEvents(yield) || !r.textEvents(yield) {
			return
		}
		for i, c := range r.calls {
			id := fmt.Sprintf("script_%d_%d", number, i+1)
			if c.id != nil {
				id = *c.id
			}
			if !yield(model.Event{Call: &model.RawCall{ID: id, Name: c.tool, Args: c.args}}) {
				return
			}
		}
		if r.usage != nil {
			usage := *r.usage
			if !yield(model.Event{Usage: &usage}) {
				return
			}
		}
		yield(model.Event{Done: r.stopReason()})
	}
}

func (r *reply) reasoningEvents(yield func(model.Event) bool) bool {
	if r.reasoning == "" && r.opaque == "" {
		return true
	}
	for piece := range pieces(r.reasoning, r.chunk) {
		if !yield(model.Event{Reasoning: &model.Reasoning{Text: piece}}) {
			return false
		}
	}
	if r.opaque != "" && !yield(model.Event{Reasoning: &model.Reasoning{Opaque: r.opaque}}) {
		return false
	}
	return yield(model.Event{ItemDone: true})
}

func (r *reply) textEvents(yield func(model.Event) bool) bool {
	said := false
	for _, delta := range r.deltas {
		for piece := range pieces(delta, r.chunk) {
			said = true
			if !yield(model.Event{Text: piece}) {
				return false
			}
		}
	}
	return !said || yield(model.Event{ItemDone: true})
}

func (r *reply) stopReason() model.StopReason {
	switch {
	case r.stop != "":
		return r.stop
	case len(r.calls) > 0:
		return model.StopToolCalls
	}
	return model.StopEnd
}

// pieces splits a text after every n runes; n = 0 leaves it whole.
func pieces(text string, n int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			end := len(text)
			if n > 0 {
				end = 0
				for i := 0; i < n && end < len(text); i++ {
					_, width := utf8.DecodeRuneInString(text[end:])
					end += width
				}
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// wait returns an error as soon as ctx has ended.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
