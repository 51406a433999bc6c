package main

import (
	"fmt"
	"strings"
	"time"

	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/runelog"
	"stave/internal/world"
)

// shownLine bounds a line of progress, in characters.
const shownLine = 120

// maxPartial bounds what is kept of a line that does not end.
const maxPartial = 4 << 10

// progress shows runes to a person: the answer on standard output, what happens
// on the way on standard error.
type progress struct {
	*console
	calls    map[string]string  // what each open call does
	asks     map[string]bool    // those that want words, not permission
	partial  map[string]string  // what each printed after its last newline
	clean    cleaner            // of the answer that streams
	stages   map[string]*staged // by their places
	byAgent  map[string]*staged // by the places of their agents
	mine     string             // the run whose result is the answer; "" for every run's
	lane     string             // the stage that speaks, where several do
	streamed bool               // some of the present answer is on the screen
	midLine  bool               // and it does not end with a newline
}

func newProgress(c *console, v world.View) *progress {
	p := &progress{console: c, calls: map[string]string{}, asks: map[string]bool{}, partial: map[string]string{}}
	p.takeUpRuns(v)
	for _, m := range v.Machines {
		if m.Machine == "tool" {
			p.calls[m.Path.Name()] = cut(visible(m.Detail), briefArgs)
		}
	}
	return p
}

func (p *progress) show(r runelog.Rune, e any) {
	if p.showRun(r, e) {
		return
	}
	switch e := e.(type) {
	case session.Created:
		p.step(dim, "conversation %s", e.ConversationID)
	case session.Recovered:
		p.step(yellow, "the process that ran this ended; going on from its log")
	case session.Suspended:
		p.step(red, "suspended: %s", line(e.Reason+" "+e.Info, shownLine))
	case session.Checkpointed:
		if e.Missed != "" {
			p.step(yellow, "how the files were could not be kept, so a rewind cannot put them back: %s", line(e.Missed, shownLine))
		}
	case session.Paused, session.Resumed, session.Unsuspended, session.Closing, session.Closed, session.Archived:
		p.step(dim, "%s", r.To)
	case turn.Started:
		if ofRoot(r.Path) {
			p.begin()
		}
		if e.Input.Mode != session.Queue && !ofStage(r.Path) {
			p.step(dim, "turn %d (%s)", e.Number, e.Input.Mode)
		}
	default:
		if ofRoot(r.Path) {
			p.showTurn(r, e)
		}
		p.showTool(r, e)
	}
}

// ofRoot reports whether the first agent did it: the answer a person waits for
// is its answer, and what others say goes to whoever gave them their task.
func ofRoot(path string) bool { return strings.HasPrefix(path, string(world.RootPath)+"/") }

func (p *progress) showTurn(r runelog.Rune, e any) {
	switch e := e.(type) {
	case turn.AssistantDelta:
		p.stream(e.Content)
	case turn.ToolCallsReceived:
		if text := partsText(e.Output); text != "" && !p.outTTY {
			p.step("", "%s", line(text, shownLine))
		}
		p.begin()
	case turn.ToolsFinished:
		p.begin()
	case turn.Retried:
		p.step(yellow, "trying again, attempt %d: %s%s", e.Attempt, line(e.Why, shownLine), wait(e.WaitMs))
		p.begin()
	case turn.Completed:
		p.answer(e.FinalOutput)
	case turn.Interrupted:
		if !p.outTTY || r.From == "streaming" { // else it was shown before the tools ran
			p.answer(e.PartialOutput)
		}
		p.step(yellow, "turn interrupted: %s", line(e.Reason, shownLine))
	case turn.Error:
		p.endLine()
	}
}

func (p *progress) showTool(r runelog.Rune, e any) {
	switch e := e.(type) {
	case tool.Call:
		p.calls[e.CallID] = toolName(e.Tool) + " " + brief(e.Arguments)
		p.asks[e.CallID] = e.Safety == tool.Question
		p.step("", "→ %s", p.calls[e.CallID])
	case tool.ApprovalRequested:
		if !p.attended { // else the question itself follows
			p.step(yellow, "? %s needs %s", p.calls[e.CallID], p.needs(e.CallID))
		}
	case tool.Approved:
		if r.From == "awaiting_approval" {
			p.step(green, "  allowed by %s", line(e.Approver, shownLine))
		}
	case tool.Denied:
		p.step(red, "  denied by %s", line(e.By, shownLine))
	case tool.Progress:
		p.output(e)
	case tool.Restarted:
		p.step(yellow, "  again, attempt %d: %s", e.Attempt, line(e.Why, shownLine))
	case tool.OutcomeUnknown:
		p.step(yellow, "? %s: nobody knows whether it happened: %s", p.calls[e.CallID], line(e.Known, shownLine))
	case tool.Result:
		p.result(e)
	}
}

func (p *progress) needs(call string) string {
	if p.asks[call] {
		return "an answer"
	}
	return "permission"
}

// output passes on what a running call prints, a line at a time, if somebody is
// looking.
func (p *progress) output(e tool.Progress) {
	if !p.attended {
		return
	}
	lines := strings.Split(p.partial[e.CallID]+e.Chunk, "\n")
	last := len(lines) - 1
	for _, text := range lines[:last] {
		p.step(dim, "  │ %s", cut(safe(text), shownLine))
	}
	p.partial[e.CallID] = cut(lines[last], maxPartial)
}

func (p *progress) result(e tool.Result) {
	delete(p.partial, e.CallID)
	name, _, _ := strings.Cut(p.calls[e.CallID], " ")
	delete(p.calls, e.CallID)
	delete(p.asks, e.CallID)
	if e.Status == tool.Success {
		p.step(green, "✓ %s: %s", name, gist(e.Text))
		return
	}
	text := e.Error
	if e.Text != "" {
		text += ": " + e.Text
	}
	p.step(red, "✗ %s %s: %s", name, e.Status, line(text, shownLine))
}

// gist is the first line of an output and how much more there is.
func gist(text string) string {
	lines := strings.Split(strings.TrimRight(safe(text), "\n"), "\n")
	first := cut(strings.TrimSpace(lines[0]), shownLine)
	switch n := len(lines) - 1; {
	case first == "" && n == 0:
		return "(no output)"
	case n > 0:
		return fmt.Sprintf("%s (+%s)", first, count(n, "line", "lines"))
	}
	return first
}

// step writes a line of progress.
func (p *progress) step(color, format string, args ...any) {
	p.endLine()
	text := fmt.Sprintf(format, args...)
	if color != "" {
		text = p.paint(color, text)
	}
	p.note("%s%s", p.lane, text)
}

// begin gets ready for a new answer of the model.
func (p *progress) begin() {
	p.endLine()
	p.clean, p.streamed = cleaner{}, false
}

// stream passes an answer on as it comes, if somebody is looking.
func (p *progress) stream(text string) {
	text = p.clean.clean(text)
	if !p.outTTY || text == "" {
		return
	}
	p.printf("%s", text)
	p.streamed, p.midLine = true, !strings.HasSuffix(text, "\n")
}

// answer writes the whole answer, unless it has been streamed. A program that
// reads it gets what the model said; a terminal gets what is safe to show.
func (p *progress) answer(text string) {
	if p.outTTY {
		text = safe(text)
	}
	if !p.streamed && text != "" {
		p.printf("%s", text)
		p.midLine = !strings.HasSuffix(text, "\n")
	}
	p.endLine()
}

func (p *progress) endLine() {
	if p.midLine {
		p.printf("\n")
		p.midLine = false
	}
}

func partsText(parts []model.Part) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(part.Text)
	}
	return b.String()
}

func wait(ms int64) string {
	if ms == 0 {
		return ""
	}
	return fmt.Sprintf(" (in %v)", time.Duration(ms)*time.Millisecond)
}
