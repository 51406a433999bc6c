package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	run "stave/internal/machine/workflow"
	"stave/internal/model"
	"stave/internal/runelog/memory"
	"stave/internal/workflow"
	"stave/internal/world"
)

// define reads a workflow.
func define(t *testing.T, text string) workflow.Definition {
	t.Helper()
	d, err := workflow.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// start begins a conversation and runs a workflow in it.
func (r *rig) start(d workflow.Definition, task, mode string, change ...func(*engine.Run)) (log, id string) {
	r.t.Helper()
	log = r.begin("", mode)
	s := engine.Run{Definition: d, Task: task, By: "user:t"}
	for _, c := range change {
		c(&s)
	}
	id, err := r.StartRun(r.t.Context(), log, s)
	if err != nil {
		r.t.Fatal(err)
	}
	return log, id
}

func headless(r *engine.Run) { r.Headless = true }

// question is the one that is open.
func (r *rig) question(log string) world.Question {
	r.t.Helper()
	v := r.settle(log)
	if len(v.Questions) != 1 {
		r.t.Fatalf("%d questions are open: %+v\n%s", len(v.Questions), v.Questions, strings.Join(r.kinds(log), "\n"))
	}
	return v.Questions[0]
}

func (r *rig) answer(log, choice, text string) {
	r.t.Helper()
	q := r.question(log)
	if _, err := r.Answer(r.t.Context(), engine.Choice{Question: q.ID, Choice: choice, Text: text, By: "user:t"}); err != nil {
		r.t.Fatal(err)
	}
}

// runes returns those of some kinds, each as its kind and payload.
func (r *rig) runes(log string, kinds ...string) []string {
	r.t.Helper()
	var list []string
	for rn, err := range r.log.Read(r.t.Context(), log, 0) {
		if err != nil {
			r.t.Fatal(err)
		}
		for _, k := range kinds {
			if strings.HasPrefix(rn.Kind, k) {
				list = append(list, rn.Kind+" "+string(rn.Payload))
			}
		}
	}
	return list
}

// seedScript plays the three stages of the code review.
const seedScript = `
scenes:
  - system: You are planning
    replies:
      - calls: [{tool: Edit, args: {path: auth.go, old_string: a, new_string: b}}]
      - when: denied
        calls: [{tool: Grep, args: {pattern: func}}]
      - calls: [{tool: submit_plan, args: {goal: tidy, steps: [{file: auth.go, change: rename}], risks: []}}]
  - system: You are carrying out
    replies:
      - calls: [{tool: Edit, args: {path: auth.go, old_string: Login, new_string: SignIn}}]
      - calls: [{tool: submit_diff, args: {summary: renamed, diff: "-Login +SignIn", files: [auth.go], deviations: []}}]
  - system: You are reviewing|You review
    replies:
      - calls: [{tool: submit_review, args: {verdict: approve, summary: fine, findings: []}}]
`

func codeReview(t *testing.T) workflow.Definition {
	t.Helper()
	for _, d := range workflow.Bundled() {
		if d.ID == "codeReview" {
			return d
		}
	}
	t.Fatal("codeReview is not bundled")
	return workflow.Definition{}
}

// TestSeedTrace plays the sequence of the seed in the modes ask and yolo: the
// Edit in Plan is asked about in both, the Grep and the Edit in Execute in none.
func TestSeedTrace(t *testing.T) {
	for _, mode := range []string{"ask", "yolo", "allowlist"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, memory.New(), seedScript)
			r.write("auth.go", "package auth\n\nfunc Login() {}\n")
			log, id := r.start(codeReview(t), "refactor auth module", mode)
			q := r.question(log)
			ask, ok := q.Ask.(tool.GrantStageTool)
			if !ok || q.Kind != "grant_stage_tool" || ask.Call.Tool != "Edit" || ask.ExecutionID != id+".Plan.1" || ask.Attempt != 1 || ask.Call.Digest == "" {
				t.Fatalf("asked %s %+v", q.Kind, q.Ask)
			}
			r.answer(log, "deny", "")
			v := r.settle(log)
			if len(v.Questions) > 0 || len(v.Runs) > 0 {
				t.Fatalf("it has not ended: %+v", v.Runs)
			}
			if got, err := os.ReadFile(filepath.Join(r.dir, "auth.go")); err != nil || !strings.Contains(string(got), "SignIn") {
				t.Errorf("the file is %q, %v", got, err)
			}
			kinds := strings.Join(r.kinds(log), "\n")
			for _, want := range []string{
				"workflow.started\nworkflow.stages_chosen", "stage.prepared\nstage.initialized\nstage.act_started",
				"stage.completion_accepted", "stage.act_ended", "stage.asserted\nstage.exited\nworkflow.stage_done\nworkflow.next_due", "workflow.completed\nsession.run_ended",
			} {
				if !strings.Contains(kinds, want) {
					t.Errorf("nowhere is\n%s\nin\n%s", want, kinds)
				}
			}
			var approvers []string
			for _, a := range r.runes(log, "tool.approved", "tool.denied") {
				approvers = append(approvers, strings.Fields(a)[0]+" "+between(a, `"approver":"`, `"`)+between(a, `"denied_by":"`, `"`))
			}
			if got := strings.Join(approvers, ", "); got != "tool.denied user:t, tool.approved stage:Plan, tool.approved stage:Plan, tool.approved stage:Execute, tool.approved stage:Execute, tool.approved stage:Review" {
				t.Errorf("decided: %s", got)
			}
			var order []string
			for _, c := range r.runes(log, "workflow.stage_begun") {
				order = append(order, between(c, `"stage":"`, `"`))
			}
			if strings.Join(order, " ") != "Plan Execute Review" {
				t.Errorf("order %v", order)
			}
		})
	}
}

func between(text, from, to string) string {
	_, rest, ok := strings.Cut(text, from)
	if !ok {
		return ""
	}
	found, _, _ := strings.Cut(rest, to)
	return found
}

const single = `
id: one
stages:
  - id: Work
    allowedTools: [Read]
    completionTool: done
    completionSchema: {type: object, required: [n], properties: {n: {type: integer}}, additionalProperties: false}
    turnCap: 4
    retryPolicy: {maxAttempts: 2}
    body: "WORK on {{ctx.task}} attempt {{ctx.attempt}} because {{ctx.reason}}"
`

// TestGrantCoversOneProposal shows that an approved grant runs exactly that call:
// other arguments, and the same once more, are asked about again.
func TestGrantCoversOneProposal(t *testing.T) {
	r := newRig(t, memory.New(), `
replies:
  - calls: [{tool: Write, args: {path: a.txt, content: one}}]
  - calls: [{tool: Write, args: {path: b.txt, content: two}}]
  - calls: [{tool: Write, args: {path: a.txt, content: one}}]
  - calls: [{tool: done, args: {n: 1}}]
`)
	log, _ := r.start(define(t, single), "x", "yolo")
	first := r.question(log)
	_, err := r.Answer(t.Context(), engine.Choice{Question: first.ID, Choice: "approve", Remember: "tool", By: "user:t"})
	if err == nil || !strings.Contains(err.Error(), "never remembered") {
		t.Errorf("remembering a grant: %v", err)
	}
	r.answer(log, "approve", "")
	r.answer(log, "deny", "not that")
	if third := r.question(log); third.ID == first.ID {
		t.Error("the same proposal was asked about twice")
	}
	r.answer(log, "defer", "")
	v := r.settle(log)
	if len(v.Runs) > 0 {
		t.Fatalf("%+v", v.Runs)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "b.txt")); err == nil {
		t.Error("a denied call ran")
	}
	if got := count(r.kinds(log), "tool.approval_requested"); got != 3 {
		t.Errorf("%d grants were asked for", got)
	}
	_, err = r.Answer(t.Context(), engine.Choice{Question: first.ID, Choice: "approve", By: "user:late"})
	if late := new(engine.Answered); !errors.As(err, &late) {
		t.Errorf("a grant used twice: %v", err)
	}
	if got := r.payload(log, "workflow.completed"); !strings.Contains(got, `{"n":1}`) {
		t.Errorf("completed %s", got)
	}
}

// TestHeadlessStageGoesOn shows that nobody's absence ends a stage.
func TestHeadlessStageGoesOn(t *testing.T) {
	r := newRig(t, memory.New(), `
replies:
  - calls: [{tool: Bash, args: {command: "touch x"}}]
  - when: nobody is there
    calls: [{tool: done, args: {n: 2}}]
`)
	log, _ := r.start(define(t, single), "x", "yolo", headless)
	r.settle(log)
	if got := r.payload(log, "workflow.completed"); !strings.Contains(got, `{"n":2}`) {
		t.Errorf("%s\n%s", got, strings.Join(r.kinds(log), "\n"))
	}
	if got := r.payload(log, "tool.denied"); !strings.Contains(got, "rule:headless") {
		t.Errorf("denied %s", got)
	}
}

// TestCompletionIsChecked shows that a payload which does not fit costs a turn and
// comes back on the same transcript, and that other calls beside it run first.
func TestCompletionIsChecked(t *testing.T) {
	r := newRig(t, memory.New(), `
replies:
  - calls: [{tool: done, args: {n: many}}]
  - calls: [{tool: done, raw: "{"}]
  - when: "(?s)not usable.*"
    calls: [{tool: done, args: {n: 3}}, {tool: Read, args: {path: a.txt}}]
`)
	r.write("a.txt", "hello")
	log, _ := r.start(define(t, single), "x", "ask")
	r.settle(log)
	got := r.runes(log, "stage.completion", "workflow.completed", "tool.result", "stage.act_ended")
	text := strings.Join(got, "\n")
	if !strings.Contains(text, `"n":3`) || strings.Count(text, "stage.completion_rejected") != 1 || !strings.Contains(text, `stage.act_ended {"requests":3}`) {
		t.Error(text)
	}
	if read, accepted := strings.Index(text, "hello"), strings.Index(text, "stage.completion_accepted"); read < 0 || accepted < read {
		t.Errorf("the completion did not run last:\n%s", text)
	}
}

// TestTurnCap shows that an attempt makes exactly as many requests as its cap,
// that its last tools still finish, and that it is tried again and given up.
func TestTurnCap(t *testing.T) {
	r := newRig(t, memory.New(), `
replies:
  - text: thinking
  - calls: [{tool: Read, args: {path: a.txt}}]
  - text: still thinking
  - calls: [{tool: Read, args: {path: b.txt}}]
`)
	r.write("a.txt", "A")
	r.write("b.txt", "B")
	log, _ := r.start(define(t, single), "x", "ask")
	r.settle(log)
	ends := r.runes(log, "stage.act_ended", "stage.reminded", "stage.retried", "stage.asserted", "stage.failed", "workflow.failed")
	want := []string{
		"stage.reminded", "stage.reminded", `stage.act_ended {"cap_hit":true,"requests":1}`, "stage.retried",
		"stage.reminded", "stage.reminded", `stage.act_ended {"cap_hit":true,"requests":1}`, "stage.asserted", "stage.failed", "workflow.failed",
	}
	if len(ends) != len(want) {
		t.Fatalf("%d instead of %d:\n%s", len(ends), len(want), strings.Join(ends, "\n"))
	}
	for i, w := range want {
		if !strings.HasPrefix(ends[i], w) {
			t.Errorf("%d: %s instead of %s", i, ends[i], w)
		}
	}
	if got := count(r.kinds(log), "turn.started"); got != 6 {
		t.Errorf("%d turns", got)
	}
	if got := r.payload(log, "stage.initialized"); !strings.Contains(got, "attempt 2 because its 4 turns were used up") {
		t.Errorf("the second attempt is told %s", got)
	}
}

const fan = `
id: fan
stages:
  - id: Split
    allowedTools: []
    completionTool: split
    completionSchema: {type: object}
    turnCap: 2
    body: SPLIT
    next: {stages: [Test, Lint], execution: parallel, join: Review}
  - id: Test
    allowedTools: [Bash]
    completionTool: tested
    completionSchema: {type: object}
    turnCap: 3
    retryPolicy: {maxAttempts: 1}
    body: "TEST sees {{ctx.upstream}}"
  - id: Lint
    allowedTools: []
    completionTool: linted
    completionSchema: {type: object}
    assert: result.output.ok == true
    turnCap: 2
    retryPolicy: {maxAttempts: 1}
    body: "LINT sees {{ctx.upstream}}"
  - id: Review
    allowedTools: []
    completionTool: reviewed
    completionSchema: {type: object}
    turnCap: 2
    body: "REVIEW sees {{ctx.upstream}}"
`

func fanScript(test, lint string) string {
	return fmt.Sprintf(`
scenes:
  - {system: SPLIT, replies: [{calls: [{tool: split, args: {}}]}]}
  - {system: TEST, replies: [%s, {calls: [{tool: tested, args: {passed: 7}}]}]}
  - {system: LINT, replies: [{delay: 50ms, calls: [{tool: linted, args: {ok: %s}}]}]}
  - {system: REVIEW, replies: [{calls: [{tool: reviewed, args: {good: true}}]}]}
`, test, lint)
}

// TestFanOut runs two stages side by side, and one after the other where only one
// may: the join sees both, neither sees the other.
func TestFanOut(t *testing.T) {
	for _, most := range []int{1, 2} {
		r := newRig(t, memory.New(), fanScript(`{calls: [{tool: Bash, args: {command: "true"}}]}`, "true"))
		log, _ := r.start(define(t, fan), "x", "ask", func(r *engine.Run) { r.Parallel = most })
		r.settle(log)
		if r.payload(log, "workflow.completed") == "" {
			t.Fatalf("at %d: %s", most, strings.Join(r.runes(log, "stage.failed", "workflow."), "\n"))
		}
		var began []string
		for _, k := range r.runes(log, "workflow.stage_begun", "workflow.stage_done") {
			began = append(began, strings.TrimPrefix(strings.Fields(k)[0], "workflow.stage_")+":"+between(k, `"stage":"`, `"`))
		}
		order := strings.Join(began, " ")
		if most == 1 && order != "begun:Split done:Split begun:Test done:Test begun:Lint done:Lint begun:Review done:Review" {
			t.Error(order)
		}
		if most == 2 && (!strings.HasPrefix(order, "begun:Split done:Split begun:Test begun:Lint ") || !strings.HasSuffix(order, " begun:Review done:Review")) {
			t.Error(order)
		}
		prompts := strings.Join(r.runes(log, "stage.initialized"), "\n")
		lint := between(prompts, "LINT sees ", "\n")
		if strings.Contains(lint, "passed") || !strings.Contains(between(prompts, "REVIEW sees ", "\n"), "passed") || !strings.Contains(between(prompts, "REVIEW sees ", "\n"), "Lint") {
			t.Errorf("at %d the stages see\n%s", most, prompts)
		}
	}
}

// TestSiblingFails shows that a failure ends the sibling with its running command,
// and that neither the join nor anything else goes on.
func TestSiblingFails(t *testing.T) {
	r := newRig(t, memory.New(), fanScript(`{calls: [{tool: Bash, args: {command: "touch began; sleep 1000; touch ended"}}]}`, "false"))
	log, _ := r.start(define(t, fan), "x", "ask")
	v := r.settle(log)
	if len(v.Runs) > 0 || len(v.Jobs) > 0 {
		t.Errorf("left over: %+v %+v", v.Runs, v.Jobs)
	}
	if got := r.payload(log, "workflow.failed"); !strings.Contains(got, `"stage":"Lint"`) || !strings.Contains(got, "does not pass") {
		t.Errorf("failed %s", got)
	}
	kinds := r.kinds(log)
	if count(kinds, "stage.cancelled") != 1 || count(kinds, "workflow.stage_begun") != 3 {
		t.Error(strings.Join(kinds, "\n"))
	}
	if got := strings.Join(r.runes(log, "tool.result"), "\n"); count(kinds, "tool.call") > 3 && !strings.Contains(got, `"cancelled"`) {
		t.Errorf("results\n%s", got)
	}
	for _, m := range v.Machines {
		if m.Machine != "session" && m.Path != world.RootPath {
			t.Errorf("%s is left", m.Path)
		}
	}
}

// TestRunSurvivesRestart ends the process while a stage waits for a grant, changes
// the definition meanwhile, and goes on.
func TestRunSurvivesRestart(t *testing.T) {
	log := memory.New()
	text := `
replies:
  - calls: [{tool: Write, args: {path: a.txt, content: one}}]
  - calls: [{tool: done, args: {n: 1}}]
`
	def := define(t, single)
	known := func(o *engine.Options) {
		o.Definition = func(_, _, name string) string { return def.Hash }
	}
	r := newRig(t, log, text, known)
	conv, _ := r.start(def, "x", "ask", func(r *engine.Run) { r.Source = "bundled" })
	r.question(conv)
	r.shutDown(patience)

	changed := newRig(t, log, text, func(o *engine.Options) { o.Definition = func(_, _, _ string) string { return "another" } })
	if err := changed.Resume(t.Context(), conv, false); err != nil {
		t.Fatal(err)
	}
	v := changed.settle(conv)
	if len(v.Questions) != 2 {
		t.Fatalf("%d questions", len(v.Questions))
	}
	for _, q := range v.Questions {
		choice := "deny"
		if _, ok := q.Ask.(run.MayGoOn); ok {
			choice = "go_on"
		}
		if _, err := changed.Answer(t.Context(), engine.Choice{Question: q.ID, Choice: choice, By: "user:t"}); err != nil {
			t.Fatal(err)
		}
	}
	changed.settle(conv)
	if changed.payload(conv, "workflow.completed") == "" || changed.payload(conv, "workflow.definition_changed") == "" {
		t.Error(strings.Join(changed.kinds(conv), "\n"))
	}
}

// TestPausedStageGoesOn shows that a pause stops a stage's agent and that it goes
// on by itself with the requests it has left.
func TestPausedStageGoesOn(t *testing.T) {
	r := newRig(t, memory.New(), `
replies:
  - calls: [{tool: Read, args: {path: a.txt}}]
  - {delay: 100ms, text: "so far so good"}
  - calls: [{tool: done, args: {n: 9}}]
    times: 9
`)
	r.write("a.txt", "A")
	log, _ := r.start(define(t, single), "x", "ask")
	r.await(log, "turn.tools_finished")
	r.tell(log, world.SessionPath, session.Pause{})
	r.settle(log)
	if v := r.settle(log); len(v.Runs) != 1 {
		t.Fatalf("%+v\n%s", v.Runs, strings.Join(r.kinds(log), "\n"))
	}
	r.tell(log, world.SessionPath, session.Resume{})
	r.settle(log)
	if r.payload(log, "workflow.completed") == "" {
		t.Error(strings.Join(r.runes(log, "stage", "turn.interrupted", "turn.error", "workflow"), "\n"))
	}
}

// TestLoopsEnd shows that a workflow which goes round is stopped by a named cap.
func TestLoopsEnd(t *testing.T) {
	r := newRig(t, memory.New(), `{replies: [{calls: [{tool: done, args: {}}]}]}`)
	log, _ := r.start(define(t, `
id: round
stages:
  - id: Turn
    allowedTools: []
    completionTool: done
    completionSchema: {type: object}
    turnCap: 1
    visitCap: 3
    body: TURN
    next: Turn
`), "x", "ask")
	r.settle(log)
	if got := r.payload(log, "workflow.failed"); !strings.Contains(got, "visitCap") {
		t.Errorf("%s", got)
	}
	if got := count(r.kinds(log), "stage.exited"); got != 3 {
		t.Errorf("%d rounds", got)
	}
}

// TestBrokenRule shows that a rule which cannot be evaluated fails its stage, with
// the rule and what it was given.
func TestBrokenRule(t *testing.T) {
	r := newRig(t, memory.New(), `{replies: [{calls: [{tool: done, args: {x: [1]}}]}]}`)
	log, _ := r.start(define(t, `
id: broken
stages:
  - id: Only
    allowedTools: []
    completionTool: done
    completionSchema: {type: object}
    turnCap: 1
    body: GO
    assert: result.output.x[5] == 1
`), "x", "ask")
	r.settle(log)
	got := r.payload(log, "stage.failed")
	if !strings.Contains(got, "result.output.x[5]") || !strings.Contains(got, `"phase":"assert"`) || r.payload(log, "workflow.failed") == "" {
		t.Errorf("%s", got)
	}
}

// TestHugePayload shows that a result which is too long is refused with a clear
// error: by the stage on the same transcript, and one beyond what any call may
// hold with the attempt.
func TestHugePayload(t *testing.T) {
	for size, want := range map[int]string{300 << 10: "stage.completion_rejected", 10 << 20: "stage.retried"} {
		r := newRig(t, memory.New(), `{replies: [{calls: [{tool: done, args: {n: 1}}]}]}`, func(o *engine.Options) {
			usual, asked := o.Provider, new(atomic.Int32)
			o.Provider = func(ctx context.Context, name string) (model.Provider, error) {
				p, err := usual(ctx, name)
				return huge{p, size, asked}, err
			}
		})
		log, _ := r.start(define(t, single), "x", "ask")
		r.settle(log)
		if got := strings.Join(r.runes(log, want), "\n"); !strings.Contains(got, "bytes") || r.payload(log, "workflow.completed") == "" {
			t.Errorf("%d: %.300s\n%s", size, got, strings.Join(r.kinds(log), "\n"))
		}
	}
}

// TestRunIsForPeople shows that tools unknown to the conversation are found before
// a run begins, and that a message to the conversation is not gated by a run.
func TestRunIsForPeople(t *testing.T) {
	r := newRig(t, memory.New(), `
scenes:
  - {system: WORK, replies: [{delay: 100ms, calls: [{tool: done, args: {n: 1}}]}]}
replies:
  - text: I am here
`)
	bad := define(t, strings.Replace(single, "[Read]", "[Reed]", 1))
	log := r.begin("", "ask")
	_, err := r.StartRun(t.Context(), log, engine.Run{Definition: bad, Task: "x", By: "user:t"})
	if err == nil || !strings.Contains(err.Error(), "Reed") {
		t.Errorf("unknown tool: %v", err)
	}
	if _, err := r.StartRun(t.Context(), log, engine.Run{Definition: define(t, single), Task: "x", By: "agent:me"}); err == nil {
		t.Error("an agent started a workflow")
	}
	if _, err := r.StartRun(t.Context(), log, engine.Run{Definition: define(t, single), Task: "x", By: "user:t"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Say(t.Context(), log, session.Say{Text: "hello"}, "user:t"); err != nil {
		t.Fatal(err)
	}
	r.tell(log, world.SessionPath, session.SwitchModel{Model: "other"})
	r.settle(log)
	kinds := r.kinds(log)
	if count(kinds, "workflow.completed") != 1 || count(kinds, "turn.completed") != 2 {
		t.Error(strings.Join(kinds, "\n"))
	}
}

// TestGuardsHoldInStages shows that a guard hook refuses also what a stage allows.
func TestGuardsHoldInStages(t *testing.T) {
	r := newRig(t, memory.New(), `
replies:
  - calls: [{tool: Read, args: {path: a.txt}}]
  - when: denied
    calls: [{tool: done, args: {n: 1}}]
`, func(o *engine.Options) { o.Hooks = noReads{} })
	r.write("a.txt", "A")
	log, _ := r.start(define(t, single), "x", "yolo")
	r.settle(log)
	if got := r.payload(log, "tool.denied"); !strings.Contains(got, "hook:noreads") || r.payload(log, "workflow.completed") == "" {
		t.Errorf("denied %s", got)
	}
}

type noReads struct{}

func (noReads) Guard(_ context.Context, c tool.Call) []tool.Verdict {
	if c.Tool == "Read" {
		return []tool.Verdict{{Answer: tool.Refuse, By: "hook:noreads", Reason: "no reading today"}}
	}
	return nil
}

func (noReads) Transform(_ context.Context, c tool.Call) (json.RawMessage, error) {
	return c.Arguments, nil
}
func (noReads) Observe(tool.Call, tool.Result) {}

// huge answers the first request with far too much.
type huge struct {
	model.Provider
	size  int
	asked *atomic.Int32
}

func (h huge) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	if h.asked.Add(1) > 1 {
		r.Messages = r.Messages[:1]
		return h.Provider.Stream(ctx, r)
	}
	return func(yield func(model.Event, error) bool) {
		args := `{"n":1,"text":"` + strings.Repeat("x", h.size) + `"}`
		_ = yield(model.Event{Call: &model.RawCall{ID: "a", Name: "done", Args: args}}, nil) &&
			yield(model.Event{Done: model.StopToolCalls}, nil)
	}
}

// TestGrantTimesOut shows that a grant which nobody decides in time is denied, and
// that its stage goes on.
func TestGrantTimesOut(t *testing.T) {
	r := newRig(t, memory.New(), `
replies:
  - calls: [{tool: Write, args: {path: a.txt, content: one}}]
  - when: nobody answered in time
    calls: [{tool: done, args: {n: 1}}]
`)
	log := r.begin("", "yolo", func(b *engine.Begin) { b.Config.AnswerMs = 30 })
	if _, err := r.StartRun(t.Context(), log, engine.Run{Definition: define(t, single), Task: "x", By: "user:t"}); err != nil {
		t.Fatal(err)
	}
	r.await(log, "workflow.completed")
	if got := r.payload(log, "tool.denied"); !strings.Contains(got, "rule:timeout") {
		t.Errorf("denied %s", got)
	}
}

// TestRunBudget shows that what a whole run may use holds for all its stages.
func TestRunBudget(t *testing.T) {
	r := newRig(t, memory.New(), `{replies: [{calls: [{tool: done, args: {}}], usage: {input_tokens: 60, output_tokens: 1}}]}`, priced)
	log, _ := r.start(define(t, `
id: two
budget: {modelCalls: 1}
stages:
  - {id: A, allowedTools: [], completionTool: done, completionSchema: {type: object}, turnCap: 1, body: A, next: B}
  - {id: B, allowedTools: [], completionTool: done, completionSchema: {type: object}, turnCap: 1, body: B, retryPolicy: {maxAttempts: 1}}
`), "x", "ask")
	v := r.settle(log)
	if got := r.payload(log, "workflow.failed"); !strings.Contains(got, `"stage":"B"`) || !strings.Contains(got, "budget") {
		t.Errorf("%s\n%s", got, strings.Join(r.runes(log, "stage.failed", "agent.terminated"), "\n"))
	}
	for _, m := range v.Machines {
		if m.Machine == "agent" && m.Path != world.RootPath {
			t.Errorf("%s is left", m.Path)
		}
	}
}

// TestChangedRunWaits shows that nothing of a run goes on while a person is asked
// about its definition: no model is called and no tool runs, and that the question
// goes away when the definition is back.
func TestChangedRunWaits(t *testing.T) {
	text := `
replies:
  - delay: 60s
    text: never
  - calls: [{tool: done, args: {n: 1}}]
    times: 9
`
	def := define(t, single)
	for _, back := range []bool{true, false} {
		log := memory.New()
		first := newRig(t, log, text)
		conv, _ := first.start(def, "x", "yolo")
		first.await(conv, "turn.started")
		first.shutDown(time.Millisecond)

		now := new(atomic.Pointer[string])
		other := "another"
		now.Store(&other)
		hash := func(o *engine.Options) { o.Definition = func(_, _, _ string) string { return *now.Load() } }
		second := newRig(t, log, `{replies: [{calls: [{tool: done, args: {n: 1}}]}]}`, hash)
		if err := second.Resume(t.Context(), conv, false); err != nil {
			t.Fatal(err)
		}
		if q := second.question(conv); q.Kind != "may_go_on" {
			t.Fatalf("asked %s", q.Kind)
		}
		if got := count(second.kinds(conv), "turn.tool_calls_received"); got > 0 {
			t.Fatal("the model was called before anybody answered")
		}
		if back {
			second.shutDown(time.Millisecond)
			now.Store(&def.Hash)
			second = newRig(t, log, `{replies: [{calls: [{tool: done, args: {n: 1}}]}]}`, hash)
			if err := second.Resume(t.Context(), conv, false); err != nil {
				t.Fatal(err)
			}
		} else {
			second.answer(conv, "go_on", "")
		}
		second.settle(conv)
		if second.payload(conv, "workflow.completed") == "" || (second.payload(conv, "workflow.definition_restored") != "") != back {
			t.Errorf("back %t:\n%s", back, strings.Join(second.kinds(conv), "\n"))
		}
	}
}

// TestBeginsWithRun shows that a conversation and the workflow it is for are one
// batch, and that neither begins where the workflow cannot.
func TestBeginsWithRun(t *testing.T) {
	r := newRig(t, memory.New(), `{replies: [{calls: [{tool: done, args: {n: 1}}]}]}`)
	cfg := session.Config{Mode: "ask", Dir: r.dir, Model: "script"}
	log, err := r.Begin(t.Context(), engine.Begin{Title: "one", By: "user:t", Config: cfg, Run: &engine.Run{Definition: define(t, single), Task: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	r.await(log, "workflow.completed")
	if kinds := r.kinds(log); kinds[0] != "session.created" || !slices.Contains(kinds[1:4], "workflow.started") {
		t.Error(strings.Join(kinds, "\n"))
	}
	bad := define(t, strings.Replace(single, "[Read]", "[Reed]", 1))
	if _, err := r.Begin(t.Context(), engine.Begin{By: "user:t", Config: cfg, Run: &engine.Run{Definition: bad, Task: "x"}}); err == nil {
		t.Error("a workflow with an unknown tool began")
	}
	n := 0
	for range r.log.List(t.Context()) {
		n++
	}
	if n != 1 {
		t.Errorf("%d conversations are there", n)
	}
}

// TestSnapshotsOfStages shows that a snapshot taken in the middle of a stage is
// what the log says, byte for byte.
func TestSnapshotsOfStages(t *testing.T) {
	r := newRig(t, memory.New(), seedScript, func(o *engine.Options) { o.SnapshotEvery = 1 })
	r.write("auth.go", "package auth\n\nfunc Login() {}\n")
	log, _ := r.start(codeReview(t), "refactor auth module", "yolo")
	r.question(log) // the newest snapshot is what is compared, so the stage has to be there
	r.kinds(log)
}

// TestHopelessIsNotTriedAgain shows that what the model service refuses is not
// asked for once more.
func TestHopelessIsNotTriedAgain(t *testing.T) {
	r := newRig(t, memory.New(), `{replies: [{text: x, faults: [{error: auth}, {error: auth}, {error: auth}]}]}`)
	log, _ := r.start(define(t, single), "x", "ask")
	r.settle(log)
	if got := r.payload(log, "stage.failed"); count(r.kinds(log), "stage.retried") > 0 || !strings.Contains(got, `"phase":"act"`) || !strings.Contains(got, "auth") {
		t.Errorf("%s", got)
	}
}
