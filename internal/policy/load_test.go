package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stave/internal/machine/tool"
)

// TestLoad shows a file with every kind of rule, and files without any.
func TestLoad(t *testing.T) {
	got, err := Load("p.yaml", []byte(`rules:
  - id: git-log
    decision: allow
    command: [git, log]
    flags: [--oneline, -n=]
    operands: none
    match: [git log --oneline]
    not_match: [git log --output=x, git log; id]
  - id: secrets
    tool: "*"
    decision: deny
    reason: secrets stay
    args: {path: "**/.env"}
    match: [{path: a/.env}, {path: .ENV}]
    not_match: [{path: a/env}, {other: x}]
  - id: remote
    tool: "srv__*"
    decision: ask
    match: [srv__drop]
    not_match: [other__drop]
`))
	want := Rules{
		{ID: "git-log", Tool: "Bash", Decision: "allow", Command: []string{"git", "log"}, Flags: []string{"--oneline", "-n="}, Operands: "none"},
		{ID: "secrets", Tool: "*", Decision: "deny", Reason: "secrets stay", Args: map[string]string{"path": "**/.env"}},
		{ID: "remote", Tool: "srv__*", Decision: "ask"},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, empty := range []string{"", "# nothing\n", "rules: []\n", "~"} {
		if got, err := Load("p.yaml", []byte(empty)); len(got) != 0 || err != nil {
			t.Errorf("%q: %v %v", empty, got, err)
		}
	}
}

// TestLoadProblems shows that every mistake is named with its place, its rule and
// what to write.
func TestLoadProblems(t *testing.T) {
	rule := func(rest string) string { return "rules:\n  - {id: x, " + rest + "}" }
	for text, want := range map[string]string{
		"a: [":                                  "p:1:1: not YAML: ",
		"a\n b: c:\n":                           "p:2:1: not YAML: ",
		"x":                                     "p:1:1: a policy file is a mapping; write some of: rules",
		"rule: []":                              `p:1:1: a policy file has no field "rule"; write some of: rules`,
		"rules: []\nrules: []":                  "p:2:1: a policy file has the field rules twice; remove one",
		"rules: x":                              "p:1:8: rules is a list; write it as",
		"rules: []\n---\nrules: []":             "p:1:1: there is more than one YAML document",
		"a: &a [x]\nrules: *a":                  "p:1:1: a policy file has no field \"a\"",
		"rules: [x]":                            "p:1:9: a rule is a mapping",
		"rules: [{[a]: b}]":                     "p:1:10: a rule has no field",
		rule("nope: 1"):                         "p:2:13: rule x: a rule has no field \"nope\"; write some of: args, command",
		rule("tool: 7"):                         "p:2:19: rule x: this is no text",
		rule("tool: [a]"):                       "p:2:19: rule x: this is no text",
		rule("tool: A, decision: ask, args: x"): "rule x: args is a mapping of at most 200 fields",
		rule("tool: A, decision: ask, args: {a: b, a: c}"):                              "rule x: args has the field a twice",
		rule("tool: A, decision: maybe"):                                                `p:2:5: rule x: the decision "maybe" is unknown; write allow, ask or deny`,
		rule("decision: ask"):                                                           "rule x: it names no tool",
		rule("tool: 'a[', decision: ask"):                                               `rule x: the tool "a[" is no glob`,
		rule("tool: A, decision: ask, reason: " + strings.Repeat("r", 2000)):            "rule x: the reason is longer than 1024 bytes",
		rule("command: [a], args: {b: c}, decision: ask"):                               "rule x: it has both command and args",
		rule("tool: A, flags: [-a], decision: ask"):                                     "rule x: flags and operands need a command",
		rule("tool: Bash, args: {command: ls}, decision: ask"):                          "rule x: the arguments of Bash are not compared as text",
		rule("tool: Bash, decision: allow"):                                             "rule x: it would allow every shell command",
		rule("tool: A, decision: ask, args: {a: '{a'}"):                                 `rule x: the pattern "{a" of a is no glob`,
		rule("tool: A, decision: ask, args: {a: '" + strings.Repeat("{a,b}", 5) + "'}"): "is no glob",
		rule("tool: A, decision: allow, args: {path: /etc/x}"):                          `rule x: the pattern "/etc/x" of path leads out of the workspace`,
		rule("tool: A, decision: allow, args: {path: a/../../x}"):                       "leads out of the workspace",
		rule("tool: A, decision: allow, args: {url: 'https://*example.org/**'}"):        `rule x: the pattern "https://*example.org/**" of url is no address; write https://host/path`,
		rule("tool: A, command: [a], decision: ask"):                                    "rule x: a command is for the tool Bash; leave tool out",
		rule("command: [a], operands: some, decision: allow"):                           `rule x: operands "some" is unknown`,
		rule("command: [a], operands: any, decision: deny"):                             "rule x: operands are for allow rules",
		rule("command: [a b], decision: deny"):                                          `rule x: the word "a b" of the command is not a plain word`,
		rule("command: ['a*'], decision: allow"):                                        "is not a plain word",
		rule("command: [a], flags: [x], decision: allow"):                               `rule x: the flag "x" is none`,
		rule("command: [a], flags: ['-='], decision: allow"):                            `rule x: the flag "-=" is none`,
		rule("command: [a], flags: ['--='], decision: allow"):                           `rule x: the flag "--=" is none`,
		rule("command: [a], flags: ['-a#'], decision: allow"):                           `rule x: the flag "-a#" is none`,
		rule("command: [eval], decision: allow"):                                        `rule x: "eval" is not a program`,
		rule("command: [xargs, ls], decision: allow"):                                   "rule x: xargs runs any other command",
		rule("command: [/bin/sh, x.sh], decision: allow"):                               "rule x: /bin/sh runs any other command",
		rule("command: [git], decision: allow"):                                         "rule x: git does whatever its first word says",
		rule("command: [sed, -n], decision: allow"):                                     "rule x: sed does whatever its first word says",
		rule("command: [ls], decision: allow, match: [ls -l]"):                          "p:2:53: rule x: the rule does not cover this example",
		rule("command: [ls], decision: allow, not_match: [ls]"):                         "p:2:57: rule x: the rule covers this example and should not",
		rule("command: [ls], decision: allow, match: [{a: b}]"):                         "rule x: this is no text",
		rule("tool: A, decision: deny, match: [B]"):                                     "rule x: the rule does not cover this example",
		rule("tool: A, decision: deny, args: {path: a}, match: [{path: b}]"):            "rule x: the rule does not cover this example",
		rule("tool: A, decision: ask") + "\n  - {id: x, tool: B, decision: ask}":        "p:3:5: rule x: another rule has the same id",
		"rules: [{id: yolo, tool: A, decision: ask}]":                                   "rule yolo: the id yolo is taken by a built-in rule",
		"rules: [{id: A b, tool: A, decision: ask}]":                                    `rule A b: the id "A b" is no name`,
		"rules: [{tool: A, decision: ask}]":                                             `p:1:9: the id "" is no name`,
		"rules: [" + strings.Repeat("{},", 1001) + "]":                                  "p:1:8: rules has 1001 items; write at most 1000",
		strings.Repeat("#", MaxFileBytes+1):                                             "p:1:1: the file has more than 1048576 bytes",
	} {
		rules, err := Load("p", []byte(text))
		if rules != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, %v\nwant %s", text, rules, err, want)
		}
		if p := new(Problem); !errors.As(err, &p) || p.File != "p" || p.Line < 1 || p.Column < 1 {
			t.Errorf("%.60s: no problem with a place: %v", text, err)
		}
	}
}

// TestLoadBounds shows that a small file cannot cost much: not by aliases, not by
// depth, not by the number of its mistakes.
func TestLoadBounds(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	for _, text := range []string{bomb.String(), strings.Repeat("[", 20_000), strings.Repeat("rules: {", 5000), "rules:\n" + strings.Repeat("  - 1\n", 900)} {
		_, err := Load("p", []byte(text))
		if err == nil || len(err.Error()) > 10_000 {
			t.Errorf("%.20s: %.200v", text, err)
		}
	}
}

func TestDefaultRules(t *testing.T) {
	tried := defaults(t)
	rules, err := Default()
	if d := cmp.Diff(tried, rules); d != "" || err != nil {
		t.Error(err, d)
	}
	for _, r := range tried {
		if r.Decision != tool.Allow || r.Tool != ShellTool || !strings.HasPrefix(r.ID, "default.") {
			t.Errorf("%+v", r)
		}
	}
}

// TestSnapshot shows that rules survive a snapshot, that its bytes are fixed, and
// that a spoiled one is refused.
func TestSnapshot(t *testing.T) {
	rules := Join(defaults(t), mustLoad(t, "siblings.yaml"), load(t, `- {id: s, tool: "*", decision: deny, args: {path: "**/.env", b: c}}`))
	b := rules.Snapshot()
	again, err := ParseSnapshot(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(rules, again); d != "" {
		t.Error(d)
	}
	if string(again.Snapshot()) != string(b) {
		t.Error("the second snapshot differs from the first")
	}
	if got := string(load(t, `- {id: s, tool: A, decision: deny, args: {b: c, a: b}}`).Snapshot()); got != `{"rules":[{"args":{"a":"b","b":"c"},"decision":"deny","id":"s","tool":"A"}],"v":1}` {
		t.Error(got)
	}
	if got := string(Rules(nil).Snapshot()); got != `{"rules":[],"v":1}` {
		t.Error(got)
	}
	if got := (Rules{{ID: "\xff"}}).Snapshot(); got != nil {
		t.Errorf("%s", got)
	}
	for text, want := range map[string]string{
		``:                   "reading a snapshot of rules: ",
		`{"v":1,"x":2}`:      "unknown",
		`{"v":2,"rules":[]}`: "version 2 is not 1",
		`{"v":1,"rules":[{"id":"a","tool":"Bash","decision":"allow"}]}`:                                   "rule a: it would allow every shell command",
		`{"v":1,"rules":[{"id":"a","tool":"B","decision":"ask"},{"id":"a","tool":"B","decision":"ask"}]}`: "rule a: another rule has the same id",
		`{"v":1,"rules":[` + strings.Repeat(`{},`, 2000) + `{}]}`:                                         "there are 2001 rules",
	} {
		rules, err := ParseSnapshot([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "reading a snapshot of rules: ") {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
		// Whoever goes on regardless asks about everything, reading as well.
		for _, c := range []tool.Call{call("Read", "{}", "read_only"), shellCall(t, "ls"), call("a__b", "{}", "")} {
			if v := Judge(Posture{Mode: ModeYolo, Rules: rules}, c); v.Answer != tool.Ask {
				t.Errorf("%.40s, %s: %+v", text, c.Tool, v)
			}
		}
	}
}

func TestJoin(t *testing.T) {
	got := Join(load(t, "- {id: a, tool: A, decision: ask}\n- {id: b, tool: B, decision: ask}"), load(t, "- {id: a, tool: A, decision: deny}"))
	if len(got) != 2 || got[0].Decision != tool.Refuse || got[1].ID != "b" {
		t.Errorf("%+v", got)
	}
}

// TestTightenErrors shows that a project may not allow, and whose rule is whose.
func TestTightenErrors(t *testing.T) {
	if _, err := Tighten(nil, load(t, "- {id: a, tool: A, decision: allow}")); err == nil || !strings.Contains(err.Error(), "project rule a: a project may not allow anything") {
		t.Error(err)
	}
	same := load(t, "- {id: a, tool: A, decision: ask}")
	if _, err := Tighten(same, append(same, same...)); err == nil || !strings.Contains(err.Error(), "adding the project's rules: rule project/a: another rule") {
		t.Error(err)
	}
	all, err := Tighten(same, same)
	if err != nil || all[1].ID != "project/a" || same[0].ID != "a" {
		t.Errorf("%+v, %v", all, err)
	}
	if again, err := ParseSnapshot(all.Snapshot()); err != nil || len(again) != 2 {
		t.Error(again, err)
	}
}

// TestTightenNeverWidens shows that no project makes any call freer, in any
// posture.
func TestTightenNeverWidens(t *testing.T) {
	commands := []string{"ls", "ls; rm -r x", "git push", "$X", "git status", "ls (", "env rm x", "cat a | sort"}
	tools := []string{"Write", "Read", "srv__x", "*", "srv__*", ShellTool}
	rule := rapid.Custom(func(t *rapid.T) Rule {
		r := Rule{
			ID: rapid.StringMatching("[a-z]{1,8}").Draw(t, "id"), Tool: rapid.SampledFrom(tools).Draw(t, "tool"),
			Decision: rapid.SampledFrom([]tool.Answer{tool.Allow, tool.Ask, tool.Refuse}).Draw(t, "decision"),
		}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			r.Tool, r.Command = ShellTool, []string{rapid.SampledFrom([]string{"ls", "rm", "cat", "sort"}).Draw(t, "command")}
		case 1:
			r.Args = map[string]string{"path": rapid.SampledFrom([]string{"a", "**", "*.go", "x/**"}).Draw(t, "path")}
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		user := rapid.SliceOfN(rule, 0, 4).Draw(t, "user")
		project := rapid.SliceOfN(rule, 1, 4).Draw(t, "project")
		both, err := Tighten(user, project)
		if err != nil {
			return
		}
		p := Posture{
			Mode:     rapid.SampledFrom([]string{ModeAsk, ModeAllowlist, ModeYolo}).Draw(t, "mode"),
			Headless: rapid.Bool().Draw(t, "headless"), Rules: user, Dir: "/w",
		}
		c := call(rapid.SampledFrom(tools).Draw(t, "tool"), `{"path":"a"}`, "side_effect")
		if c.Tool == ShellTool {
			c.Arguments = marshal(map[string]string{"command": rapid.SampledFrom(commands).Draw(t, "command")})
		}
		before := Judge(p, c)
		p.Rules = both
		if after := Judge(p, c); rank(after.Answer) < rank(before.Answer) {
			t.Fatalf("%+v became %+v", before, after)
		}
	})
}

// FuzzLoad shows that no file breaks the loader, and that what it accepts comes
// through a snapshot unchanged.
func FuzzLoad(f *testing.F) {
	f.Add(defaultFile)
	f.Add([]byte("rules: [{id: a, tool: '*', decision: deny, args: {path: x}}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rules, err := Load("f", b)
		if err != nil {
			return
		}
		again, err := ParseSnapshot(rules.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(rules, again); d != "" && len(rules) > 0 {
			t.Error(d)
		}
	})
}
