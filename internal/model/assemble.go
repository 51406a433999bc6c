package model

import (
	"fmt"
	"iter"
	"unicode/utf8"
)

// Assembler builds a Response from the events of one attempt. Its zero value
// is ready and has the default limits.
type Assembler struct {
	limits Limits
	events int
	bytes  int

	parts  []Part
	item   item
	text   []byte    // of the open item
	opaque []byte    // of the open item
	mind   Reasoning // whose the open thought is: id, origin, redacted
	utf8   repairer

	calls    []RawCall
	usage    Usage
	reported bool
	clamped  bool
	stop     StopReason
	err      error
}

type item int

const (
	noItem item = iota
	textItem
	reasoningItem
)

// NewAssembler returns an Assembler with its own limits.
func NewAssembler(l Limits) *Assembler { return &Assembler{limits: l} }

// Assemble reads a stream to its end. Every delta is handed to emit, whose
// error ends the reading. With an error the Response holds what had come.
func Assemble(stream iter.Seq2[Event, error], l Limits, emit func(Delta) error) (Response, error) {
	a := NewAssembler(l)
	for ev, err := range stream {
		if err != nil {
			partial, _ := a.Result()
			return partial, err
		}
		delta, err := a.Add(ev)
		if delta != (Delta{}) {
			if stopped := emit(delta); err == nil {
				err = stopped
			}
		}
		if err != nil {
			partial, _ := a.Result()
			return partial.withoutCalls(), err
		}
		if ev.Done != "" {
			break
		}
	}
	return a.Result()
}

// Add takes the next event and returns what it adds for those who watch, even
// beside an error. Events after Done are ignored; after an error every further
// Add returns that error.
func (a *Assembler) Add(ev Event) (Delta, error) {
	if a.err != nil || a.stop != "" {
		return Delta{}, a.err
	}
	var d Delta
	d, a.err = a.add(ev)
	return d, a.err
}

func (a *Assembler) add(ev Event) (Delta, error) {
	limits := a.limits.withDefaults()
	if a.events++; a.events > limits.Events {
		return Delta{}, overLimit(limits.Events, "events")
	}
	var d Delta
	if ev.Reasoning != nil {
		if err := a.addReasoning(*ev.Reasoning, &d); err != nil {
			return d, err
		}
	}
	if ev.Text != "" {
		if err := a.open(textItem, &d); err != nil {
			return d, err
		}
		if err := a.write(ev.Text, &d); err != nil {
			return d, err
		}
	}
	if ev.ItemDone {
		a.close(&d)
		d.ItemDone = true
	}
	if ev.Call != nil {
		a.close(&d)
		d.ItemDone = true
		if err := a.addCall(*ev.Call, limits.Calls); err != nil {
			return d, err
		}
	}
	if ev.Usage != nil {
		a.addUsage(*ev.Usage)
	}
	if ev.Done != "" {
		a.close(&d)
		d.ItemDone = true
		return d, a.finish(ev.Done)
	}
	return d, nil
}

func (a *Assembler) addReasoning(r Reasoning, d *Delta) error {
	// An opaque end closes its thought: text after it begins the next one.
	if r.Text != "" && len(a.opaque) > 0 {
		a.close(d)
	}
	if err := a.open(reasoningItem, d); err != nil {
		return err
	}
	if err := a.charge(len(r.ID) + len(r.Origin)); err != nil {
		return err
	}
	if r.ID != "" {
		a.mind.ID = a.utf8.repair(r.ID)
	}
	if r.Origin != "" {
		a.mind.Origin = r.Origin
	}
	a.mind.Redacted = a.mind.Redacted || r.Redacted
	if err := a.write(r.Text, d); err != nil {
		return err
	}
	if r.Opaque == "" {
		return nil
	}
	if !utf8.ValidString(r.Opaque) {
		return &Error{Kind: ErrStream, Message: "the opaque end of a thought is not UTF-8 and could not be sent back unchanged", Retryable: true}
	}
	if err := a.charge(len(r.Opaque)); err != nil {
		return err
	}
	a.opaque = append(a.opaque, r.Opaque...)
	return nil
}

func (a *Assembler) addCall(c RawCall, most int) error {
	if len(a.calls) == most {
		return overLimit(most, "tool calls")
	}
	if err := a.charge(len(c.ID) + len(c.Name) + len(c.Args) + len(c.Opaque)); err != nil {
		return err
	}
	if !utf8.ValidString(c.Opaque) {
		return &Error{Kind: ErrStream, Message: "the opaque part of a call is not UTF-8 and could not be sent back unchanged", Retryable: true}
	}
	c.ID, c.Name = a.utf8.repair(c.ID), a.utf8.repair(c.Name)
	a.calls = append(a.calls, c)
	return nil
}

func (a *Assembler) addUsage(u Usage) {
	clamp := func(n int64) int64 { return min(max(n, 0), MaxUsageTokens) }
	a.usage = Usage{
		clamp(u.InputTokens), clamp(u.OutputTokens), clamp(u.CachedTokens),
		clamp(u.CacheWriteTokens), clamp(u.ReasoningTokens),
	}
	a.clamped = a.usage != u
	a.reported = true
}

func (a *Assembler) finish(stop StopReason) error {
	switch stop {
	case StopEnd, StopToolCalls, StopLength, StopRefusal:
	default:
		var r repairer
		return &Error{Kind: ErrInternal, Message: fmt.Sprintf("the provider reported the unknown stop reason %.40q", r.repair(string(stop)))}
	}
	if stop == StopToolCalls && len(a.calls) == 0 {
		return &Error{Kind: ErrStream, Message: "the response ended for tool calls and has none", Retryable: true}
	}
	if stop == StopEnd && len(a.calls) > 0 {
		stop = StopToolCalls
	}
	a.stop = stop
	return nil
}

// open makes sure that an item of this kind is open.
func (a *Assembler) open(kind item, d *Delta) error {
	if a.item == kind {
		return nil
	}
	a.close(d)
	if most := a.limits.withDefaults().Items; len(a.parts) >= most {
		return overLimit(most, "items")
	}
	a.item = kind
	return nil
}

// write adds text to the open item.
func (a *Assembler) write(s string, d *Delta) error {
	if err := a.room(len(s)); err != nil {
		return err
	}
	clean := a.utf8.add(s)
	// Repairing can make a text longer, so the clean one is what counts.
	if err := a.charge(len(clean)); err != nil {
		return err
	}
	a.put(clean, d)
	return nil
}

func (a *Assembler) put(clean string, d *Delta) {
	a.text = append(a.text, clean...)
	switch a.item {
	case textItem:
		d.Text += clean
	case reasoningItem:
		d.Reasoning += clean
	case noItem:
	}
}

// close ends the open item, and with it the wait for the rest of a split rune.
func (a *Assembler) close(d *Delta) {
	a.put(a.utf8.flush(), d)
	a.parts = a.withOpenItem()
	a.item, a.text, a.opaque, a.mind = noItem, a.text[:0], a.opaque[:0], Reasoning{}
}

// withOpenItem returns the parts, the open one included.
func (a *Assembler) withOpenItem() []Part {
	switch {
	case a.item == textItem && len(a.text) > 0:
		return append(a.parts, Part{Text: string(a.text)})
	case a.item == reasoningItem && len(a.text)+len(a.opaque)+len(a.mind.ID) > 0:
		r := a.mind
		r.Text, r.Opaque = string(a.text), string(a.opaque)
		return append(a.parts, Part{Reasoning: &r})
	}
	return a.parts
}

func (a *Assembler) room(n int) error {
	if most := a.limits.withDefaults().Bytes; n > most-a.bytes {
		return overLimit(most, "bytes")
	}
	return nil
}

func (a *Assembler) charge(n int) error {
	if err := a.room(n); err != nil {
		return err
	}
	a.bytes += n
	return nil
}

func overLimit(most int, what string) error {
	return &Error{Kind: ErrLimit, Message: fmt.Sprintf("the response has more than %d %s", most, what)}
}

// Result returns the response. Without a Done that is a retryable error of kind
// ErrStream; with any error the Response holds what had come, and no calls.
func (a *Assembler) Result() (Response, error) {
	r := Response{
		Parts:         append([]Part(nil), a.withOpenItem()...),
		Usage:         a.usage,
		UsageReported: a.reported,
		UsageClamped:  a.clamped,
		Repaired:      a.utf8.replaced,
		Stop:          a.stop,
	}
	r.Text = textOf(r.Parts)
	r.Calls = append([]RawCall(nil), a.calls...)
	if a.err != nil || a.stop != StopEnd && a.stop != StopToolCalls {
		r = r.withoutCalls()
	}
	if a.err == nil && a.stop == "" {
		return r, &Error{Kind: ErrStream, Message: "the stream ended before the response was complete", Retryable: true}
	}
	return r, a.err
}
