package workflow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// refusals are mistakes: what is replaced in small by what, and what is said.
var refusals = []struct{ old, new, want string }{
	{"id: small", "id: sm all", `w.yaml:1: id: "sm all" is not a name; write a letter`},
	{"id: small\n", "", `w.yaml:1: id: "" is not a name`},
	{"id: small", "idd: small", `w.yaml:1: there is no field "idd"; did you mean id?`},
	{"id: small", "id: small\nid: small", "w.yaml:2: id is there twice"},
	{"id: small", "id: small\nfirst: Aa", `w.yaml:2: first: there is no stage "Aa"; known: A, B`},
	{"id: small", "id: small\nbudget: {usd: 1e9}", `w.yaml:2: budget.usd: this is "1e9"; write dollars such as 1.50`},
	{"id: small", "id: small\nbudget: {usd: 0.0000001}", "write dollars"},
	{"id: small", "id: small\nbudget: {tokens: -1}", "budget.tokens: a limit is above zero"},
	{"id: small", "id: small\nbudget: {wall: long}", "budget.wall: this is \"long\"; write a time such as 30s"},
	{"id: B", "id: A", "w.yaml:14: stage A, id: stage 1 has this id too"},
	{"[Read]", "Read", `w.yaml:4: stage A, allowedTools: this is "Read"; write a list`},
	{"[Read]", "[Read, all]", "all stands beside other names"},
	{"[Read]", "[Read, Read]", "Read is there twice"},
	{"[Read]", "[submit_a]", "submit_a is the stage's completionTool"},
	{"    allowedTools: [Read]\n", "", "w.yaml:3: stage A, allowedTools: it is missing; write the tools the stage may use, [] for none, or all"},
	{"    completionTool: submit_a\n", "", "stage A, completionTool: it is missing; write the name of the tool that ends the stage, such as submit_a"},
	{"submit_a", "submit a", "is not a tool's name"},
	{"turnCap: 3", "turnCap: 0", "w.yaml:9: stage A, turnCap: it is 0; write how many model requests an attempt may make, from 1 to 1000"},
	{"turnCap: 3", "turnCap: three", `w.yaml:9: stage A, turnCap: this is "three"; write a whole number`},
	{"    turnCap: 3\n", "", "w.yaml:3: stage A, turnCap: it is 0"},
	{"turnCap: 3", "turnCap: 3\n    visitCap: 0", "w.yaml:10: stage A, visitCap: it is 0"},
	{"turnCap: 3", "turnCap: 3\n    visitCap: 101", "visitCap: it is 101"},
	{"turnCap: 3", "turnCap: 3\n    retryPolicy: {maxAttempts: 0}", "maxAttempts is 0; write 1"},
	{"turnCap: 3", "turnCap: 3\n    retryPolicy: {maxAttempts: 11}", "maxAttempts is 11; write 1 to 10"},
	{"turnCap: 3", "turnCap: 3\n    retryPolicy: {backoff: fixd}", `there is no backoff "fixd"; did you mean fixed?`},
	{"turnCap: 3", "turnCap: 3\n    retryPolicy: {backoff: fixed}", "backoff fixed has no delay; write delay: 5s"},
	{"turnCap: 3", "turnCap: 3\n    retryPolicy: {delay: 5s}", "delay has no use with backoff none"},
	{"turnCap: 3", "turnCap: 3\n    retryPolicy: {backoff: fixed, delay: 2h}", "delay is more than 1h0m0s"},
	{"turnCap: 3", "turnCap: 3\n    retrypolicy: {}", `stage A: there is no field "retrypolicy"; did you mean retryPolicy?`},
	// the body
	{"ctx.task", "ctx.tsk", "w.yaml:12: stage A, body: {{ctx.tsk}}: there is no such name; did you mean task?"},
	{"{{ctx.task}}", "{{task}}", "w.yaml:12: stage A, body: {{task}} is no placeholder; write {{ctx.name}}"},
	{"{{ctx.task}}", "{{ctx.task", "w.yaml:12: stage A, body: {{ is not closed on its line"},
	{"ctx.upstream.A.output.n", "ctx.upstream.Q.output", "there is no stage Q; stages before this one: A"},
	{"ctx.upstream.A.output.n", "ctx.upstream.A.output.m", "the completionSchema of A knows no m in ctx.upstream.A.output; known: list, n"},
	{"ctx.upstream.A.output.n", "ctx.upstream.A.transcript", "ctx.upstream.A has no field transcript"},
	{"ctx.task", "ctx.upstream.B.output", "B never runs before this stage; stages before it: none"},
	{"body: \"See", "body: \"\"\n    name: \"See", "stage B, body: it is missing"},
	// the schema
	{"{type: object, properties: {ok: {type: boolean}}}", "{type: string}", "w.yaml:17: stage B, completionSchema: it has to describe an object"},
	{"{ok: {type: boolean}}", "{ok: {type: bool}}", "completionSchema: it is not a JSON Schema of draft 2020-12: /properties/ok/type"},
	{"{ok: {type: boolean}}", "{ok: {$ref: 'https://example.org/s.json'}}", "$ref to https://example.org/s.json leads out of the schema, which is not followed; copy that schema under $defs"},
	{"{ok: {type: boolean}}", "{ok: {$ref: other.json}}", "$ref to other.json leads out of the schema"},
	{"{ok: {type: boolean}}", "{ok: {$ref: 'file:///etc/passwd'}}", "leads out of the schema"},
	{"{ok: {type: boolean}}", "{ok: {$id: 'https://example.org/', $ref: x}}", "leads out of the schema"},
	{"{ok: {type: boolean}}", "{ok: {$ref: '#/$defs/x'}}", "not found"},
	{"{ok: {type: boolean}}", "{ok: {pattern: '('}}", "/properties/ok/pattern: '(' is not valid regex"},
	{"{type: object, properties: {ok", "{type: object, $schema: 'http://json-schema.org/draft-07/schema#', properties: {ok", "$schema is"},
	{"{ok: {type: boolean}}", "{ok: .inf}", "is no JSON value"},
	{"    completionSchema: {type: object, properties: {ok: {type: boolean}}}\n", "", "stage B, completionSchema: it is missing; write a JSON Schema"},
	{"{ok: {type: boolean}}", "{ok: {a: &x {}, b: *x}}", "w.yaml:17: stage B, completionSchema: this is the alias *x, and aliases are not followed; write the value out"},
	// what follows
	{"next: B", "next: C", `w.yaml:13: stage A, next: there is no stage "C"`},
	{"next: B", "next:", "stage A, next: this is empty; write a stage's id"},
	{"next: B", "next: []", "stage A, next: this is a list"},
	{"next: B", "next: {execution: parallel}", "stages is missing; write the stages that follow"},
	{"next: B", "next: {stages: [B], execution: both}", `there is no execution "both"`},
	{"next: B", "next: {stages: [A, B]}", "it has 2 stages and no execution; write execution: sequential or parallel"},
	{"next: B", "next: {stages: [B, B], execution: parallel}", "B is there twice"},
	{"next: B", "next: {stages: [B], execution: parallel, join: B}", "join is B, which is one of the stages it waits for; name another stage"},
	{"next: B", "next: {stages: [B], execution: parallel, join: C}", `join is "C", which is no stage`},
	{"next: B", "next: {stages: [B], join: B}", "join is for parallel stages"},
	{"next: B", "next: {stages: [], execution: parallel, join: B}", "join B waits for no stage"},
	{"next: B", "next:\n      - stages: [B]\n      - stages: []", "w.yaml:14: stage A, next: this choice always holds"},
	{"next: B", "next:\n      - when: result.capHit\n        stages: [B]", "w.yaml:14: stage A, next: if no when holds there is no answer"},
	{"    next: B\n", "", "w.yaml:13: stage B: no run comes here from A; name it in the next of another stage"},
	{"next: B", "next: {stages: [A, B], execution: sequential}", "stage A: A → A can go on for ever; give one of these stages a visitCap, such as visitCap: 3"},
	{"body: \"See", "next: A\n    body: \"See", "w.yaml:3: stage A: A → B → A can go on for ever"},
	// rules
	{"next: B", "next:\n      - when: result.output.m > 1\n        stages: [B]\n      - stages: []", "w.yaml:14: stage A, next[0].when: result.output.m: the completionSchema of A knows no m"},
	{"next: B", "next:\n      - when: ctx.task == ''\n        stages: [B]\n      - stages: []", "next sees the result of its stage and nothing else"},
	{"next: B", "next:\n      - when: result.status\n        stages: [B]\n      - stages: []", "the rule comes to a value of type string; write one that comes to true or false"},
	{"next: B", "next:\n      - when: ''\n        stages: [B]\n      - stages: []", "next.when: the rule is empty"},
	{"next: B", "next: B\n    assert: result.attempt + 'x' == 1", "w.yaml:14: stage A, assert: found no matching overload for '_+_'"},
	{"next: B", "next: B\n    assert: result", "result: name one of its fields; known: stage, status"},
	{"next: B", "next: B\n    assert: nothing > 1", "undeclared reference to 'nothing'; known: ctx.allowedTools"},
	{"next: B", "next: B\n    assert: 'true ? \"ok\" : \"okay\"'", `the rule may come to "okay"; write one that comes to true or false, or one of the texts ok, retry, skip, fail`},
	{"next: B", "next: B\n    gate: result.capHit", "stage A, gate: result.capHit: the stage has no result yet"},
	{"next: B", "next: B\n    gate: ctx.upstream.B.status == 'ok'", "B never runs before this stage"},
	{"next: B", "next: B\n    gate: |\n      true &&\n      1 +", "w.yaml:1"},
	{"next: B", "next: B\n    gate: 'true || " + strings.Repeat("x", MaxExpression) + "'", "at most 4096 are allowed"},
	{"next: B", "next: B\n    context: {task: '1'}", "ctx.task is there already"},
	{"next: B", "next: B\n    context: {a-b: '1'}", "is not a name"},
	{"next: B", "next: B\n    context: [x]", "stage A, context: this is a list; write names with a rule each"},
	{"next: B", "next: B\n    context: {a: ctx.b, b: '1'}", "ctx.b: there is no such name"},
}

// TestLoadRefuses shows for every mistake the line it is on and what is said.
func TestLoadRefuses(t *testing.T) {
	for _, c := range refusals {
		text := strings.Replace(small, c.old, c.new, 1)
		if text == small {
			t.Fatalf("%q is not in the definition", c.old)
		}
		_, err := Load("w.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q instead of %q:\n got %v\nwant %s", c.new, c.old, err, c.want)
		}
		if ps := Problems(nil); !errors.As(err, &ps) || ps[0].File != "w.yaml" || ps[0].Line == 0 {
			t.Errorf("%q: the first problem has no place: %v", c.new, err)
		}
	}
}

func TestLoadRefusesFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "w.yaml:1: the file is empty",
		"# nothing":                        "w.yaml:1: the file is empty",
		"id: [":                            "this is not YAML",
		"id: a\n\tb: c":                    "w.yaml:2: this is not YAML",
		"- a":                              "w.yaml:1: this is a list; write fields: id, name",
		"id: a\n---\nid: b":                "a file holds one workflow",
		"id: a":                            "stages: there are none",
		"id: a\nstages: {}":                "w.yaml:2: stages: this is a mapping; write a list",
		"id: a\nstages: [x]":               "w.yaml:2: stage 1: this is \"x\"; write fields",
		"? [a]\n: b":                       "a field's name is a list",
		"id: &a x\nname: *a":               "name: this is the alias *a, and aliases are not followed",
		strings.Repeat("#", MaxFile+1):     "the file has 1048577 bytes, at most 1048576 are read",
		"id: a\nstages:" + many(65):        "there are 65 stages, at most 64",
		"id: a\nbudget: " + deep(200):      "budget",
		bomb:                               "there is no field",
		strings.Replace(small, "A", "", 1): "stage 1",
	} {
		_, err := Load("w.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// bomb would be a billion entries if aliases were followed.
var bomb = func() string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9)+fmt.Sprintf("*a%d", i))
	}
	return text + "id: x"
}()

func many(n int) string { return strings.Repeat("\n  - id: x", n) }

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// TestDeepSchema shows that a schema nested without end is refused, not followed.
func TestDeepSchema(t *testing.T) {
	text := strings.Replace(small, "{ok: {type: boolean}}", "{ok: {enum: "+deep(100)+"}}", 1)
	if _, err := Load("w.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "nested more than 64 deep") {
		t.Error(err)
	}
}

func TestManyProblems(t *testing.T) {
	text := "id: a\n" + strings.Repeat("x: 1\n", 100)
	_, err := Load("w.yaml", []byte(text))
	if err == nil || strings.Count(err.Error(), "\n") != maxProblems || !strings.Contains(err.Error(), "more problems") {
		t.Error(err)
	}
}
