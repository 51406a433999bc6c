package engine_test

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"testing"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/model"
	"stave/internal/runelog/memory"
)

// Both ways to wait for a helper that needs a person twice.
const (
	helper = `
scenes:
  - opening: "^task"
    replies:
      - calls: [{tool: Write, args: {path: a.txt, content: a}}]
      - calls: [{tool: Write, args: {path: b.txt, content: b}}]
      - text: they are there
replies:
`
	inOne = helper + `
  - calls: [{tool: SpawnAgent, args: {task: "task one"}}]
  - text: the helper made them
`
	inTwo = helper + `
  - calls: [{tool: SpawnAgent, args: {task: "task one", background: true}}]
  - calls: [{tool: WaitAgent, args: {agent: THE-AGENT}}]
  - text: the helper made them
`
)

// knowing is a model that knows the agent it has started.
type knowing struct{ model.Provider }

func (k knowing) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	agent := regexp.MustCompile(`agt_[0-9a-f]+`).FindString(fmt.Sprintf("%+v", results(r)))
	return func(yield func(model.Event, error) bool) {
		for ev, err := range k.Provider.Stream(ctx, r) {
			if ev.Call != nil {
				call := *ev.Call
				call.Args = strings.ReplaceAll(call.Args, "THE-AGENT", agent)
				ev.Call = &call
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func results(r model.Request) (all []model.ToolResult) {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				all = append(all, *p.Result)
			}
		}
	}
	return all
}

func withKnowing(o *engine.Options) {
	provider := o.Provider
	o.Provider = func(ctx context.Context, name string) (model.Provider, error) {
		p, err := provider(ctx, name)
		return knowing{p}, err
	}
}

// TestHelperAsks shows that a call which waits for an agent does not keep a log from
// resting while that agent waits for a person, nor an engine from closing, which is
// no crash however often it happens; and that an answer, given in the same process
// or a later one, lets all of them go on.
func TestHelperAsks(t *testing.T) {
	for name, script := range map[string]string{"SpawnAgent": inOne, "WaitAgent": inTwo} {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			r := newRig(t, store, script, withAgents, withKnowing)
			dir := r.dir
			log := r.begin("go", "ask")
			for q := r.question(log); strings.HasPrefix(string(q.Path), "agent:root"); q = r.question(log) {
				r.answer(log, "approve", "") // the agent, and waiting for it
				if v := r.settle(log); len(v.Questions) == 2 {
					break // the helper was faster
				}
			}
			approveAll(r, log) // its first file
			r.question(log)
			for range session.MaxRecoveries + 2 {
				r.shutDown(patience)
				r = newRig(t, store, script, withAgents, withKnowing)
				r.dir = dir
				if err := r.Resume(t.Context(), log, false); err != nil {
					t.Fatal(err)
				}
				r.question(log)
			}
			if got := r.runes(log, "session.recovered", "tool.restarted", "session.suspended"); len(got) > 0 {
				t.Errorf("a clean end was taken for a crash: %v", got)
			}
			approveAll(r, log) // its second
			v := r.settle(log)
			if v.State != "active" || len(v.Questions) > 0 {
				t.Fatalf("%s, %+v", v.State, v.Questions)
			}
			kinds := r.kinds(log)
			if n := count(kinds, "agent.spawning"); n != 2 {
				t.Errorf("%d agents: %v", n, kinds)
			}
			if last := r.runes(log, "turn.completed"); len(last) != 2 || !strings.Contains(last[1], "the helper made them") {
				t.Errorf("%v", last)
			}
		})
	}
}

// approveAll approves what is asked now.
func approveAll(r *rig, log string) {
	r.t.Helper()
	for _, q := range r.settle(log).Questions {
		if _, err := r.Answer(r.t.Context(), engine.Choice{Question: q.ID, Choice: "approve", By: "user:t"}); err != nil {
			r.t.Fatal(err)
		}
	}
}
