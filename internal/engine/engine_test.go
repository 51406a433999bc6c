package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stave/internal/engine"
	"stave/internal/machine"
	"stave/internal/machine/session"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/model/script"
	"stave/internal/runelog"
	"stave/internal/runelog/memory"
	"stave/internal/toolbox"
	"stave/internal/world"
)

// rig is an engine over a store with a scripted model.
type rig struct {
	*engine.Engine
	t   *testing.T
	log runelog.Log
	dir string
}

const patience = 20 * time.Second

func newRig(t *testing.T, log runelog.Log, text string, change ...func(*engine.Options)) *rig {
	t.Helper()
	s, err := script.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := toolbox.NewSet(append(toolbox.All(), boom())...)
	if err != nil {
		t.Fatal(err)
	}
	opt := engine.Options{
		Log: log, Tools: set, TempDir: t.TempDir(),
		Provider: func(_ context.Context, name string) (model.Provider, error) {
			if name == "missing" {
				return nil, errors.New("there is no model called missing")
			}
			return s, nil
		},
	}
	for _, c := range change {
		c(&opt)
	}
	r := &rig{engine.New(opt), t, log, t.TempDir()}
	t.Cleanup(func() { r.shutDown(time.Millisecond) })
	return r
}

// boom is a tool that breaks.
func boom() toolbox.Tool {
	return toolbox.New("Boom", "breaks", toolbox.SideEffect, false,
		func(context.Context, toolbox.Env, struct{}) (toolbox.Output, error) { panic("kaboom") })
}

func (r *rig) shutDown(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) begin(text, mode string, change ...func(*engine.Begin)) string {
	r.t.Helper()
	b := engine.Begin{Text: text, By: "user:t", Config: session.Config{Mode: mode, Dir: r.dir, Model: "script"}}
	for _, c := range change {
		c(&b)
	}
	log, err := r.Begin(r.t.Context(), b)
	if err != nil {
		r.t.Fatal(err)
	}
	return log
}

func (r *rig) settle(log string) world.View {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	v, err := r.Settle(ctx, log)
	if err != nil {
		r.t.Fatalf("settling %s: %v", log, err)
	}
	return v
}

func (r *rig) tell(log string, p world.Path, c machine.Command) {
	r.t.Helper()
	if _, err := r.Tell(r.t.Context(), world.Message{Log: log, Path: p, Command: c, By: "user:t"}); err != nil {
		r.t.Fatalf("%T: %v", c, err)
	}
}

// kinds returns what happened in a log, verified.
func (r *rig) kinds(log string) []string {
	r.t.Helper()
	if _, err := r.Verify(r.t.Context(), log); err != nil {
		r.t.Fatalf("verify: %v", err)
	}
	var kinds []string
	for rn, err := range r.log.Read(r.t.Context(), log, 0) {
		if err != nil {
			r.t.Fatal(err)
		}
		kinds = append(kinds, rn.Kind)
	}
	return kinds
}

// payload returns the newest rune of a kind as text.
func (r *rig) payload(log, kind string) string {
	r.t.Helper()
	found := ""
	for rn, err := range r.log.Read(r.t.Context(), log, 0) {
		if err != nil {
			r.t.Fatal(err)
		}
		if rn.Kind == kind {
			found = string(rn.Payload)
		}
	}
	return found
}

// await waits until the log has a rune of the kind.
func (r *rig) await(log, kind string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for rn, err := range r.Watch(ctx, log, 0) {
		if err != nil {
			r.t.Fatalf("waiting for %s: %v", kind, err)
		}
		if rn.Kind == kind {
			return
		}
	}
	r.t.Fatalf("%s never came", kind)
}

func count(kinds []string, kind string) int {
	n := 0
	for _, k := range kinds {
		if k == kind {
			n++
		}
	}
	return n
}

const twoTools = `
replies:
  - text: "let me look"
    calls:
      - {tool: Glob, args: {pattern: "*"}}
      - {tool: Bash, args: {command: "echo hi >> ledger"}}
  - text: "done"
`

func (r *rig) ledger() string {
	b, err := os.ReadFile(filepath.Join(r.dir, "ledger"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	return string(b)
}

func TestConversationWithTools(t *testing.T) {
	r := newRig(t, memory.New(), twoTools)
	log := r.begin("hello", "yolo")
	v := r.settle(log)
	if v.State != "active" || v.Stats.Turns != 1 || v.Stats.Calls != 2 || len(v.Machines) != 2 {
		t.Errorf("view = %+v", v)
	}
	if r.ledger() != "hi\n" {
		t.Errorf("ledger = %q", r.ledger())
	}
	if got := r.payload(log, "turn.completed"); !strings.Contains(got, `"final_output":"done"`) {
		t.Errorf("turn.completed = %s", got)
	}
}

func TestApprovalSurvivesRestart(t *testing.T) {
	// A question asked by one engine is answered through another.
	store := memory.New()
	first := newRig(t, store, twoTools)
	log := first.begin("hello", "ask")
	v := first.settle(log)
	if len(v.Questions) != 1 || !slices.Equal(v.Questions[0].Choices, []string{"approve", "deny"}) {
		t.Fatalf("questions = %+v", v.Questions)
	}
	first.shutDown(patience)

	second := newRig(t, store, twoTools)
	id := v.Questions[0].ID
	if _, err := second.Answer(t.Context(), engine.Choice{Question: id, Choice: "maybe", Text: "", By: "user:t"}); err == nil || !strings.Contains(err.Error(), "approve, deny") {
		t.Errorf("a wrong choice gave %v", err)
	}
	if _, err := second.Answer(t.Context(), engine.Choice{Question: id, Choice: "approve", Text: "", By: "user:t"}); err != nil {
		t.Fatal(err)
	}
	second.settle(log)
	var late *engine.Answered
	if _, err := second.Answer(t.Context(), engine.Choice{Question: id, Choice: "deny", Text: "", By: "user:u"}); !errors.As(err, &late) || late.Decision.Kind != "tool.approved" {
		t.Errorf("a late answer gave %v", err)
	}
	if _, err := second.Answer(t.Context(), engine.Choice{Question: "call_nobody", Choice: "deny", Text: "", By: "user:u"}); !errors.Is(err, engine.ErrNoQuestion) {
		t.Errorf("an unknown question gave %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(first.dir, "ledger")); string(b) != "hi\n" {
		t.Errorf("ledger = %q", b)
	}
}

func TestDenialGoesToTheModel(t *testing.T) {
	r := newRig(t, memory.New(), twoTools)
	log := r.begin("hello", "ask")
	id := r.settle(log).Questions[0].ID
	if _, err := r.Answer(t.Context(), engine.Choice{Question: id, Choice: "deny", Text: "not today", By: "user:t"}); err != nil {
		t.Fatal(err)
	}
	r.settle(log)
	if got := r.payload(log, "tool.result"); !strings.Contains(got, `"status":"denied"`) || !strings.Contains(got, "not today") {
		t.Errorf("result = %s", got)
	}
	if r.ledger() != "" {
		t.Error("a denied call ran")
	}
}

func TestHeadlessDenies(t *testing.T) {
	r := newRig(t, memory.New(), twoTools)
	log := r.begin("hello", "ask", func(b *engine.Begin) { b.Headless = true })
	r.settle(log)
	if got := r.payload(log, "tool.denied"); !strings.Contains(got, "rule:headless") {
		t.Errorf("denied = %s", got)
	}
	if count(r.kinds(log), "turn.completed") != 1 || r.ledger() != "" {
		t.Error("the turn did not go on without the call")
	}
}

const slowTool = `
replies:
  - text: "working"
    calls:
      - {tool: Bash, args: {command: "echo start >> ledger; sleep 30; echo end >> ledger"}}
  - text: "went on"
  - text: "and on"
`

func TestInterruptCancelsCallsFirst(t *testing.T) {
	r := newRig(t, memory.New(), slowTool)
	log := r.begin("go", "yolo")
	r.await(log, "tool.approved")
	began := time.Now()
	r.tell(log, "agent:root/turn:1", turn.Interrupt{})
	r.settle(log)
	kinds := r.kinds(log)
	if i, j := slices.Index(kinds, "tool.result"), slices.Index(kinds, "turn.interrupted"); i < 0 || j < i {
		t.Errorf("kinds = %v", kinds)
	}
	if got := r.payload(log, "tool.result"); !strings.Contains(got, `"cancelled"`) {
		t.Errorf("result = %s", got)
	}
	if time.Since(began) > patience/2 {
		t.Error("the interrupt waited for the tool")
	}
}

func TestSteerIsHeldDuringTools(t *testing.T) {
	// A steer during tools takes effect before the next model call, and its text is the next turn.
	r := newRig(t, memory.New(), `
replies:
  - calls: [{tool: Bash, args: {command: "while [ ! -e go ]; do sleep 0.02; done"}}]
  - when: "left instead"
    text: "turning left"
  - text: "never asked"
`)
	log := r.begin("go right", "yolo")
	r.await(log, "tool.approved")
	if err := r.Say(t.Context(), log, session.Say{Text: "left instead", Mode: "steer"}, "user:t"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.settle(log)
	kinds := r.kinds(log)
	want := []string{"turn.tools_finished", "turn.interrupted", "turn.finalized"}
	i := slices.Index(kinds, want[0])
	if i < 0 || !slices.Equal(kinds[i:i+3], want) {
		t.Errorf("kinds = %v", kinds)
	}
	if got := r.payload(log, "turn.completed"); !strings.Contains(got, "turning left") {
		t.Errorf("completed = %s", got)
	}
}

func TestPauseAndResume(t *testing.T) {
	// A paused turn stops at a boundary and goes on by itself after resume.
	r := newRig(t, memory.New(), `
replies:
  - calls: [{tool: Bash, args: {command: "while [ ! -e go ]; do sleep 0.02; done"}}]
  - text: "finished"
`)
	log := r.begin("work", "yolo")
	r.await(log, "tool.approved")
	r.tell(log, world.SessionPath, session.Pause{})
	if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if v := r.settle(log); v.State != "paused" || len(v.Waiting) != 1 {
		t.Fatalf("view = %+v", v)
	}
	r.tell(log, world.SessionPath, session.Resume{})
	if v := r.settle(log); v.State != "active" || v.Stats.Turns != 2 {
		t.Fatalf("view = %+v", v)
	}
	if got := r.payload(log, "turn.completed"); !strings.Contains(got, "finished") {
		t.Errorf("completed = %s", got)
	}
}

func TestCloseWaitsStopDoesNot(t *testing.T) {
	r := newRig(t, memory.New(), slowTool)
	log := r.begin("go", "yolo")
	r.await(log, "tool.approved")
	r.tell(log, world.SessionPath, session.Close{})
	if v, err := r.Look(t.Context(), log); err != nil || v.State != "closing" {
		t.Fatalf("%v %+v", err, v)
	}
	r.tell(log, world.SessionPath, session.Stop{})
	if v := r.settle(log); v.State != "closed" {
		t.Fatalf("view = %+v", v)
	}
	_, err := r.Tell(t.Context(), world.Message{Log: log, Path: world.SessionPath, Command: session.Say{Text: "more"}, By: "user:t"})
	var refusal *machine.Refusal
	if !errors.As(err, &refusal) || !slices.Equal(refusal.Possible, []string{"archive"}) || len(refusal.Last) == 0 {
		t.Errorf("saying something to a closed session gave %v", err)
	}
	r.kinds(log)
}

func TestLostSideEffectIsAsked(t *testing.T) {
	// A second engine takes the log over while a command runs: it never runs again by itself.
	for _, c := range []struct{ choice, status string }{
		{"happened", `"status":"success"`}, {"not_happened", `"status":"error"`}, {"retry", `"status":"success"`},
	} {
		t.Run(c.choice, func(t *testing.T) {
			store := memory.New()
			first := newRig(t, store, `
replies:
  - calls: [{tool: Bash, args: {command: "echo ran >> ledger; test -e go || sleep 30"}}]
  - text: "went on"
`)
			log := first.begin("go", "yolo")
			first.await(log, "tool.approved")
			for first.ledger() == "" {
				time.Sleep(5 * time.Millisecond)
			}
			second := newRig(t, store, slowTool)
			second.dir = first.dir
			if err := second.Resume(t.Context(), log, false); err != nil {
				t.Fatal(err)
			}
			v := second.settle(log)
			if len(v.Questions) != 1 || v.Questions[0].Kind != "what_happened" {
				t.Fatalf("questions = %+v", v.Questions)
			}
			if err := os.WriteFile(filepath.Join(first.dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := second.Answer(t.Context(), engine.Choice{Question: v.Questions[0].ID, Choice: c.choice, Text: "the output", By: "user:t"}); err != nil {
				t.Fatal(err)
			}
			second.settle(log)
			if got := second.payload(log, "tool.result"); !strings.Contains(got, c.status) {
				t.Errorf("result = %s", got)
			}
			runs := strings.Count(second.ledger(), "ran")
			if want := map[string]int{"retry": 2}[c.choice]; runs != max(want, 1) {
				t.Errorf("it ran %d times", runs)
			}
			if count(second.kinds(log), "turn.completed") != 1 {
				t.Error("the turn did not go on")
			}
		})
	}
}

func TestLostSideEffectHeadless(t *testing.T) {
	store := memory.New()
	first := newRig(t, store, slowTool)
	log := first.begin("go", "yolo")
	first.await(log, "tool.approved")
	second := newRig(t, store, slowTool)
	if err := second.Resume(t.Context(), log, true); err != nil {
		t.Fatal(err)
	}
	second.settle(log)
	if got := second.payload(log, "tool.result"); !strings.Contains(got, `"status":"unknown"`) || !strings.Contains(got, "do not assume") {
		t.Errorf("result = %s", got)
	}
}

func TestLostModelCallIsMadeAgain(t *testing.T) {
	// What a lost attempt said does not stand in the answer.
	store := memory.New()
	first := newRig(t, store, `
replies:
  - deltas: ["half an ", "answer"]
    pace: 80ms
    faults: [{stall: true, after: 1}]
`)
	log := first.begin("go", "yolo")
	first.await(log, "turn.assistant_delta")
	second := newRig(t, store, `{replies: [{text: "whole answer"}]}`)
	if err := second.Resume(t.Context(), log, false); err != nil {
		t.Fatal(err)
	}
	second.settle(log)
	kinds := second.kinds(log)
	if count(kinds, "turn.retried") != 1 || count(kinds, "session.recovered") != 1 {
		t.Errorf("kinds = %v", kinds)
	}
	if got := second.payload(log, "turn.completed"); !strings.Contains(got, `"final_output":"whole answer"`) {
		t.Errorf("completed = %s", got)
	}
}

func TestCrashLoopSuspends(t *testing.T) {
	store := memory.New()
	stuck := `{replies: [{text: "x", faults: [{stall: true}, {stall: true}, {stall: true}, {stall: true}, {stall: true}]}]}`
	r := newRig(t, store, stuck)
	log := r.begin("go", "yolo")
	r.await(log, "turn.started")
	for range session.MaxRecoveries + 1 {
		r = newRig(t, store, stuck)
		if err := r.Resume(t.Context(), log, false); err != nil {
			t.Fatal(err)
		}
	}
	v := r.settle(log)
	if v.State != "suspended" || v.Why != "crash_loop" {
		t.Fatalf("view = %s %s", v.State, v.Why)
	}
	last := newRig(t, store, `{replies: [{text: "better now"}]}`)
	last.tell(log, world.SessionPath, session.Unsuspend{})
	last.settle(log)
	if got := last.payload(log, "turn.completed"); !strings.Contains(got, "better now") {
		t.Errorf("completed = %s, %v", got, last.kinds(log))
	}
}

func TestPanicsEndAsRunes(t *testing.T) {
	r := newRig(t, memory.New(), `
replies:
  - calls: [{tool: Boom}, {tool: Nothing}, {tool: Read, raw: '{"path":1'}]
  - text: "survived"
  - text: "x"
    faults: [{panic: "provider bug"}]
`)
	log := r.begin("one", "yolo")
	r.settle(log)
	var errs []string
	for rn, err := range r.log.Read(t.Context(), log, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if rn.Kind == "tool.result" {
			errs = append(errs, string(rn.Payload))
		}
	}
	all := strings.Join(errs, "\n")
	for _, want := range []string{"kaboom", "there is no tool called Nothing", "not usable"} {
		if !strings.Contains(all, want) {
			t.Errorf("results lack %q:\n%s", want, all)
		}
	}
	if err := r.Say(t.Context(), log, session.Say{Text: "two"}, "user:t"); err != nil {
		t.Fatal(err)
	}
	r.settle(log)
	if got := r.payload(log, "turn.error"); !strings.Contains(got, "provider bug") {
		t.Errorf("error = %s", got)
	}
}

func TestErrorThresholdSuspends(t *testing.T) {
	r := newRig(t, memory.New(), `{replies: [{text: x, faults: [{error: auth}]}]}`)
	log := r.begin("one", "yolo", func(b *engine.Begin) { b.Config.ErrorThreshold = 2 })
	r.settle(log)
	if err := r.Say(t.Context(), log, session.Say{Text: "two"}, "user:t"); err != nil {
		t.Fatal(err)
	}
	if v := r.settle(log); v.State != "suspended" || v.Why != "error_threshold" {
		t.Errorf("view = %s %s", v.State, v.Why)
	}
}

func TestRetriesLeaveNoTrace(t *testing.T) {
	r := newRig(t, memory.New(), `
replies:
  - deltas: ["a", "b", "c"]
    faults: [{cut: 2}, {error: overloaded}]
`)
	log := r.begin("one", "yolo")
	r.settle(log)
	if got := r.payload(log, "turn.completed"); !strings.Contains(got, `"final_output":"abc"`) || count(r.kinds(log), "turn.retried") != 2 {
		t.Errorf("completed = %s", got)
	}
}

func TestAgentThatCannotBeMadeReady(t *testing.T) {
	r := newRig(t, memory.New(), twoTools)
	log := r.begin("one", "yolo", func(b *engine.Begin) { b.Config.Model = "missing" })
	if v := r.settle(log); v.State != "suspended" || v.Why != "agent_gone" {
		t.Errorf("state = %s", v.State)
	}
	if got := r.payload(log, "agent.failed"); !strings.Contains(got, "no model called missing") {
		t.Errorf("failed = %s", got)
	}
	r.tell(log, world.SessionPath, session.Unsuspend{})
	if v := r.settle(log); v.State != "suspended" || count(r.kinds(log), "agent.spawning") != 2 {
		t.Errorf("state = %s", v.State)
	}
	r.tell(log, world.SessionPath, session.Close{})
	if v := r.settle(log); v.State != "closed" {
		t.Errorf("state = %s", v.State)
	}
}

func TestLimits(t *testing.T) {
	// A question nobody answers, a silent model and a tool that never ends all end by the clock.
	r := newRig(t, memory.New(), twoTools)
	log := r.begin("one", "ask", func(b *engine.Begin) { b.Config.AnswerMs = 30 })
	r.await(log, "turn.completed")
	if got := r.payload(log, "tool.result"); !strings.Contains(got, `"timeout"`) || r.ledger() != "" {
		t.Errorf("result = %s", got)
	}
	silent := newRig(t, memory.New(), `{replies: [{text: x, faults: [{stall: true}]}]}`, func(o *engine.Options) { o.StreamIdle = 20 * time.Millisecond })
	log = silent.begin("one", "yolo")
	silent.settle(log)
	if got := silent.payload(log, "turn.retried"); !strings.Contains(got, "silent") {
		t.Errorf("retried = %s", got)
	}
	slow := newRig(t, memory.New(), slowTool, func(o *engine.Options) { o.ToolLimit = 100 * time.Millisecond })
	log = slow.begin("one", "yolo")
	slow.settle(log)
	if got := slow.payload(log, "tool.result"); !strings.Contains(got, `"timeout"`) {
		t.Errorf("result = %s", got)
	}
}

func TestShutdownLosesNothing(t *testing.T) {
	// A tool that finishes within the grace is recorded as done, one that does not as cancelled; both logs go on later.
	for _, c := range []struct {
		command, status string
		grace           time.Duration
	}{{"sleep 0.2; echo ok >> ledger", "success", patience}, {"sleep 30", "cancelled", 10 * time.Millisecond}} {
		store := memory.New()
		text := fmt.Sprintf("replies:\n- calls: [{tool: Bash, args: {command: %q}}]\n- text: fine\n", c.command)
		r := newRig(t, store, text)
		log := r.begin("one", "yolo")
		r.await(log, "tool.approved")
		r.shutDown(c.grace)
		if got := r.payload(log, "tool.result"); !strings.Contains(got, c.status) {
			t.Errorf("result = %s, want %s", got, c.status)
		}
		if _, err := r.Tell(t.Context(), world.Message{Log: log, Path: world.SessionPath, Command: session.Pause{}}); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("a closed engine said %v", err)
		}
		again := newRig(t, store, text)
		if err := again.Resume(t.Context(), log, false); err != nil {
			t.Fatal(err)
		}
		again.settle(log)
		if count(again.kinds(log), "turn.completed") != 1 {
			t.Errorf("it did not go on: %v", again.kinds(log))
		}
	}
}

func TestForkStandsAlone(t *testing.T) {
	r := newRig(t, memory.New(), `{replies: [{text: "first answer"}, {text: "second answer"}]}`)
	log := r.begin("one", "yolo")
	r.settle(log)
	fork, err := r.Fork(t.Context(), log, 0, "user:t")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Say(t.Context(), fork, session.Say{Text: "two"}, "user:t"); err != nil {
		t.Fatal(err)
	}
	r.settle(fork)
	if got := r.payload(fork, "turn.completed"); !strings.Contains(got, "second answer") {
		t.Errorf("the fork forgot: %s", got)
	}
	if _, err := r.Fork(t.Context(), log, 9999, "user:t"); err == nil || !strings.Contains(err.Error(), "9999") {
		t.Errorf("forking at a rune that is not there gave %v", err)
	}
}

func TestUnknownLog(t *testing.T) {
	store := memory.New()
	r := newRig(t, store, twoTools)
	_, err := r.Tell(t.Context(), world.Message{Log: "conv_nobody", Path: world.SessionPath, Command: session.Say{Text: "x"}})
	if !errors.Is(err, runelog.ErrNotFound) {
		t.Errorf("err = %v", err)
	}
	if _, err := r.Look(t.Context(), "conv_nobody"); !errors.Is(err, runelog.ErrNotFound) {
		t.Errorf("err = %v", err)
	}
	for m := range store.List(t.Context()) {
		t.Errorf("asking for a log made one: %+v", m)
	}
}
