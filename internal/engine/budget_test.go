package engine_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/model"
	"stave/internal/runelog/memory"
	"stave/internal/toolbox"
	"stave/internal/world"
)

// priced knows one model: a token costs a millionth of a dollar, in and out.
func priced(o *engine.Options) {
	o.Info = func(string) engine.ModelInfo {
		return engine.ModelInfo{
			Window: 1 << 20, MaxOutput: 1000,
			Cost:  func(u model.Usage) int64 { return u.InputTokens + u.OutputTokens },
			Worst: func(in, out int64) int64 { return in + out },
		}
	}
	o.Tokens = func(model.Request) int64 { return 100 }
}

func withAgents(o *engine.Options) {
	set, err := toolbox.NewSet(append(toolbox.All(), toolbox.SpawnAgent(), toolbox.WaitAgent(), toolbox.MessageAgent(), toolbox.CloseAgent(), toolbox.AskUser())...)
	if err != nil {
		panic(err)
	}
	o.Tools = set
}

func limited(a model.Amount) func(*engine.Begin) {
	return func(b *engine.Begin) { b.Config.Budget = a }
}

func (r *rig) account(log string) world.Account {
	r.t.Helper()
	v, err := r.Look(r.t.Context(), log)
	if err != nil {
		r.t.Fatal(err)
	}
	return v.Accounts[0]
}

const chatty = `
replies:
  - {times: 50, calls: [{tool: Read, args: {path: a.txt}}], usage: {input_tokens: 90, output_tokens: 10}}
`

// TestBudgetHolds shows that a limit ends the turn before it is passed, suspends
// the session, and that a raised one lets the work go on by itself.
func TestBudgetHolds(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit model.Amount
		short string
		used  func(model.Amount) int64
	}{
		{"tokens", model.Amount{Tokens: 700}, "tokens", func(a model.Amount) int64 { return a.Tokens }},
		{"money", model.Amount{MicroUSD: 700}, "money", func(a model.Amount) int64 { return a.MicroUSD }},
		{"model calls", model.Amount{ModelCalls: 3}, "model calls", func(a model.Amount) int64 { return a.ModelCalls }},
		{"tool calls", model.Amount{ToolCalls: 3}, "tool calls", func(a model.Amount) int64 { return a.ToolCalls }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, memory.New(), chatty, priced)
			log := r.begin("go", "yolo", limited(c.limit))
			v := r.settle(log)
			if v.State != "suspended" || v.Why != "budget" {
				t.Fatalf("%s because of %q", v.State, v.Why)
			}
			if got := r.payload(log, "session.suspended"); !strings.Contains(got, c.short) {
				t.Errorf("suspended: %s", got)
			}
			a := r.account(log)
			if over := a.Spent.Plus(a.Held).Over(c.limit); over != "" || a.Held != (model.Amount{}) {
				t.Errorf("over %q: %+v", over, a)
			}
			before := c.used(a.Spent)
			if before == 0 {
				t.Errorf("nothing was used: %+v", a)
			}
			more := c.limit.Plus(c.limit)
			r.tell(log, world.SessionPath, session.SetBudget{Limit: more})
			r.tell(log, world.SessionPath, session.Unsuspend{})
			r.settle(log)
			if after := r.account(log); c.used(after.Spent) <= before || after.Spent.Over(more) != "" {
				t.Errorf("after the limit was raised: %+v, before: %d", after.Spent, before)
			}
			r.kinds(log)
		})
	}
}

// TestReservationComesFirst shows that what a call may cost is on record before
// the provider is asked.
func TestReservationComesFirst(t *testing.T) {
	log := memory.New()
	var conv atomic.Value
	early := false
	r := newRig(t, log, "replies:\n  - {text: hi, usage: {input_tokens: 1, output_tokens: 1}}\n", priced, func(o *engine.Options) {
		inner := o.Provider
		o.Provider = func(ctx context.Context, name string) (model.Provider, error) {
			p, err := inner(ctx, name)
			return watched{p, func() {
				found := false
				for rn := range log.Read(context.Background(), conv.Load().(string), 0) {
					found = found || rn.Kind == "turn.reserved"
				}
				early = early || !found
			}}, err
		}
		ids := engine.NewID
		o.NewID = func(prefix string) string {
			id := ids(prefix)
			if prefix == "conv" {
				conv.Store(id)
			}
			return id
		}
	})
	id := r.begin("go", "yolo", limited(model.Amount{Tokens: 5000}))
	r.settle(id)
	if early {
		t.Error("the provider was asked before anything was reserved")
	}
	if kinds := r.kinds(id); !slices.Contains(kinds, "turn.completed") {
		t.Errorf("%v", kinds)
	}
	if a := r.account(id); a.Spent.Tokens != 2 || a.Held.Tokens != 0 {
		t.Errorf("%+v", a)
	}
}

type eventSeq = iter.Seq2[model.Event, error]

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

type watched struct {
	model.Provider
	before func()
}

func (w watched) Stream(ctx context.Context, r model.Request) eventSeq {
	w.before()
	return w.Provider.Stream(ctx, r)
}

// TestUnknownUseStaysCharged shows that an answer without a bill costs what was
// set aside, until a person says otherwise.
func TestUnknownUseStaysCharged(t *testing.T) {
	r := newRig(t, memory.New(), "replies:\n  - {text: hi}\n", priced)
	log := r.begin("go", "yolo", limited(model.Amount{Tokens: 5000}))
	r.settle(log)
	a := r.account(log)
	if a.Spent.Tokens != 1100 || a.Unsure.Tokens != 1100 {
		t.Fatalf("%+v", a)
	}
	r.tell(log, world.SessionPath, session.SetBudget{Limit: a.Limit, Reconcile: true})
	if a := r.account(log); a.Spent.Tokens != 0 || a.Unsure.Tokens != 0 {
		t.Errorf("after reconciling: %+v", a)
	}
}

// TestMoneyNeedsAPrice shows that a limit that cannot be kept is refused.
func TestMoneyNeedsAPrice(t *testing.T) {
	r := newRig(t, memory.New(), "replies:\n  - {text: hi}\n")
	log := r.begin("go", "yolo", limited(model.Amount{MicroUSD: 100}))
	r.settle(log)
	if got := r.payload(log, "turn.error"); !strings.Contains(got, "no price is known") {
		t.Errorf("%s", got)
	}
}

const family = `
scenes:
  - opening: "^task"
    replies:
      - {calls: [{tool: Read, args: {path: a.txt}}], usage: {input_tokens: 50, output_tokens: 50}}
      - {text: "done with it", usage: {input_tokens: 50, output_tokens: 50}}
replies:
  - calls:
      - {tool: SpawnAgent, args: {task: "task one", tools: [Read]}}
      - {tool: SpawnAgent, args: {task: "task two"}}
    usage: {input_tokens: 50, output_tokens: 50}
  - {text: "both are done", usage: {input_tokens: 50, output_tokens: 50}}
`

// TestChildAgents shows agents that work for another: each with its own
// transcript, their answers as results, their use counted for all above.
func TestChildAgents(t *testing.T) {
	r := newRig(t, memory.New(), family, priced, withAgents)
	log := r.begin("go", "yolo", limited(model.Amount{Tokens: 100_000, Agents: 2}))
	v := r.settle(log)
	if v.State != "active" {
		t.Fatalf("%s (%s)", v.State, v.Why)
	}
	kinds := r.kinds(log)
	if n := count(kinds, "turn.completed"); n != 3 {
		t.Errorf("%d turns completed: %v", n, kinds)
	}
	if got := r.payload(log, "turn.completed"); !strings.Contains(got, "both are done") {
		t.Errorf("%s", got)
	}
	a := r.account(log)
	if a.Spent.Tokens != 600 || a.Spent.Agents != 2 || a.Held.Tokens != 0 {
		t.Errorf("%+v", a)
	}
	r.tell(log, world.SessionPath, session.Stop{})
	if v := r.settle(log); v.State != "closed" {
		t.Errorf("after stop: %s", v.State)
	}
}

// TestManyAgentsOneBudget shows that a limit holds however many agents spend
// from it at once, and however deep they nest.
func TestManyAgentsOneBudget(t *testing.T) {
	spawns := &strings.Builder{}
	for i := range 4 {
		fmt.Fprintf(spawns, "          - {tool: SpawnAgent, args: {task: \"task %d\"}}\n", i)
	}
	text := "scenes:\n  - opening: \"^task\"\n    replies:\n      - calls:\n" + spawns.String() +
		"        usage: {input_tokens: 90, output_tokens: 10}\n      - {times: 100, text: enough, usage: {input_tokens: 90, output_tokens: 10}}\n" +
		"replies:\n  - calls:\n" + spawns.String() + "    usage: {input_tokens: 90, output_tokens: 10}\n  - {text: end, usage: {input_tokens: 90, output_tokens: 10}}\n"
	r := newRig(t, memory.New(), text, priced, withAgents)
	limit := model.Amount{Tokens: 1000 * crowd, Agents: crowd}
	log := r.begin("go", "yolo", limited(limit))
	r.settle(log)
	a := r.account(log)
	if over := a.Spent.Plus(a.Held).Over(limit); over != "" {
		t.Errorf("over %s: %+v", over, a)
	}
	if a.Spent.Agents != limit.Agents {
		t.Errorf("%d agents: %+v", a.Spent.Agents, a)
	}
	r.kinds(log)
}

// TestAskUser shows a question that waits in the log and whose answer is the
// call's result.
func TestAskUser(t *testing.T) {
	r := newRig(t, memory.New(), `
replies:
  - calls: [{tool: AskUser, args: {question: "which one?", choices: [a, b]}}]
  - {when: "the second", text: "b it is"}
`, withAgents)
	log := r.begin("go", "yolo")
	v := r.settle(log)
	if len(v.Questions) != 1 || v.Questions[0].Kind != "what_to_say" || !slices.Equal(v.Questions[0].Choices, []string{"reply", "deny"}) {
		t.Fatalf("%+v", v.Questions)
	}
	if _, err := r.Answer(t.Context(), engine.Choice{Question: v.Questions[0].ID, Choice: "reply", Text: "the second", By: "user:t"}); err != nil {
		t.Fatal(err)
	}
	r.settle(log)
	if got := r.payload(log, "turn.completed"); !strings.Contains(got, "b it is") {
		t.Errorf("%s", got)
	}
}

// TestCompaction shows that a conversation that would not fit the model's window
// goes on with a summary, on the record.
func TestCompaction(t *testing.T) {
	text := `
scenes:
  - opening: "^Summarise"
    replies:
      - {times: 9, text: "they looked at a file", usage: {input_tokens: 10, output_tokens: 5}}
  - opening: "they looked at a file"
    replies:
      - {times: 9, text: "and so it ends", usage: {input_tokens: 10, output_tokens: 5}}
replies:
  - {times: 99, calls: [{tool: Read, args: {path: big.txt}}], usage: {input_tokens: 10, output_tokens: 5}}
`
	r := newRig(t, memory.New(), text, func(o *engine.Options) {
		o.Info = func(string) engine.ModelInfo { return engine.ModelInfo{Window: 12_000, MaxOutput: 1000} }
		o.Tools, _ = toolbox.NewSet(toolbox.Read())
	})
	r.write("big.txt", strings.Repeat("a line of text\n", 200))
	log := r.begin("go", "yolo")
	r.settle(log)
	kinds := r.kinds(log)
	if !slices.Contains(kinds, "turn.compacted") || !slices.Contains(kinds, "turn.completed") {
		t.Fatalf("%v", kinds)
	}
	if got := r.payload(log, "turn.compacted"); !strings.Contains(got, "they looked at a file") {
		t.Errorf("%s", got)
	}
	if got := r.payload(log, "turn.completed"); !strings.Contains(got, "and so it ends") {
		t.Errorf("the model was not shown the summary: %s", got)
	}
}

// TestModelSwitch shows that another model goes on with what was said.
func TestModelSwitch(t *testing.T) {
	asked := []string{}
	r := newRig(t, memory.New(), "replies:\n  - {times: 9, text: hi}\n", func(o *engine.Options) {
		inner := o.Provider
		o.Provider = func(ctx context.Context, name string) (model.Provider, error) {
			p, err := inner(ctx, name)
			return watched{p, func() { asked = append(asked, name) }}, err
		}
	})
	log := r.begin("one", "yolo")
	r.settle(log)
	if err := r.SwitchModel(t.Context(), log, "other", "user:t"); err != nil {
		t.Fatal(err)
	}
	if err := r.Say(t.Context(), log, session.Say{Text: "two"}, "user:t"); err != nil {
		t.Fatal(err)
	}
	r.settle(log)
	if !slices.Equal(asked, []string{"script", "other"}) {
		t.Errorf("asked %v", asked)
	}
	if err := r.SwitchModel(t.Context(), log, "missing", "user:t"); err == nil {
		t.Error("a model that is not there was taken")
	}
}
