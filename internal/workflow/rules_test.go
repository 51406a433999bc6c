package workflow

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func output(text string) json.RawMessage { return json.RawMessage(text) }

func TestCheckGate(t *testing.T) {
	c := Context{
		Task: "fix", Attempt: 2, Visit: 1, AllowedTools: []string{"Read"},
		Upstream: []StageResult{{Stage: "Plan", Status: OK, Output: output(`{"steps":[1,2],"f":1.0,"none":null}`)}},
		Values:   map[string]json.RawMessage{"x": output(`{"y":3}`)},
	}
	for rule, want := range map[string]string{
		"":                                     Proceed,
		"true":                                 Proceed,
		"false":                                Skip,
		`"retry"`:                              Retry,
		`ctx.attempt > 1 ? "skip" : "proceed"`: Skip,
		`ctx.task == "fix" && "Read" in ctx.allowedTools`:               Proceed,
		"size(ctx.upstream.Plan.output.steps) == 2":                     Proceed,
		`ctx.upstream["Plan"].output.steps[1] > 1.5`:                    Proceed, // numbers compare across types
		"ctx.upstream.Plan.output.f == 1":                               Proceed,
		"has(ctx.upstream.Plan.output.nothing)":                         Skip,
		"has(ctx.upstream.Other)":                                       Skip,
		"ctx.upstream.all(id, ctx.upstream[id].status == 'ok')":         Proceed,
		"ctx.upstream.Plan.output.none == null":                         Proceed,
		"ctx.x.y == 3 && ctx.turnCap == 9 && ctx.completionTool == 't'": Proceed,
	} {
		s := Stage{ID: "S", Gate: rule, TurnCap: 9, CompletionTool: "t", Context: []Input{{"x", "1"}}}
		if got, err := s.CheckGate(c); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", rule, got, err, want)
		}
	}
}

// TestJudge shows what an attempt came to; one that used up its turns is tried
// again unless the rule itself looks at that.
func TestJudge(t *testing.T) {
	good := StageResult{Stage: "S", Attempt: 1, Visit: 2, Turns: 3, Output: output(`{"steps":["a"]}`)}
	capped := StageResult{Stage: "S", Attempt: 2, CapHit: true}
	for _, c := range []struct {
		rule   string
		result StageResult
		want   string
	}{
		{"", good, OK},
		{"", capped, Retry},
		{"size(result.output.steps) > 0", good, OK},
		{"size(result.output.steps) > 1", good, Retry},
		{"size(result.output.steps) > 0", capped, Retry},
		{`result.capHit ? "fail" : "ok"`, capped, Fail},
		{`result.capHit ? "fail" : "ok"`, good, OK},
		{`result.visit == 2 && result.turns == 3 ? "skip" : "ok"`, good, Skip},
		{"result.output.steps.exists(s, s == ctx.task)", good, OK},
		{"has(result.output.other)", good, Retry},
		{"has(result.output.steps)", StageResult{}, Retry}, // no output is an empty one
		{"size(result.output) == 0", StageResult{}, OK},
		{"result.attempt < 1.5", good, OK}, // numbers compare across types
	} {
		s := Stage{ID: "S", Assert: c.rule}
		if got, err := s.Judge(Context{Task: "a"}, c.result); err != nil || got != c.want {
			t.Errorf("%s, cap %v: %q, %v, want %q", c.rule, c.result.CapHit, got, err, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	fan := Choice{Stages: []string{"Test", "Lint"}, Execution: Parallel, Join: "Review"}
	s := Stage{ID: "S", Next: []Choice{
		{When: "result.status == 'skip'", Stages: []string{}, Execution: Sequential},
		{When: "result.output.n > 2.5", Stages: []string{"Big"}, Execution: Sequential},
		fan,
	}}
	for _, c := range []struct {
		result StageResult
		want   Choice
	}{
		{StageResult{Status: Skip}, s.Next[0]},
		{StageResult{Status: OK, Output: output(`{"n":3}`)}, s.Next[1]},
		{StageResult{Status: OK, Output: output(`{"n":2}`)}, fan},
	} {
		if got, err := s.Choose(c.result); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %+v, %v", c.result, got, err)
		}
	}
	if end, err := (Stage{ID: "S"}).Choose(StageResult{}); err != nil || len(end.Stages) != 0 || end.Execution != Sequential {
		t.Errorf("%+v, %v", end, err)
	}
}

// TestRuleErrors shows that a rule that fails at run time says which, why and what
// it was given.
func TestRuleErrors(t *testing.T) {
	result := StageResult{Stage: "S", Status: OK, Output: output(`{"n":"text","big":"` + strings.Repeat("x", 1000) + `"}`)}
	c := Context{Upstream: []StageResult{{Stage: "P", Output: output(`{"a":1}`)}}}
	judge := func(rule string) error { _, err := Stage{ID: "S", Assert: rule}.Judge(c, result); return err }
	choose := func(next ...Choice) error { _, err := Stage{ID: "S", Next: next}.Choose(result); return err }
	for _, e := range []struct {
		err  error
		want string
	}{
		{judge("result.output.missing > 1"), `stage S, assert: no such key: missing, in result.output.missing > 1, where result.output = {"big":"xxx`},
		{judge("ctx.upstream.P.output.b == 1"), `no such key: b, in ctx.upstream.P.output.b == 1, where ctx.upstream.P = {"attempt":0,"capHit":false,"output":{"a":1}`},
		{judge("result.output.n > 1"), "no such overload"},
		{judge("result.output.n"), `it comes to text, which is not true, false or one of ok, retry, skip, fail`},
		{judge("1 / (result.attempt - result.attempt) == 1"), "division by zero"},
		{judge("result.output.big.split('') == []"), "undeclared reference to 'split'"},
		{judge("result."), "Syntax error"},
		{func() error { _, err := Stage{ID: "S", Gate: "ctx.upstream.Q.status == 'ok'"}.CheckGate(c); return err }(), "stage S, gate: no such key: Q"},
		{choose(Choice{When: "result.output.n"}), "stage S, next: it comes to text; write a rule that comes to true or false"},
		{choose(Choice{When: "result.capHit"}), "no choice holds"},
		{choose(Choice{When: "ctx.task == ''"}), "undeclared reference to 'ctx'"},
	} {
		var rule *EvalError
		if !errors.As(e.err, &rule) || !strings.Contains(e.err.Error(), e.want) {
			t.Errorf("%v, want %q", e.err, e.want)
		}
		if e.err != nil && len(e.err.Error()) > 1000 {
			t.Errorf("an error has %d bytes", len(e.err.Error()))
		}
	}
	broken := result
	broken.Output = output(`{`)
	if _, err := (Stage{ID: "S", Assert: "true"}).Judge(c, broken); err == nil {
		t.Error("a broken output passes")
	}
}

// TestRuleCost shows that a rule cannot run for ever.
func TestRuleCost(t *testing.T) {
	list := "[" + strings.Repeat("1,", 200) + "1]"
	r := StageResult{Output: output(`{"l":` + list + `}`)}
	s := Stage{ID: "S", Assert: "result.output.l.all(a, result.output.l.all(b, result.output.l.all(c, result.output.l.all(d, d == 1))))"}
	if _, err := s.Judge(Context{}, r); err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
		t.Error(err)
	}
}

// TestSetup shows that a stage's own names are computed from the context and are
// JSON afterwards.
func TestSetup(t *testing.T) {
	c := Context{Task: "t", Upstream: []StageResult{{Stage: "P", Output: output(`{"steps":[{"a":1,"b":[true,null,2.5]}]}`)}}}
	s := Stage{ID: "S", Body: "{{ctx.step}} {{ctx.n}} {{ctx.who}}", Context: []Input{
		{"step", "ctx.upstream.P.output.steps[0]"},
		{"n", "size(ctx.upstream.P.output.steps) + 1"},
		{"who", `"for " + ctx.task`},
		{"list", `ctx.upstream.P.output.steps.map(s, s.a)`},
	}}
	got, err := s.Setup(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"step": `{"a":1,"b":[true,null,2.5]}`, "n": "2", "who": `"for t"`, "list": "[1]"} {
		if string(got.Values[name]) != want {
			t.Errorf("%s: %s, want %s", name, got.Values[name], want)
		}
	}
	if c.Values != nil {
		t.Error("the context given was changed")
	}
	if text, err := s.Prompt(got); err != nil || !strings.HasSuffix(text, "} 2 for t") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := s.Prompt(c); err == nil || !strings.Contains(err.Error(), "Setup comes first") {
		t.Error(err)
	}
	for rule, want := range map[string]string{
		"ctx.upstream.Q.output":            "stage S, context.x: no such key: Q",
		"duration('1s')":                   "has no JSON form",
		"{1: 2}":                           "write text",
		"[1.0 / 0.0]":                      "unsupported value",
		"ctx.upstream.P.output.steps[500]": "index out of bounds",
	} {
		if _, err := (Stage{ID: "S", Context: []Input{{"x", rule}}}).Setup(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", rule, err, want)
		}
	}
}

// TestMerge shows that upstream holds the latest result of each stage in declared
// order, whatever order they ended in.
func TestMerge(t *testing.T) {
	d := Definition{Stages: []Stage{{ID: "A"}, {ID: "B"}, {ID: "C"}}}
	var all []StageResult
	for _, r := range []StageResult{{Stage: "C", Visit: 1}, {Stage: "A", Visit: 1}, {Stage: "B", Visit: 1}, {Stage: "A", Visit: 2}} {
		all = d.Merge(all, r)
	}
	if want := []StageResult{{Stage: "A", Visit: 2}, {Stage: "B", Visit: 1}, {Stage: "C", Visit: 1}}; !reflect.DeepEqual(all, want) {
		t.Errorf("%+v", all)
	}
}
