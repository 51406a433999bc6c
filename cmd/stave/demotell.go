package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	run "stave/internal/machine/workflow"
	"stave/internal/runelog"
	"stave/internal/workflow"
	"stave/internal/world"
)

const (
	demoLines  = 4  // of a result that are shown
	demoColumn = 80 // nothing is wider
	demoIndent = "              "
)

// demoPrompts is what the prompt of each stage is made of.
var demoPrompts = map[string]string{
	"Plan":    "its prompt is written, with the task",
	"Execute": "its prompt is written, with the plan",
	"Review":  "its prompt is written, with the plan and the diff",
}

// demo tells what happens while it happens: one numbered line for each boundary.
type demo struct {
	app        *app
	host       *host
	definition workflow.Definition
	steps      int
	stage      workflow.Stage // under way
	calls      map[string]tool.Call
	review     string
}

func (d *demo) say(format string, args ...any) {
	if !d.app.json {
		d.app.printf(format+"\n", args...)
	}
}

// paint colours what a terminal shows.
func (d *demo) paint(color, text string) string {
	if !d.app.outTTY || color == "" {
		return text
	}
	return d.app.paint(color, text)
}

// step tells the next boundary: who acts, and what.
func (d *demo) step(color, who, format string, args ...any) {
	d.steps++
	lines := wrap(safe(fmt.Sprintf(format, args...)), demoColumn-len(demoIndent))
	d.say("%s", d.paint(color, fmt.Sprintf("%4d %-8s %s", d.steps, who, strings.Join(lines, "\n"+demoIndent))))
}

// aside tells what belongs to the step before.
func (d *demo) aside(text string) {
	for _, l := range wrap(safe(text), demoColumn-len(demoIndent)) {
		d.say("%s", d.paint(dim, demoIndent+l))
	}
}

// wrap breaks text between words; lines it has stay.
func wrap(text string, width int) []string {
	var lines []string
	for l := range strings.SplitSeq(text, "\n") {
		for len([]rune(l)) > width {
			i := strings.LastIndex(string([]rune(l)[:width]), " ")
			if i <= 0 {
				i = len(string([]rune(l)[:width]))
			}
			lines, l = append(lines, l[:i]), strings.TrimPrefix(l[i:], " ")
		}
		lines = append(lines, l)
	}
	return lines
}

func (d *demo) prologue() {
	d.say("A workflow runs on a sample project. The model is a script, so there is no key\n" +
		"and no network, and the demo answers the one question itself.\n")
}

func (d *demo) show(_ runelog.Rune, e any) error {
	switch e := e.(type) {
	case run.Started:
		d.calls = map[string]tool.Call{}
		d.step(bold, "you", "%s", demoSays)
		d.step("", "run", "begins with the first stage of %s, in mode ask", e.Name)
	case stage.Begun:
		d.beginStage(e)
	case run.StagesChosen:
		if e.After != "" {
			d.step("", "Next", "the rules of %s name %s (%s)", e.After, chosen(e), e.Execution)
		}
	case run.Completed:
		d.say("")
		d.step(bold, "run", "nothing follows Review: the pipeline is done")
		d.review = resultText(e)
	case session.RunEnded:
		d.step(bold, "session", "the workflow %s is %s", e.Name, e.Outcome)
	case turn.ToolCallsReceived:
		d.aside("“" + partsText(e.Output) + "”")
	default:
		d.showStage(e)
		d.showCall(e)
	}
	return nil
}

func (d *demo) beginStage(e stage.Begun) {
	d.stage, _ = d.definition.Stage(e.Stage)
	d.say("\n%s", d.paint(bold, e.Stage))
	d.step("", "Setup", "%s begins: at most %s, ends with %s", e.Stage, count(e.TurnCap, "model request", "model requests"), e.Completion)
}

// showStage tells the phases of a stage: all of them once, then those that differ.
func (d *demo) showStage(e any) {
	first := d.stage.ID == d.definition.First
	switch e := e.(type) {
	case stage.Prepared:
		tools := "with " + orNone(e.Tools)
		if first {
			d.step("", "Setup", "%s; what its prompt may say is gathered and now fixed", tools)
		} else {
			d.aside(tools)
		}
	case stage.Initialized:
		d.step("", "Init", "%s, on a fresh transcript", demoPrompts[d.stage.ID])
	case stage.CompletionAccepted:
		if first {
			d.step("", "Act", "what it handed in fits the schema of %s", d.stage.CompletionTool)
		}
	case stage.Asserted:
		if first {
			d.step("", "Assert", "%s: %s", e.Verdict, d.stage.Assert)
		}
	case stage.Exited:
		d.step("", "Exit", "%s is %s after %s", e.Result.Stage, e.Result.Status, count(e.Result.Turns, "model request", "model requests"))
	}
}

// showCall tells what becomes of a call.
func (d *demo) showCall(e any) {
	switch e := e.(type) {
	case tool.Call:
		d.calls[e.CallID] = e
		d.step("", "model", "→ %s %s", e.Tool, about(e.Arguments))
	case tool.ApprovalRequested:
		d.step(yellow, "gate", "%s; a person is asked, in every mode", e.Reason)
	case tool.Approved:
		if call := d.calls[e.CallID]; call.Tool != d.stage.CompletionTool {
			d.step(green, "gate", "%s is among its tools: allowed by %s, nobody is asked", call.Tool, e.Approver)
		}
	case tool.Denied:
		d.step(red, "gate", "denied by %s", e.By)
	case tool.Result:
		d.showResult(e)
	}
}

func (d *demo) showResult(e tool.Result) {
	switch {
	case e.Status != tool.Success:
		d.step(red, "result", "the model is told, on the same transcript: %s: %s", e.Status, e.Error)
	case d.calls[e.CallID].Tool != d.stage.CompletionTool:
		d.step("", "result", "%s", excerpt(e.Text))
	}
}

// about is what a call is about, in a few words.
func about(args json.RawMessage) string {
	var a struct{ Path, Pattern, Goal, Summary string }
	_ = json.Unmarshal(args, &a) // what has none of them is about nothing
	for _, s := range []string{a.Path, a.Pattern, a.Goal} {
		if s != "" {
			return s
		}
	}
	return a.Summary
}

// excerpt is the beginning of a result.
func excerpt(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if n := len(lines) - demoLines; n > 0 {
		lines = append(lines[:demoLines], fmt.Sprintf("… and %s", count(n, "more line", "more lines")))
	}
	return strings.Join(lines, "\n")
}

// decide denies the one grant that is asked for.
func (d *demo) decide(ctx context.Context, q world.Question) (bool, error) {
	ask, ok := q.Ask.(tool.GrantStageTool)
	if !ok {
		return false, nil
	}
	d.step(yellow, "session", "? May %s make this one call of %s? %s", ask.Stage, ask.Call.Tool, strings.Join(q.Choices, ", "))
	d.step(bold, "you", "deny (says the demo)")
	_, err := d.host.engine.Answer(ctx, engine.Choice{Question: q.Log + "/" + q.ID, Choice: "deny", Text: "planning only reads", By: demoBy})
	return err == nil, err
}

func (d *demo) epilogue(project string, proof engine.Proof) error {
	after, err := os.ReadFile(filepath.Join(project, demoFile))
	if err != nil {
		return fmt.Errorf("reading what the demo changed: %w", err)
	}
	d.say("\n%s\n", d.paint(bold, "What changed in "+demoFile))
	for _, l := range unified(demoProject[demoFile], string(after)) {
		d.say("  %s", d.paint(map[byte]string{'-': red, '+': green}[l[0]], l))
	}
	d.say("\n%s\n", d.paint(bold, "The review"))
	for _, l := range wrap(d.review, demoColumn-2) {
		d.say("  %s", l)
	}
	d.say("\n%s\n\n  %d runes. The hash chain, every arrow and every invariant hold.", d.paint(bold, "What is on record"), proof.Runes)
	d.say("\n%s\n", d.paint(bold, "Try next"))
	d.say(`  stave workflow show codeReview      what was just played, as a file
  stave workflow new mine             one of your own, every field explained
  stave run codeReview "TASK"         on your files, once a model has a key
  stave machines stage --mermaid      the table a stage follows, as a diagram
  stave --help                        everything else`)
	return nil
}
