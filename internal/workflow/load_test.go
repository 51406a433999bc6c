package workflow

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"stave/internal/model"
)

// small is a definition that passes every check; tests replace parts of it.
const small = `id: small
stages:
  - id: A
    allowedTools: [Read]
    completionTool: submit_a
    completionSchema:
      type: object
      properties: {n: {type: integer}, list: {type: array}}
    turnCap: 3
    body: |
      Do this:
      {{ctx.task}}
    next: B
  - id: B
    allowedTools: []
    completionTool: submit_b
    completionSchema: {type: object, properties: {ok: {type: boolean}}}
    turnCap: 1
    body: "See {{ctx.upstream.A.output.n}}"
`

func mustLoad(t *testing.T, text string) Definition {
	t.Helper()
	d, err := Load("w.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLoad(t *testing.T) {
	d := mustLoad(t, `
id: full
name: Full
description: d
first: B
model: p/m
budget: {usd: 1.5, wall: 10m}
stages:
  - id: B
    name: Bee
    allowedTools: all
    completionTool: submit-b
    completionSchema: {type: object, properties: {b: {type: string}, a: {const: 1}}}
    turnCap: 7
    visitCap: 2
    retryPolicy: {maxAttempts: 3, backoff: exponential, delay: 5s}
    model: p/other
    budget: {tokens: 10, modelCalls: 2, toolCalls: 3, agents: 1}
    context: {x: "1 + 1"}
    gate: ctx.x == 2
    assert: result.turns > 0
    body: " hello "
    next:
      - {when: result.visit < 2, stages: [B]}
      - {stages: [C, D], execution: parallel, join: E}
  - {id: C, allowedTools: [], completionTool: c, completionSchema: {type: object}, turnCap: 1, body: c}
  - {id: D, allowedTools: [], completionTool: c, completionSchema: {type: object}, turnCap: 1, body: c}
  - {id: E, allowedTools: [], completionTool: c, completionSchema: {type: object}, turnCap: 1, body: c, next: {stages: []}}
`)
	want := Stage{
		ID: "B", Name: "Bee", Body: "hello", AllowedTools: []string{AllTools}, CompletionTool: "submit-b",
		CompletionSchema: json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"},"a":{"const":1}}}`),
		TurnCap:          7, VisitCap: 2, RetryPolicy: RetryPolicy{3, BackoffExponential, 5000}, Model: "p/other",
		Budget:  model.Amount{Tokens: 10, ModelCalls: 2, ToolCalls: 3, Agents: 1},
		Context: []Input{{"x", "1 + 1"}}, Gate: "ctx.x == 2", Assert: "result.turns > 0",
		Next: []Choice{
			{When: "result.visit < 2", Stages: []string{"B"}, Execution: Sequential},
			{Stages: []string{"C", "D"}, Execution: Parallel, Join: "E"},
		},
	}
	if !reflect.DeepEqual(d.Stages[0], want) {
		t.Errorf("got  %+v\nwant %+v", d.Stages[0], want)
	}
	if d.First != "B" || d.Budget != (model.Amount{MicroUSD: 1_500_000, WallMs: 600_000}) || d.Stages[1].Name != "C" || d.Stages[1].RetryPolicy != (RetryPolicy{2, BackoffNone, 0}) {
		t.Errorf("%+v", d)
	}
}

// TestLoadAllows shows what looks like a mistake and is none.
func TestLoadAllows(t *testing.T) {
	for _, c := range [][2]string{
		{"next: B", "next: B\n    assert: '[1].exists(result, result > 0)'"}, // a name of the rule's own
		{"next: B", "next: B\n    assert: 'result.output.list.exists(ctx, ctx.any == 1)'"},
		{"next: B", "next: B\n    assert: result.output['n'] == 1"},
		{"next: B", "next: B\n    assert: has(result.output.n.deeper)"}, // the schema says nothing about the inside of n
		{"next: B", "next:\n      - when: result.capHit\n        stages: [B]\n      - stages: []"},
		{"{n: {type: integer}, list: {type: array}}", "{}\n      additionalProperties: {type: integer}"},
		{"{n: {type: integer}, list: {type: array}}", "{}\n      allOf: [{properties: {n: {}}}]"},
		{"{ok: {type: boolean}}", "{ok: {$ref: '#/$defs/x'}}, $defs: {x: {type: boolean}}"},
		{"{ok: {type: boolean}}", "{$ref: {type: string}}"}, // a property that is called so
		{"See ", `\\{{See }} `},
	} {
		text := strings.Replace(small, c[0], c[1], 1)
		if _, err := Load("w.yaml", []byte(text)); err != nil || text == small {
			t.Errorf("%s: %v", c[1], err)
		}
	}
}

const md = `---
id: two
stages:
  - {id: A, allowedTools: [], completionTool: a, completionSchema: {type: object}, turnCap: 1, next: B}
  - {id: B, allowedTools: [], completionTool: b, completionSchema: {type: object}, turnCap: 1}
---

# A

First.

# Other

` + "```sh\n# B\n```" + `
# B
Second {{ctx.task}}.
`

func TestMarkdown(t *testing.T) {
	for _, text := range []string{md, strings.ReplaceAll(md, "\n", "\r\n"), "\xef\xbb\xbf" + md} {
		d, err := Load("two.md", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if want := "First.\n\n# Other\n\n```sh\n# B\n```"; d.Stages[0].Body != want {
			t.Errorf("%q", d.Stages[0].Body)
		}
		if d.Stages[1].Body != "Second {{ctx.task}}." {
			t.Errorf("%q", d.Stages[1].Body)
		}
	}
	for _, c := range []struct{ old, new, want string }{
		{"---\nid", "id", "two.md:1: a Markdown workflow begins with front matter"},
		{"---\n\n", "\n", "two.md:1: the front matter has no end"},
		{"# A", "Hello", "two.md:8: this text belongs to no stage; write a heading with the stage's id first, such as # A"},
		{"# Other", "# A", "two.md:12: the heading # A is there twice"},
		{"turnCap: 1}", "turnCap: 1, body: x}", "stage B: it has a body in the front matter too"},
		{"turnCap: 1}", "turnCap: 0}", "two.md:5: stage B, turnCap"},
		{"ctx.task", "ctx.tusk", "two.md:18: stage B, body: {{ctx.tusk}}"},
		{"First.", "First.\n{{ctx.x}}", "two.md:11: stage A, body: {{ctx.x}}"},
		{"# B\nSecond {{ctx.task}}.\n", "", "stage B, body: it is missing"},
	} {
		_, err := Load("two.md", []byte(strings.Replace(md, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.new, err, c.want)
		}
	}
}

// TestLoadDir shows that a wrong file does not hide the good ones.
func TestLoadDir(t *testing.T) {
	all, err := LoadDir(fstest.MapFS{
		"a.yaml": {Data: []byte(small)}, "b.yml": {Data: []byte(small)}, "c.md": {Data: []byte(md)}, "d.yaml": {Data: []byte("id: [")},
		"README.md": {Data: []byte("# hello")}, "notes.txt": {Data: []byte("x")}, "sub/e.yaml": {Data: []byte("x")},
		"f.yaml": {Data: []byte(strings.Repeat("#", MaxFile+10))},
	})
	if len(all) != 2 || all[0].ID != "small" || all[1].ID != "two" {
		t.Errorf("%+v", all)
	}
	for _, want := range []string{"b.yml:1: the id small is that of a.yaml; write another", "d.yaml:", "f.yaml: the file has"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "README") || strings.Contains(err.Error(), "notes") || strings.Contains(err.Error(), "sub") {
		t.Error(err)
	}
}

// TestCheckTools shows that names of tools are checked once they are known.
func TestCheckTools(t *testing.T) {
	d := mustLoad(t, small)
	for _, c := range []struct {
		tools []string
		want  string
	}{
		{nil, ""},
		{[]string{"Read"}, ""},
		{[]string{"Raed", "Bash"}, `w.yaml:4: stage A, allowedTools: there is no tool "Read"; did you mean Raed? known: Raed, Bash`},
		{[]string{}, `there is no tool "Read"; known: none`},
		{[]string{"Read", "submit_b"}, "w.yaml:16: stage B, completionTool: submit_b is the name of another tool"},
	} {
		err := Check(d, c.tools)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.tools, err, c.want)
		}
	}
}

// TestLiteral shows that a definition written in Go is settled and checked alike.
func TestLiteral(t *testing.T) {
	good := Definition{ID: "lit", Stages: []Stage{{ID: "A", Body: "x", AllowedTools: []string{}, CompletionTool: "a", CompletionSchema: json.RawMessage(`{"type":"object"}`), TurnCap: 1}}}
	d := Settle(good)
	if err := Check(d, []string{}); err != nil {
		t.Error(err)
	}
	if d.Hash == "" || d.First != "A" || d.Stages[0].Name != "A" || good.Stages[0].Name != "" {
		t.Errorf("%+v, from %+v", d, good)
	}
	d.Stages[0].AllowedTools, d.Stages[0].Body = nil, "a\n{{ctx.x}}"
	err := Check(d, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "stage A, allowedTools: it is missing") || !strings.Contains(err.Error(), "\nstage A, body: {{ctx.x}}") {
		t.Error(err)
	}
	if err := Check(Definition{}, nil); err == nil {
		t.Error("an empty definition passes")
	}
	for want, change := range map[string]func(*Definition){
		"there are 65, at most 64":                                 func(d *Definition) { d.Stages = make([]Stage, 65) },
		"name: it has more than one line":                          func(d *Definition) { d.Name = "a\nb" },
		"stage A, name: it has more than one line":                 func(d *Definition) { d.Stages[0].Name = "a\nb" },
		"body: it has 65537 bytes, at most 65536":                  func(d *Definition) { d.Stages[0].Body = strings.Repeat("x", MaxBody+1) },
		"completionSchema: it has 65537 bytes":                     func(d *Definition) { d.Stages[0].CompletionSchema = make([]byte, MaxSchema+1) },
		"completionSchema: it is not JSON":                         func(d *Definition) { d.Stages[0].CompletionSchema = []byte("{") },
		"turnCap: it is -1":                                        func(d *Definition) { d.Stages[0].TurnCap = -1 },
		"context.x: the rule is empty":                             func(d *Definition) { d.Stages[0].Context = []Input{{Name: "x"}} },
		"ctx.x is there already":                                   func(d *Definition) { d.Stages[0].Context = []Input{{"x", "1"}, {"x", "2"}} },
		"33 names in context":                                      func(d *Definition) { d.Stages[0].Context = make([]Input, 33) },
		"backoff fixed has no delay":                               func(d *Definition) { d.Stages[0].RetryPolicy = RetryPolicy{2, BackoffFixed, -1} },
		`first: there is no stage "Z"`:                             func(d *Definition) { d.First = "Z" },
		`id: "" is not a name; write a letter and then letters, d`: func(d *Definition) { d.Stages[0].ID = "" },
	} {
		d := Settle(good)
		change(&d)
		if err := Check(d, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestHash shows that what a definition says makes its hash, and its form does not.
func TestHash(t *testing.T) {
	d := mustLoad(t, small)
	same, err := Load("other.yaml", []byte("# a comment\n"+strings.Replace(small, "[Read]", "\n      - Read", 1)))
	if err != nil || same.Hash != d.Hash {
		t.Errorf("%s, %s, %v", same.Hash, d.Hash, err)
	}
	swapped := mustLoad(t, strings.Replace(small, "{n: {type: integer}, list: {type: array}}", "{list: {type: array}, n: {type: integer}}", 1))
	if swapped.Hash != d.Hash {
		t.Error("the order of a schema's properties changes the hash")
	}
	for _, c := range [][2]string{{"Do this", "Do that"}, {"turnCap: 3", "turnCap: 4"}, {"[Read]", "[]"}, {"integer", "number"}, {"id: small", "id: big"}} {
		if other := mustLoad(t, strings.Replace(small, c[0], c[1], 1)); other.Hash == d.Hash {
			t.Errorf("%s does not change the hash", c[1])
		}
	}
	b, err := json.Marshal(d)
	var back Definition
	if err != nil || json.Unmarshal(b, &back) != nil || Settle(back).Hash != d.Hash {
		t.Errorf("through JSON: %+v, %v", back, err)
	}
}

func TestDelay(t *testing.T) {
	var got []time.Duration
	for _, p := range []RetryPolicy{{3, BackoffNone, 0}, {3, BackoffFixed, 5000}, {3, BackoffExponential, 5000}} {
		for attempt := 1; attempt <= 4; attempt++ {
			got = append(got, p.Delay(attempt)/time.Second)
		}
	}
	if want := []time.Duration{0, 0, 0, 0, 0, 5, 5, 5, 0, 5, 10, 20}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if d := (RetryPolicy{10, BackoffExponential, 3_000_000}).Delay(10); d != MaxDelay {
		t.Error(d)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("w.yaml", []byte(small))
	f.Add("w.md", []byte(md))
	f.Add("w.yaml", New("x"))
	f.Add("w.yaml", []byte(bomb))
	for _, d := range Bundled() {
		file, b, _ := Source(d.ID)
		f.Add(file, b)
	}
	f.Fuzz(func(t *testing.T, file string, b []byte) {
		d, err := Load(file, b)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("an error says nothing")
			}
			return
		}
		if Check(d, nil) != nil || Settle(d).Hash != d.Hash || len(d.Hash) != 64 || Graph(d) == "" {
			t.Fatalf("%+v", d)
		}
		out, err := json.Marshal(d)
		var back Definition
		if err != nil || json.Unmarshal(out, &back) != nil || Settle(back).Hash != d.Hash {
			t.Fatalf("through JSON: %s", out)
		}
	})
}
