package world

import (
	"fmt"
	"strings"

	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/runelog"
)

// Transcript derives an agent's model requests from the runes of its log, one
// rune at a time. Every call in it is followed by exactly one result, in call
// order, whatever happened in between.
type Transcript struct {
	agent    Path
	seq      uint64
	messages []model.Message
	output   []model.Part // of an answer that asked for tools and is not yet told
	order    []string     // its calls
	calls    map[string]model.ToolCall
	results  map[string]model.ToolResult
	marks    []mark // for rewinding: one for each rune that changed the messages
}

// mark remembers what the messages were once a rune had been told.
type mark struct {
	seq      uint64
	messages []model.Message
}

// NewTranscript returns the empty transcript of the agent at a path.
func NewTranscript(agent Path) *Transcript { return &Transcript{agent: agent} }

// Seq returns the last rune that has been added.
func (t *Transcript) Seq() uint64 { return t.seq }

// Add takes the next rune of the log.
func (t *Transcript) Add(r runelog.Rune) error {
	t.seq = r.Seq
	p := Path(r.Path)
	if !told[r.Kind] || !(p.under(t.agent) || p == SessionPath) {
		return nil
	}
	e, err := EventOf(r)
	if err != nil {
		return fmt.Errorf("transcript: rune %d (%s): %w", r.Seq, r.Kind, err)
	}
	t.hear(e)
	return nil
}

// hear tells an event and remembers what it made of the messages.
func (t *Transcript) hear(e any) {
	if r, ok := e.(session.Rewound); ok {
		if t.agent == RootPath {
			t.rewind(r.Seq)
		}
		return
	}
	n := len(t.messages)
	t.tell(e)
	if _, compacted := e.(turn.Compacted); compacted || len(t.messages) != n {
		t.marks = append(t.marks, mark{t.seq, t.messages})
	}
}

// rewind forgets what was said after a rune.
func (t *Transcript) rewind(seq uint64) {
	for len(t.marks) > 0 && t.marks[len(t.marks)-1].seq > seq {
		t.marks = t.marks[:len(t.marks)-1]
	}
	t.messages, t.order = nil, nil
	if n := len(t.marks); n > 0 {
		last := t.marks[n-1].messages
		t.messages = last[:len(last):len(last)] // what is said now must not overwrite what was handed out
	}
	t.unanswered()
}

// unanswered drops a last message that nobody answered: the next one is said
// instead of it.
func (t *Transcript) unanswered() {
	n := len(t.messages)
	if n > 0 && t.messages[n-1].Role == model.RoleUser && !isNews(t.messages[n-1].Parts[0].Text) {
		t.messages = t.messages[: n-1 : n-1]
	}
}

// isNews reports whether a message is not a person's: it stands, whoever answers it.
func isNews(text string) bool {
	return strings.HasPrefix(text, summaryBegin) || strings.HasPrefix(text, runBegin)
}

// Hear takes the runes of a change, as Add would one by one.
func (t *Transcript) Hear(c *Change) {
	for i, r := range c.Runes {
		t.seq = r.Seq
		if p := Path(r.Path); told[r.Kind] && (p.under(t.agent) || p == SessionPath) {
			t.hear(c.events[i])
		}
	}
}

// told lists the kinds a transcript is made of. Deltas are not: the whole
// answer follows them, and what a failed attempt said is void.
var told = map[string]bool{
	"session.created": true, "session.rewound": true, "session.run_ended": true, "turn.started": true, "turn.tool_calls_received": true, "tool.call": true,
	"turn.compacted": true, "tool.result": true, "turn.tools_finished": true, "turn.completed": true, "turn.interrupted": true, "turn.error": true,
}

func (t *Transcript) tell(e any) {
	switch e := e.(type) {
	case session.Created:
		if t.agent == RootPath { // who works for another begins afresh
			t.messages = append(t.messages, e.Config.History...)
		}
	case session.RunEnded:
		if t.agent == RootPath && e.Text != "" {
			t.say(model.RoleUser, model.Part{Text: fmt.Sprintf(runBegin+"%s %s]\n%s", e.Name, e.Outcome, e.Text)})
		}
	case turn.Started:
		parts := []model.Part{{Text: e.Input.Text}}
		for i := range e.Input.Images {
			parts = append(parts, model.Part{Image: &e.Input.Images[i]})
		}
		t.say(model.RoleUser, parts...)
	case turn.Compacted:
		t.compact(e)
	case turn.ToolCallsReceived:
		t.output, t.order = e.Output, e.CallIDs
		t.calls, t.results = map[string]model.ToolCall{}, map[string]model.ToolResult{}
	case tool.Call:
		t.calls[e.CallID] = model.ToolCall{ID: e.CallID, Name: e.Tool, Args: e.Arguments, Opaque: e.Opaque, Origin: e.Origin}
	case tool.Result:
		t.results[e.CallID] = model.ToolResult{ID: e.CallID, Text: resultText(e), IsError: e.Status != tool.Success}
	case turn.ToolsFinished, turn.Error:
		t.flush()
	case turn.Completed:
		if !t.flush() {
			t.say(model.RoleAssistant, answer(e)...)
		}
	case turn.Interrupted:
		if !t.flush() && e.PartialOutput != "" {
			t.say(model.RoleAssistant, model.Part{Text: e.PartialOutput + "\n[" + e.Reason + ": stopped here]"})
		}
	}
}

// compact puts a summary in the place of the first messages. A cut never falls
// between a call and its result, whatever a rune says.
func (t *Transcript) compact(e turn.Compacted) {
	cut := min(max(e.Messages, 0), len(t.messages))
	for cut < len(t.messages) && t.messages[cut].Role == model.RoleTool {
		cut++
	}
	rest := t.messages[cut:]
	t.messages = append([]model.Message{{Role: model.RoleUser, Parts: []model.Part{{Text: summaryBegin + e.Summary}}}}, rest...)
}

const (
	summaryBegin = "[What was said and done before this point, in short]\n"
	runBegin     = "[The workflow "
)

// flush adds an answer that asked for tools, with its results, and reports
// whether there was one. Slices handed out before are not touched: they end
// where they ended.
func (t *Transcript) flush() bool {
	round := t.round()
	t.messages = append(t.messages, round...)
	t.order = nil
	return len(round) > 0
}

func answer(e turn.Completed) []model.Part {
	if e.FinalOutput == "" {
		return []model.Part{{Text: "(no answer)"}}
	}
	if len(e.Output) > 0 {
		return e.Output
	}
	return []model.Part{{Text: e.FinalOutput}}
}

func (t *Transcript) say(role model.Role, parts ...model.Part) {
	t.messages = append(t.messages, model.Message{Role: role, Parts: parts})
}

// Messages returns the transcript so far; calls that are still open are
// answered with what is known. The result may be kept: it never changes.
func (t *Transcript) Messages() []model.Message {
	n := len(t.messages)
	return append(t.messages[:n:n], t.round()...)
}

// round returns an answer that asked for tools and the message with its results.
func (t *Transcript) round() []model.Message {
	if t.order == nil {
		return nil
	}
	parts := t.output[:len(t.output):len(t.output)]
	results := make([]model.Part, 0, len(t.order))
	for _, id := range t.order {
		call, ok := t.calls[id]
		if !ok {
			continue // received but never recorded: a fork cut between the two
		}
		parts = append(parts, model.Part{Call: &call})
		r, ok := t.results[id]
		if !ok {
			r = model.ToolResult{ID: id, Text: "the outcome is unknown: the conversation was cut here", IsError: true}
		}
		results = append(results, model.Part{Result: &r})
	}
	if len(results) == 0 {
		return nil
	}
	return []model.Message{{Role: model.RoleAssistant, Parts: parts}, {Role: model.RoleTool, Parts: results}}
}

func resultText(r tool.Result) string {
	switch {
	case r.Status == tool.Success:
		if r.Error != "" {
			return r.Text + "\n[" + r.Error + "]"
		}
		return r.Text
	case r.Text == "":
		return string(r.Status) + ": " + r.Error
	default:
		return r.Text + "\n[" + string(r.Status) + ": " + r.Error + "]"
	}
}
