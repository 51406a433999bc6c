package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"stave/internal/model"
)

// responsesReader makes sense of a Responses stream. Text and thoughts are
// given as they come; calls only when the response is complete, in the order of
// their items.
type responsesReader struct {
	service *service
	out     *sink
	items   []*responsesItem         // in the order they began
	newest  map[int64]*responsesItem // by output index, which a confused server may use twice
	held    int                      // bytes kept in items
	refused bool
}

type responsesItem struct {
	index int64
	kind  string
	said  bool // something of it was given
	done  bool
	whole bool // the arguments are all there
	call  model.RawCall
	args  []byte
}

func newResponsesReader(s *service, out *sink) *responsesReader {
	return &responsesReader{service: s, out: out, newest: map[int64]*responsesItem{}}
}

type responsesEvent struct {
	OutputIndex  int64        `json:"output_index"`
	SummaryIndex int64        `json:"summary_index"`
	Delta        text         `json:"delta"`
	Arguments    arguments    `json:"arguments"`
	Item         wireItem     `json:"item"`
	Response     wireResponse `json:"response"`
}

type wireItem struct {
	ID               string     `json:"id"`
	Type             string     `json:"type"`
	CallID           string     `json:"call_id"`
	Name             string     `json:"name"`
	Arguments        arguments  `json:"arguments"`
	EncryptedContent text       `json:"encrypted_content"`
	Summary          []wirePart `json:"summary"`
	Content          []wirePart `json:"content"`
}

type wirePart struct {
	Text    text `json:"text"`
	Refusal text `json:"refusal"`
}

type wireResponse struct {
	Status     string          `json:"status"`
	Error      json.RawMessage `json:"error"`
	Output     []wireItem      `json:"output"`
	Usage      json.RawMessage `json:"usage"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

// event looks at the type first: what it does not know it does not read, so that
// tomorrow's events cannot break it.
func (r *responsesReader) event(name string, data []byte) (bool, error) {
	if isDone(data) {
		return false, r.end()
	}
	if kind, ev, ok := quickText(data); ok {
		return r.handler(kind)(&ev)
	}
	if kind, ev, ok := quickEvent(data); ok {
		if handle := r.handler(kind); handle != nil {
			return handle(&ev)
		}
		return false, nil
	}
	var head struct {
		Type  string          `json:"type"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &head) != nil {
		return false, notJSON(data)
	}
	if head.Type == "" {
		head.Type = name
	}
	if head.Type == "error" || head.Type == "" && present(head.Error) {
		return false, r.service.streamFault(parseFault(data))
	}
	handle := r.handler(head.Type)
	if handle == nil {
		return false, nil
	}
	var ev responsesEvent
	if json.Unmarshal(data, &ev) != nil {
		return false, notJSON(data)
	}
	return handle(&ev)
}

func (r *responsesReader) end() error {
	return broken("the stream of " + r.service.Name + " ended before the response was complete")
}

// handler is what to do with an event of a type, or nil for nothing.
func (r *responsesReader) handler(kind string) func(*responsesEvent) (bool, error) {
	switch kind {
	case "response.output_item.added":
		return func(ev *responsesEvent) (bool, error) {
			_, err := r.begin(ev.OutputIndex, &ev.Item)
			return false, err
		}
	case "response.output_text.delta":
		return r.textDelta
	case "response.refusal.delta":
		return r.refusalDelta
	case "response.reasoning_summary_part.added":
		return r.summaryPart
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return r.thoughtDelta
	case "response.function_call_arguments.delta":
		return r.argumentsDelta
	case "response.function_call_arguments.done":
		return r.argumentsDone
	case "response.output_item.done":
		return func(ev *responsesEvent) (bool, error) { return false, r.itemDone(ev.OutputIndex, &ev.Item) }
	case "response.completed":
		return r.completed
	case "response.incomplete":
		return r.incomplete
	case "response.failed":
		return r.failed
	}
	return nil
}

func (r *responsesReader) begin(index int64, w *wireItem) (*responsesItem, error) {
	if len(r.items) == model.MaxResponseItems {
		return nil, overLimit(model.MaxResponseItems, "items")
	}
	it := &responsesItem{index: index, kind: w.Type}
	it.call.ID, it.call.Name = w.CallID, w.Name
	r.items = append(r.items, it)
	r.newest[index] = it
	// What was open is finished, as far as watching goes, once a call begins.
	if w.Type == "function_call" {
		if err := r.out.endItem(); err != nil {
			return nil, err
		}
	}
	return it, r.hold(len(w.CallID) + len(w.Name))
}

// at finds the item an event speaks of. A server that leaves out the beginning
// of an item has begun it with its first event.
func (r *responsesReader) at(index int64, kind string) (*responsesItem, error) {
	if it := r.newest[index]; it != nil && !it.done {
		return it, nil
	}
	return r.begin(index, &wireItem{Type: kind})
}

func (r *responsesReader) hold(n int) error {
	if r.held += n; r.held > model.MaxResponseBytes {
		return overLimit(model.MaxResponseBytes, "bytes of calls")
	}
	return nil
}

func (r *responsesReader) textDelta(ev *responsesEvent) (bool, error) {
	it, err := r.at(ev.OutputIndex, "message")
	if err != nil {
		return false, err
	}
	it.said = true
	return false, r.out.text(string(ev.Delta))
}

func (r *responsesReader) refusalDelta(ev *responsesEvent) (bool, error) {
	r.refused = true
	return r.textDelta(ev)
}

func (r *responsesReader) thoughtDelta(ev *responsesEvent) (bool, error) {
	it, err := r.at(ev.OutputIndex, "reasoning")
	if err != nil {
		return false, err
	}
	it.said = true
	return false, r.out.thought(string(ev.Delta))
}

// summaryPart sets the parts of one summary apart, as its reader needs it.
func (r *responsesReader) summaryPart(ev *responsesEvent) (bool, error) {
	it, err := r.at(ev.OutputIndex, "reasoning")
	if err != nil || !it.said || ev.SummaryIndex == 0 {
		return false, err
	}
	return false, r.out.thought(summaryBreak)
}

const summaryBreak = "\n\n"

func (r *responsesReader) argumentsDelta(ev *responsesEvent) (bool, error) {
	it, err := r.at(ev.OutputIndex, "function_call")
	if err != nil {
		return false, err
	}
	it.args = append(it.args, ev.Delta...)
	return false, r.hold(len(ev.Delta))
}

func (r *responsesReader) argumentsDone(ev *responsesEvent) (bool, error) {
	it, err := r.at(ev.OutputIndex, "function_call")
	if err != nil || ev.Arguments == "" {
		return false, err
	}
	r.held -= len(it.args)
	it.args, it.whole = append(it.args[:0], ev.Arguments...), true
	return false, r.hold(len(it.args))
}

// itemDone takes a whole item. What it says again is not given again.
func (r *responsesReader) itemDone(index int64, w *wireItem) error {
	it := r.calling(w)
	if it == nil {
		var err error
		if it, err = r.at(index, w.Type); err != nil {
			return err
		}
	}
	it.done, it.kind = true, w.Type
	var err error
	switch w.Type {
	case "function_call":
		return r.callDone(it, w)
	case "message":
		err = r.messageDone(it, w)
	case "reasoning":
		err = r.thoughtDone(it, w)
	}
	if err != nil {
		return err
	}
	return r.out.endItem()
}

// calling finds the open call of an item by its id, which is surer than the index.
func (r *responsesReader) calling(w *wireItem) *responsesItem {
	if w.Type != "function_call" || w.CallID == "" {
		return nil
	}
	i := slices.IndexFunc(r.items, func(it *responsesItem) bool { return !it.done && it.call.ID == w.CallID })
	if i < 0 {
		return nil
	}
	return r.items[i]
}

func (r *responsesReader) callDone(it *responsesItem, w *wireItem) error {
	if it.call.Name != "" && w.Name != "" && it.call.Name != w.Name {
		return broken("a tool call changed its name on the way")
	}
	r.held -= len(it.args) + len(it.call.ID) + len(it.call.Name)
	if w.Arguments != "" {
		it.args = []byte(w.Arguments)
	}
	if w.CallID != "" {
		it.call.ID = w.CallID
	}
	if w.Name != "" {
		it.call.Name = w.Name
	}
	it.whole = true
	return r.hold(len(it.args) + len(it.call.ID) + len(it.call.Name))
}

func (r *responsesReader) messageDone(it *responsesItem, w *wireItem) error {
	for _, p := range w.Content {
		r.refused = r.refused || p.Refusal != ""
		if it.said {
			continue
		}
		if err := r.out.text(string(p.Text + p.Refusal)); err != nil {
			return err
		}
	}
	return nil
}

func (r *responsesReader) thoughtDone(it *responsesItem, w *wireItem) error {
	if !it.said {
		parts := w.Summary
		if len(parts) == 0 {
			parts = w.Content
		}
		texts := make([]string, len(parts))
		for i, p := range parts {
			texts[i] = string(p.Text)
		}
		if err := r.out.thought(strings.Join(texts, summaryBreak)); err != nil {
			return err
		}
	}
	if w.EncryptedContent == "" {
		return nil
	}
	return r.out.seal(w.ID, string(w.EncryptedContent))
}

func (r *responsesReader) failed(ev *responsesEvent) (bool, error) {
	return false, r.service.streamFault(wireFault{Error: ev.Response.Error}.fault())
}

func (r *responsesReader) incomplete(ev *responsesEvent) (bool, error) {
	if ev.Response.Incomplete.Reason == "content_filter" {
		return r.finish(&ev.Response, model.StopRefusal)
	}
	return r.finish(&ev.Response, model.StopLength)
}

// completed does not trust its name alone: some servers end every response so.
func (r *responsesReader) completed(ev *responsesEvent) (bool, error) {
	switch ev.Response.Status {
	case "failed", "cancelled":
		return r.failed(ev)
	case "incomplete":
		return r.incomplete(ev)
	}
	return r.finish(&ev.Response, model.StopEnd)
}

func (r *responsesReader) finish(res *wireResponse, stop model.StopReason) (bool, error) {
	if len(r.items) == 0 { // nothing was streamed, so the whole is all there is
		for i := range res.Output {
			if err := r.itemDone(int64(i), &res.Output[i]); err != nil {
				return false, err
			}
		}
	}
	calls, err := r.calls(stop)
	if err != nil {
		return false, err
	}
	switch {
	case stop == model.StopEnd && r.refused:
		stop = model.StopRefusal
	case stop == model.StopEnd && len(calls) > 0:
		stop = model.StopToolCalls
	}
	return true, r.out.finish(calls, usageOf(res.Usage), stop)
}

// calls gives the whole calls in the order of their items. A complete response
// with half a call contradicts itself.
func (r *responsesReader) calls(stop model.StopReason) ([]model.RawCall, error) {
	slices.SortStableFunc(r.items, func(a, b *responsesItem) int { return cmp.Compare(a.index, b.index) })
	var calls []model.RawCall
	for _, it := range r.items {
		switch {
		case it.kind != "function_call":
		case it.whole:
			it.call.Args = orEmpty(string(it.args))
			calls = append(calls, it.call)
		case stop == model.StopEnd:
			return nil, broken("the response ended and one of its tool calls did not")
		}
	}
	if len(calls) > model.MaxResponseCalls {
		return nil, overLimit(model.MaxResponseCalls, "tool calls")
	}
	return calls, nil
}
