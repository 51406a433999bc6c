package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"stave/internal/model"
	"stave/internal/model/sse"
)

// blockKind says what a content block is to us.
type blockKind string

const (
	textBlock     blockKind = "text"
	thinkingBlock blockKind = "thinking"
	callBlock     blockKind = "tool_use"
	resultBlock   blockKind = "tool_result"
	otherBlock    blockKind = "other" // made by tools we do not ask for, or newer than we are
)

// block is one content block of an answer.
type block struct {
	index  int64
	kind   blockKind
	open   bool
	id     string
	name   string
	input  []byte // as it came with the start of the block
	pieces []byte // as it came in deltas
}

// answer follows one stream. Text and thoughts are passed on as they come, calls
// only when the message is complete: before that nothing of it may run.
type answer struct {
	p       *Provider
	names   map[string]string // of tools, as sent to ours
	emit    func(model.Event) error
	blocks  map[int64]*block
	talking *block // the open block of text or thought
	bytes   int    // held of calls
	used    tally
	stop    string
}

func (p *Provider) read(body io.Reader, names map[string]string, emit func(model.Event) error) error {
	events := sse.NewReader(body, p.limits)
	defer events.Release()
	a := &answer{p: p, names: names, emit: emit, blocks: map[int64]*block{}}
	for {
		ev, err := events.Next()
		if err != nil {
			return cut(err)
		}
		if len(ev.Data) == 0 {
			continue
		}
		done, err := a.take(ev.Data)
		if done || err != nil {
			return err
		}
	}
}

// cut says what the end of a stream means while the message is not complete.
func cut(err error) error {
	var known *model.Error
	if errors.As(err, &known) {
		return err
	}
	return streamError("the connection was lost before the response was complete")
}

// take handles one event and reports whether the message is complete.
func (a *answer) take(data []byte) (bool, error) {
	if ev, ok := quickDelta(data); ok {
		return false, a.addDelta(ev)
	}
	ev, ok := quickEvent(data)
	if !ok {
		ev = event{}
		if err := json.Unmarshal(data, &ev); err != nil {
			return false, streamError("an event of the stream is not readable JSON")
		}
	}
	switch ev.Type {
	case "message_start":
		if ev.Message != nil && ev.Message.Usage != nil {
			return false, a.report(ev.Message.Usage)
		}
	case "content_block_start":
		return false, a.startBlock(ev)
	case "content_block_delta":
		return false, a.addDelta(ev)
	case "content_block_stop":
		return false, a.stopBlock(ev)
	case "message_delta":
		if ev.Delta != nil && ev.Delta.StopReason != "" {
			a.stop = ev.Delta.StopReason
		}
		if ev.Usage != nil {
			return false, a.report(ev.Usage)
		}
	case "message_stop":
		return true, a.finish()
	case "error":
		if ev.Error == nil {
			ev.Error = &failure{}
		}
		return false, a.p.failed(*ev.Error, 0)
	}
	return false, nil // ping, and what is newer than we are
}

func (a *answer) report(u *usage) error {
	a.used.add(u)
	return a.emit(model.Event{Usage: a.used.usage()})
}

func (a *answer) startBlock(ev event) error {
	if ev.Index == nil || ev.Block == nil {
		return streamError("a block of the stream has no index or no content")
	}
	if a.blocks[*ev.Index] != nil {
		return streamError("two blocks of the stream have the same index %d", *ev.Index)
	}
	if len(a.blocks) == model.MaxResponseItems {
		return overLimit("the response has more than %d blocks", model.MaxResponseItems)
	}
	b := &block{index: *ev.Index, kind: otherBlock, open: true}
	a.blocks[b.index] = b
	c := ev.Block
	switch c.Type {
	case "text":
		b.kind = textBlock
		if err := a.talk(b); err != nil {
			return err
		}
		return a.say(string(c.Text))
	case "thinking", "redacted_thinking":
		b.kind = thinkingBlock
		if err := a.talk(b); err != nil {
			return err
		}
		if c.Type == "thinking" {
			return a.think(string(c.Thinking), string(c.Signature), false)
		}
		return a.think("", string(c.Data), true)
	case "tool_use":
		return a.startCall(b, c)
	}
	return nil
}

// talk makes b the block whose words are passed on. Two at once could not be
// told apart by those who watch.
func (a *answer) talk(b *block) error {
	if a.talking != nil {
		return streamError("the blocks %d and %d of the stream are open at once", a.talking.index, b.index)
	}
	a.talking = b
	return nil
}

func (a *answer) say(s string) error {
	if s == "" {
		return nil
	}
	return a.emit(model.Event{Text: s})
}

func (a *answer) think(s, opaque string, redacted bool) error {
	if s == "" && opaque == "" {
		return nil
	}
	return a.emit(model.Event{Reasoning: &model.Reasoning{Text: s, Opaque: opaque, Redacted: redacted, Origin: Origin}})
}

func (a *answer) startCall(b *block, c *content) error {
	b.kind = callBlock
	b.id, b.name, b.input = string(c.ID), string(c.Name), bytes.Clone(c.Input)
	calls := 0
	for _, other := range a.blocks {
		if other.kind == callBlock {
			calls++
		}
	}
	if calls > model.MaxResponseCalls {
		return overLimit("the response has more than %d tool calls", model.MaxResponseCalls)
	}
	return a.hold(len(b.id) + len(b.name) + len(b.input))
}

func (a *answer) hold(n int) error {
	if a.bytes += n; a.bytes > model.MaxResponseBytes {
		return overLimit("the calls of the response have more than %d bytes", model.MaxResponseBytes)
	}
	return nil
}

func (a *answer) openBlock(ev event) (*block, error) {
	if ev.Index == nil || a.blocks[*ev.Index] == nil || !a.blocks[*ev.Index].open {
		return nil, streamError("an event of the stream belongs to a block that is not open")
	}
	return a.blocks[*ev.Index], nil
}

func (a *answer) addDelta(ev event) error {
	b, err := a.openBlock(ev)
	if err != nil || ev.Delta == nil {
		return err
	}
	want := otherBlock
	switch d := ev.Delta; d.Type {
	case "text_delta":
		if want = textBlock; b.kind == want {
			return a.say(string(d.Text))
		}
	case "thinking_delta":
		if want = thinkingBlock; b.kind == want {
			return a.think(string(d.Thinking), "", false)
		}
	case "signature_delta":
		if want = thinkingBlock; b.kind == want {
			return a.think("", string(d.Signature), false)
		}
	case "input_json_delta":
		if want = callBlock; b.kind == want {
			b.pieces = append(b.pieces, d.Partial...)
			return a.hold(len(d.Partial))
		}
	}
	if b.kind == otherBlock || want == otherBlock {
		return nil
	}
	return streamError("block %d of the stream is %s and gets a delta of %s", b.index, b.kind, want)
}

func (a *answer) stopBlock(ev event) error {
	b, err := a.openBlock(ev)
	if err != nil {
		return err
	}
	b.open = false
	if a.talking == b {
		a.talking = nil
	}
	if b.kind == otherBlock {
		return nil
	}
	return a.emit(model.Event{ItemDone: true})
}

// finish gives out the calls in the order of their blocks, and the end.
func (a *answer) finish() error {
	var calls []*block
	for _, b := range a.blocks {
		if b.open {
			return streamError("the message ended while block %d was open", b.index)
		}
		if b.kind == callBlock {
			calls = append(calls, b)
		}
	}
	stop, err := a.stopReason()
	if err != nil {
		return err
	}
	slices.SortFunc(calls, func(x, y *block) int { return int(min(max(x.index-y.index, -1), 1)) })
	for _, b := range calls {
		if err := a.emit(model.Event{Call: a.call(b)}); err != nil {
			return err
		}
	}
	return a.emit(model.Event{Done: stop})
}

func (a *answer) call(b *block) *model.RawCall {
	c := &model.RawCall{ID: b.id, Name: b.name, Args: string(b.pieces)}
	if ours, ok := a.names[c.Name]; ok {
		c.Name = ours
	}
	if c.Args == "" {
		c.Args = string(b.input)
	}
	if c.Args == "" || c.Args == "null" {
		c.Args = "{}"
	}
	// The API wants to hear its own id again: a thought is bound to all that came before it.
	if validID(b.id) && utf8.ValidString(b.id) {
		c.Opaque, c.Origin = b.id, Origin
	}
	return c
}

func (a *answer) stopReason() (model.StopReason, error) {
	switch a.stop {
	case "end_turn", "stop_sequence":
		return model.StopEnd, nil
	case "tool_use":
		return model.StopToolCalls, nil
	case "refusal":
		return model.StopRefusal, nil
	case "max_tokens", "model_context_window_exceeded":
		return model.StopLength, nil
	case "pause_turn":
		// Only tools that run at the service pause, and we ask for none: what came is not all.
		return model.StopLength, nil
	case "":
		return "", streamError("the message ended without a reason")
	}
	return "", &model.Error{Kind: model.ErrInternal, Message: "the model stopped for a reason that this program does not know: " + a.p.clean(a.stop)}
}

func overLimit(format string, most int) error {
	return &model.Error{Kind: model.ErrLimit, Message: fmt.Sprintf(format, most)}
}
