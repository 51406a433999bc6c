package workflow

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPrompt(t *testing.T) {
	c := Context{
		Task: "say {{ctx.reason}} <b>", Attempt: 2, Visit: 1, AllowedTools: []string{"Read", "Grep"},
		Upstream: []StageResult{
			{Stage: "Z", Status: OK, Attempt: 1, Output: output(`{"n":1,"text":"a<b","list":["x"],"empty":"","zero":0,"no":false}`)},
			{Stage: "A", Status: Skip, Attempt: 1},
		},
		Values: map[string]json.RawMessage{"own": output(`"mine"`)},
	}
	for body, want := range map[string]string{
		"plain { } }} text":                     "plain { } }} text",
		"{{ctx.task}}":                          "say {{ctx.reason}} <b>", // what a value holds is not read again
		"{{ ctx.attempt }}/{{ctx.visit}}":       "2/1",
		"[{{ctx.reason}}]":                      "[(none)]",
		"{{ctx.own}}{{ctx.turnCap}}":            "mine5",
		"{{ctx.completionTool}}":                "done",
		"{{ctx.allowedTools}}":                  "[\n  \"Read\",\n  \"Grep\"\n]",
		"{{ctx.upstream.Z.output.text}}":        "a<b",
		"{{ctx.upstream.Z.output.list}}":        "[\n  \"x\"\n]",
		"{{ctx.upstream.Z.output.zero}}":        "0",
		"{{ctx.upstream.Z.output.no}}":          "false",
		"{{ctx.upstream.Z.output.empty}}":       "(none)",
		"{{ctx.upstream.Z.output.text.deeper}}": "(none)",
		"{{ctx.upstream.A.output}}":             "(none)",
		"{{ctx.upstream.A.status}}":             "skip",
		"{{ctx.upstream.Never.output}}":         "(none)",
		`\{{ctx.task}} and \{{`:                 "{{ctx.task}} and {{",
		`{{ctx.own}}\{{x}}{{ctx.own}}`:          "mine{{x}}mine",
	} {
		if got, err := (Stage{ID: "S", Body: body, CompletionTool: "done", TurnCap: 5}).Prompt(c); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", body, got, err, want)
		}
	}
	all, err := Stage{ID: "S", Body: "{{ctx.upstream}}"}.Prompt(c)
	if z, a := strings.Index(all, `"Z": {`), strings.Index(all, `"A": {`); err != nil || z < 0 || a < z {
		t.Errorf("not in declared order: %s, %v", all, err)
	}
	if all, err := (Stage{Body: "{{ctx.upstream}}"}).Prompt(Context{}); err != nil || all != none {
		t.Errorf("%q, %v", all, err)
	}
}

func TestPromptRefuses(t *testing.T) {
	big := Context{Task: strings.Repeat("x", MaxPrompt)}
	for body, want := range map[string]string{
		"{{ctx.what}}":             "{{ctx.what}}: it is not known",
		"{{ctx}}":                  "{{ctx}} is no placeholder",
		"{{ctx.task | upper}}":     "is no placeholder",
		"{{}}":                     "is no placeholder",
		"{{ctx.task\n}}":           "not closed on its line",
		"{{ctx.task}}{{ctx.task}}": "more than 1048576 bytes",
	} {
		if _, err := (Stage{ID: "S", Body: body}).Prompt(big); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
}

func FuzzPrompt(f *testing.F) {
	for _, body := range []string{"{{ctx.task}}", `\{{`, "{{", "{{ctx.a.b}}", "}}{{ctx.task}}{{{"} {
		f.Add(body, "task {{ctx.task}}")
	}
	f.Fuzz(func(t *testing.T, body, task string) {
		got, err := Stage{ID: "S", Body: body}.Prompt(Context{Task: task})
		if err == nil && !strings.Contains(body, "{{") && got != body {
			t.Errorf("%q became %q", body, got)
		}
	})
}
