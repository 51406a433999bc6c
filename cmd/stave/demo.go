package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model/script"
	"stave/internal/policy"
	"stave/internal/runelog"
	"stave/internal/world"
)

//go:embed demo.yaml
var demoScript []byte

const (
	demoPrompt = "Two books cost as much as one. Find out why and fix it."
	demoBy     = "user:demo"
	demoModel  = "script:demo.yaml"
	demoFile   = "cart.go"
	demoLines  = 4 // of a result that are shown
)

// demoProject is the sample the demo works on.
var demoProject = map[string]string{
	"README.md": "# Cart\n\nThe total of a cart is the sum of price times quantity.\n",
	demoFile: `package cart

// Item is one line of a cart.
type Item struct {
	Cents    int
	Quantity int
}

// Total returns what all items cost.
func Total(items []Item) int {
	sum := 0
	for _, item := range items {
		sum += item.Cents
	}
	return sum
}
`,
}

// demoAnswers is what the demo says to the questions it knows will come.
var demoAnswers = map[string]struct{ choice, text string }{
	"Edit": {choice: "approve"},
	"Bash": {choice: "deny", text: "nobody pushes from a demo"},
}

func (a *app) demoCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See it work: a scripted model, a sample project, no key, no network",
		Long: `Plays a conversation of a scripted model on a sample project in a temporary directory: it looks around, reads files side
by side, asks for an edit (allowed) and for a push (denied). The demo answers both questions itself.`,
		Example: "  stave demo\n  stave demo --json",
		Args:    atMost(0),
		RunE:    func(*cobra.Command, []string) error { return a.demo() },
	}
}

func (a *app) demo() (err error) {
	dir, err := os.MkdirTemp("", "stave-demo-*")
	if err != nil {
		return fmt.Errorf("making room for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	project := filepath.Join(dir, "project")
	if err := writeProject(project); err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	h, err := openHost(data, engine.Options{Now: a.now, Provider: a.models.provider}, newRunner(data), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.leave(h)) }()
	model, err := script.Parse("demo.yaml", demoScript)
	if err != nil {
		return err
	}
	a.models.add(demoModel, model)
	return a.playDemo(context.Background(), h, project)
}

func writeProject(dir string) error {
	const private, plain = 0o700, 0o600
	if err := os.Mkdir(dir, private); err != nil {
		return fmt.Errorf("writing the sample project: %w", err)
	}
	for name, text := range demoProject {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), plain); err != nil {
			return fmt.Errorf("writing the sample project: %w", err)
		}
	}
	return nil
}

func (a *app) playDemo(ctx context.Context, h *host, project string) error {
	d := &demo{app: a, host: h, answers: map[string]string{}, calls: map[string]*demoCall{}}
	d.say("A scripted model works on a sample project. No key, no network; the demo answers its questions itself.\n")
	log, err := h.engine.Begin(ctx, engine.Begin{Text: demoPrompt, By: demoBy, Config: session.Config{
		Mode: policy.ModeAsk, Model: demoModel, Dir: project,
	}})
	if err != nil {
		return err
	}
	f := &follower{app: a, host: h, log: log, show: d.show, decide: d.decide}
	if a.json {
		f.show = a.shower(world.View{})
	}
	end, err := f.run()
	if err == nil {
		err = end.err(a)
	}
	if err != nil {
		return err
	}
	proof, err := h.engine.Verify(ctx, log)
	if err != nil {
		return err
	}
	return d.epilogue(project, proof)
}

// demo tells what happens while it happens.
type demo struct {
	app     *app
	host    *host
	answers map[string]string // what the demo said, by call
	round   []*demoCall       // of the present answer, in order
	calls   map[string]*demoCall
}

// demoCall is a call and what became of it. Calls that run side by side end in
// any order; they are told in the order the model made them.
type demoCall struct {
	call    tool.Call
	verdict []string
	result  tool.Result
}

func (d *demo) say(format string, args ...any) {
	if !d.app.json {
		d.app.printf(format+"\n", args...)
	}
}

func (d *demo) decide(ctx context.Context, q world.Question) (bool, error) {
	call, _ := asked(q)
	answer, known := demoAnswers[call.Tool]
	if !known {
		return false, nil
	}
	d.answers[call.CallID] = answer.choice
	_, err := d.host.engine.Answer(ctx, engine.Choice{Question: q.Log + "/" + q.ID, Choice: answer.choice, Text: answer.text, By: demoBy})
	return err == nil, err
}

func (d *demo) show(_ runelog.Rune, e any) error {
	switch e := e.(type) {
	case session.MessageReceived:
		d.speak("you", e.Text)
	case turn.ToolCallsReceived:
		d.speak("model", partsText(e.Output))
		d.round = nil
	case tool.Call:
		c := &demoCall{call: e}
		d.round, d.calls[e.CallID] = append(d.round, c), c
	case tool.ApprovalRequested:
		d.calls[e.CallID].add("asks     %s", e.Reason)
	case tool.Approved:
		d.calls[e.CallID].decided(d.answers[e.CallID], "allowed  by %s", e.Approver)
	case tool.Denied:
		d.calls[e.CallID].decided(d.answers[e.CallID], "denied   by %s: %s", e.By, e.Reason)
	case tool.Result:
		d.calls[e.CallID].result = e
	case turn.ToolsFinished:
		d.tellRound()
	case turn.Completed:
		d.speak("model", e.FinalOutput)
	}
	return nil
}

func (d *demo) speak(who, text string) {
	d.say("%-6s %s\n", who, strings.ReplaceAll(safe(text), "\n", "\n       "))
}

func (c *demoCall) add(format string, args ...any) {
	c.verdict = append(c.verdict, safe(fmt.Sprintf(format, args...)))
}

func (c *demoCall) decided(answer, format string, args ...any) {
	if answer != "" {
		c.add("answer   %s, says the demo", answer)
	}
	c.add(format, args...)
}

func (d *demo) tellRound() {
	for _, c := range d.round {
		d.say("  →  %s %s", c.call.Tool, visible(string(c.call.Arguments)))
		for _, v := range c.verdict {
			d.say("     %s", v)
		}
		if c.result.Status == tool.Success {
			d.say("     result   %s", excerpt(c.result.Text))
		}
		d.say("")
	}
}

// excerpt is the beginning of a result.
func excerpt(text string) string {
	lines := strings.Split(strings.TrimSpace(safe(text)), "\n")
	if n := len(lines) - demoLines; n > 0 {
		lines = append(lines[:demoLines], fmt.Sprintf("… and %s", count(n, "more line", "more lines")))
	}
	return strings.Join(lines, "\n              ")
}

func (d *demo) epilogue(project string, proof engine.Proof) error {
	after, err := os.ReadFile(filepath.Join(project, demoFile))
	if err != nil {
		return fmt.Errorf("reading what the demo changed: %w", err)
	}
	d.say("What changed in %s:\n\n%s", demoFile, diff(demoProject[demoFile], string(after)))
	d.say("What is on record: %d runes. The hash chain, every arrow and every invariant hold.", proof.Runes)
	d.say(`
Try next:
  stave machines session --mermaid   the table a conversation follows, as a diagram
  stave machines tool                why a call cannot run without somebody's word
  stave ask --model script:FILE ...  a conversation of your own; docs/scripts.md shows how to write the file
  stave --help                       everything else`)
	return nil
}

// diff shows the lines in which two texts differ, with a line around them. It
// takes the change as one piece, which is all the demo needs.
func diff(before, after string) string {
	old, now := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	head := 0
	for head < min(len(old), len(now)) && old[head] == now[head] {
		head++
	}
	tail := 0
	for tail < min(len(old), len(now))-head && old[len(old)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	var b strings.Builder
	put := func(mark string, lines []string) {
		for _, l := range lines {
			b.WriteString("  " + mark + " " + l)
		}
	}
	put(" ", old[max(0, head-1):head])
	put("-", old[head:len(old)-tail])
	put("+", now[head:len(now)-tail])
	put(" ", old[len(old)-tail:min(len(old), len(old)-tail+1)])
	return b.String()
}
