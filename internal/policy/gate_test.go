package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/machine/tool"
)

// load reads rules that are written without their frame.
func load(t testing.TB, rules string) Rules {
	t.Helper()
	list, err := Load("test.yaml", []byte("rules:\n"+rules))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func call(name, args, safety string, traits ...string) tool.Call {
	return tool.Call{CallID: "c", Tool: name, Arguments: []byte(args), Digest: "digest of " + name + args, Safety: safety, Traits: traits}
}

// TestAllowlist shows that the mode refuses what no rule allows, without a
// question, and that reading stays allowed.
func TestAllowlist(t *testing.T) {
	p := Posture{Mode: ModeAllowlist, Dir: "/w", Rules: load(t, `
- {id: notes, tool: Write, decision: allow, args: {path: "notes/**"}}
- {id: careful, tool: Write, decision: ask, args: {path: "notes/x"}}
- {id: look, tool: Edit, decision: ask}
- {id: secret, tool: Read, decision: deny, args: {path: "**/.env"}, reason: secrets}`)}
	for _, c := range []struct {
		call tool.Call
		want tool.Verdict
	}{
		{call("Write", `{"path":"notes/a"}`, "idempotent"), tool.Verdict{Answer: tool.Allow, By: "rule:notes"}},
		{call("Write", `{"path":"notes/x"}`, "idempotent"), tool.Verdict{}}, // asked about, so not allowed, so refused
		{call("Write", `{"path":"other"}`, "idempotent"), tool.Verdict{}},
		{call("Edit", `{"path":"a"}`, "idempotent"), tool.Verdict{}},
		{call("Read", `{"path":"a"}`, "read_only"), tool.Verdict{Answer: tool.Allow, By: "rule:reads"}},
		{call("Read", `{"path":"a/.env"}`, "read_only"), tool.Verdict{Answer: tool.Refuse, By: "rule:secret", Reason: "secrets (rule secret)"}},
	} {
		if c.want.Answer == "" {
			c.want = tool.Verdict{Answer: tool.Refuse, By: "rule:allowlist", Reason: "no rule allows this call, and this conversation runs only what a rule allows"}
		}
		if d := cmp.Diff(c.want, Judge(p, c.call)); d != "" {
			t.Errorf("%s %s: %s", c.call.Tool, c.call.Arguments, d)
		}
	}
}

// TestPrecedence shows that deny beats ask beats allow in any order of the rules.
func TestPrecedence(t *testing.T) {
	rules := load(t, `
- {id: a, tool: Write, decision: allow}
- {id: b, tool: Write, decision: ask}
- {id: c, tool: Write, decision: deny}`)
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for n, want := range []tool.Answer{tool.Allow, tool.Ask, tool.Refuse} {
			var some Rules
			for _, i := range order {
				if i <= n {
					some = append(some, rules[i])
				}
			}
			for _, mode := range []string{ModeAsk, ModeYolo} {
				if v := Judge(Posture{Mode: mode, Rules: some}, call("Write", "{}", "")); v.Answer != want {
					t.Errorf("%v, %s: %+v, want %s", order, mode, v, want)
				}
			}
		}
	}
	v := Judge(Posture{Mode: ModeYolo, Rules: rules[1:2]}, call("Write", "{}", ""))
	if v.Reason != "the rule b wants a person to decide" {
		t.Errorf("%+v", v)
	}
	if v := Judge(Posture{Rules: rules[2:]}, call("Write", "{}", "")); v.Reason != "the rule c refuses it" {
		t.Errorf("%+v", v)
	}
}

// TestTaint shows that nothing sends data out without a person once private data
// and strangers' words have come together, whatever the mode and the rules.
func TestTaint(t *testing.T) {
	rules := load(t, "- {id: send, tool: Send, decision: allow}")
	for bits := range 32 {
		p := Posture{
			Mode: ModeYolo, Rules: rules, Headless: bits&1 != 0,
			Taint:      Taint{Private: bits&2 != 0, Untrusted: bits&4 != 0},
			Remembered: []Memory{{"Send", ScopeCall, "digest of Send{}"}},
		}
		c := call("Send", "{}", "read_only")
		if bits&8 != 0 {
			c.Traits = append(c.Traits, tool.External)
		}
		if bits&16 != 0 {
			c.Traits = append(c.Traits, tool.Private)
		}
		want := tool.Allow
		if bits&8 != 0 && p.Taint.Untrusted && (p.Taint.Private || bits&16 != 0) {
			want = tool.Ask
			if p.Headless {
				want = tool.Refuse
			}
		}
		v := Judge(p, c)
		if v.Answer != want || (want != tool.Allow) != strings.Contains(v.Reason, "private data and text that others wrote") {
			t.Errorf("%+v, %v: %+v, want %s", p.Taint, c.Traits, v, want)
		}
	}
	if got := (Taint{}).After([]string{tool.External, tool.Private}).After([]string{tool.Untrusted}); got != (Taint{true, true}) {
		t.Errorf("taint %+v", got)
	}
	if got := (Taint{Private: true}).After(nil); got != (Taint{Private: true}) {
		t.Errorf("taint %+v", got)
	}
}

// TestDestructive shows that what cannot be undone is asked about even in yolo,
// unless a rule or a person named it.
func TestDestructive(t *testing.T) {
	c := call("Drop", "{}", "side_effect", tool.Destructive)
	for _, x := range []struct {
		p    Posture
		want tool.Answer
	}{
		{Posture{Mode: ModeYolo}, tool.Ask},
		{Posture{Mode: ModeYolo, Headless: true}, tool.Refuse},
		{Posture{Mode: ModeYolo, Rules: load(t, "- {id: x, tool: Drop, decision: allow}")}, tool.Allow},
		{Posture{Mode: ModeYolo, Rules: load(t, `- {id: x, tool: "*", decision: allow}`)}, tool.Ask},
		{Posture{Mode: ModeAsk, Remembered: []Memory{{"Drop", ScopeCall, c.Digest}}}, tool.Allow},
		{Posture{Mode: ModeAsk, Remembered: []Memory{{"Drop", ScopeTool, ""}}}, tool.Ask},
	} {
		if v := Judge(x.p, c); v.Answer != x.want {
			t.Errorf("%+v: %+v, want %s", x.p, v, x.want)
		}
	}
	if v := Judge(Posture{Mode: ModeAsk}, c); v.Reason != "Drop can change things outside the conversation; what it does cannot be undone (rule:destructive)" {
		t.Errorf("%+v", v)
	}
}

// TestGuards shows that guards can only hold back, and that an answer nobody
// knows holds back most.
func TestGuards(t *testing.T) {
	for _, c := range []struct {
		guards []tool.Verdict
		want   tool.Verdict
	}{
		{[]tool.Verdict{{Answer: tool.Allow}}, tool.Verdict{Answer: tool.Allow, By: "rule:yolo"}},
		{[]tool.Verdict{{Answer: tool.Ask, By: "hook:a"}}, tool.Verdict{Answer: tool.Ask, Reason: "hook:a wants a person to decide"}},
		{[]tool.Verdict{{Answer: tool.Ask}, {Answer: tool.Ask, Reason: "odd"}}, tool.Verdict{Answer: tool.Ask, Reason: "a guard wants a person to decide; odd"}},
		{[]tool.Verdict{{Answer: tool.Ask}, {Answer: tool.Refuse, By: "hook:a", Reason: "no"}}, tool.Verdict{Answer: tool.Refuse, By: "hook:a", Reason: "no"}},
		{[]tool.Verdict{{Answer: tool.Allow}, {}}, tool.Verdict{Answer: tool.Refuse, By: "rule:guard", Reason: "a guard refused it"}},
	} {
		x := call("Write", "{}", "side_effect")
		x.Guards = c.guards
		if d := cmp.Diff(c.want, Judge(Posture{Mode: ModeYolo}, x)); d != "" {
			t.Errorf("%v: %s", c.guards, d)
		}
	}
	x := call("Read", "{}", "side_effect")
	x.Guards = []tool.Verdict{{Answer: tool.Allow}}
	if v := Judge(Posture{Mode: ModeAsk}, x); v.Answer != tool.Ask {
		t.Errorf("a guard let a call run: %+v", v)
	}
}

// TestRemember shows what a person may choose and how far it reaches.
func TestRemember(t *testing.T) {
	for _, c := range []struct {
		call   tool.Call
		scopes []string
	}{
		{call("Write", "{}", ""), []string{"once", "call", "tool"}},
		{tool.Call{Tool: "Write"}, []string{"once", "tool"}},
		{call("Bash", "{}", ""), []string{"once", "call"}},
		{call("server__tool", "{}", ""), []string{"once", "call"}},
		{call("Fetch", "{}", "", tool.External), []string{"once", "call"}},
		{call("Drop", "{}", "", tool.Destructive), []string{"once", "call"}},
		{call("Write", "{}", "", tool.Protected), []string{"once", "call"}},
	} {
		if d := cmp.Diff(c.scopes, Scopes(c.call)); d != "" {
			t.Errorf("%s: %s", c.call.Tool, d)
		}
		for _, scope := range []string{"", ScopeOnce, ScopeCall, ScopeTool, "for ever"} {
			m, ok, err := Remember(scope, c.call)
			may := scope == "" || slices.Contains(c.scopes, scope)
			if may != (err == nil) || ok != (may && scope != "" && scope != ScopeOnce) {
				t.Errorf("%s, %s: %+v %t %v", c.call.Tool, scope, m, ok, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.call.Tool) {
				t.Errorf("the error does not name the tool: %v", err)
			}
			v := Judge(Posture{Mode: ModeAsk, Remembered: []Memory{m}}, c.call)
			if (v.Answer == tool.Allow) != ok || ok && v.By != "rule:remembered" {
				t.Errorf("%s, %s: %+v", c.call.Tool, scope, v)
			}
		}
	}
}

// TestMemoryReach shows that a memory covers what was chosen and nothing else,
// even when it was not made by Remember.
func TestMemoryReach(t *testing.T) {
	ask := load(t, "- {id: x, tool: Write, decision: ask}")
	deny := load(t, "- {id: x, tool: Write, decision: deny}")
	one := call("Write", `{"path":"a"}`, "side_effect")
	for _, c := range []struct {
		memory Memory
		rules  Rules
		call   tool.Call
		want   tool.Answer
	}{
		{Memory{"Write", ScopeCall, one.Digest}, nil, one, tool.Allow},
		{Memory{"Write", ScopeCall, one.Digest}, ask, one, tool.Allow},
		{Memory{"Write", ScopeCall, one.Digest}, deny, one, tool.Refuse},
		{Memory{"Write", ScopeCall, one.Digest}, nil, call("Write", `{"path":"b"}`, "side_effect"), tool.Ask},
		{Memory{"Edit", ScopeCall, one.Digest}, nil, one, tool.Ask},
		{Memory{"Write", ScopeCall, ""}, nil, tool.Call{Tool: "Write"}, tool.Ask},
		{Memory{"Write", ScopeOnce, one.Digest}, nil, one, tool.Ask},
		{Memory{"Write", ScopeTool, ""}, nil, call("Write", `{"path":"b"}`, "side_effect"), tool.Allow},
		{Memory{"Bash", ScopeTool, ""}, nil, shellCall(t, "ls"), tool.Ask},
		{Memory{"a__b", ScopeTool, ""}, nil, call("a__b", "{}", ""), tool.Ask},
	} {
		if v := Judge(Posture{Mode: ModeAsk, Remembered: []Memory{c.memory}, Rules: c.rules}, c.call); v.Answer != c.want || v.Plain {
			t.Errorf("%+v, %s: %+v, want %s", c.memory, c.call.Arguments, v, c.want)
		}
	}
}

// TestExplain shows the order of the gate and that the last step is the verdict.
func TestExplain(t *testing.T) {
	names := []string{"read-only", "stage", "mode", "rules", "remembered", "guards", "taint", "destructive", "protected", "repeats", "headless"}
	c := call("Send", "{}", "side_effect", tool.External, tool.Destructive, tool.Protected)
	p := Posture{Mode: ModeAsk, Headless: true, Taint: Taint{true, true}, Repeats: 5, Remembered: []Memory{{"Send", ScopeCall, c.Digest}}}
	var got []string
	steps := Explain(p, c)
	for _, s := range steps {
		got = append(got, s.Name)
	}
	if d := cmp.Diff(names, got); d != "" {
		t.Error(d)
	}
	said := map[string]tool.Answer{}
	for _, s := range steps {
		said[s.Name] = s.Said.Answer
	}
	want := map[string]tool.Answer{"read-only": "", "stage": "", "mode": tool.Ask, "rules": "", "remembered": tool.Allow, "guards": "", "taint": tool.Ask, "destructive": "", "protected": "", "repeats": tool.Ask, "headless": tool.Refuse}
	if d := cmp.Diff(want, said); d != "" {
		t.Error(d)
	}
	if v := Judge(p, c); v != steps[len(steps)-1].Then || !strings.Contains(v.Reason, "nobody is there to give it: it can send data out") {
		t.Errorf("%+v", v)
	}
	p.ReadOnly = true
	for _, s := range Explain(p, c)[1:] {
		if s.Said.Answer != "" || s.Then.By != "rule:read-only" {
			t.Errorf("after a refusal: %+v", s)
		}
	}
}

// TestReplay shows which answers other rules would have changed, and how.
func TestReplay(t *testing.T) {
	rules := load(t, "- {id: w, tool: Write, decision: allow}\n- {id: e, tool: Edit, decision: deny}")
	past := []Past{
		{Posture{Mode: ModeAsk}, call("Write", "{}", ""), tool.Verdict{Answer: tool.Ask}},
		{Posture{Mode: ModeYolo}, call("Edit", "{}", ""), tool.Verdict{Answer: tool.Allow}},
		{Posture{Mode: ModeAsk}, call("Other", "{}", ""), tool.Verdict{Answer: tool.Ask}},
		{Posture{Mode: ModeAsk}, call("Write", "{}", ""), tool.Verdict{Answer: tool.Refuse}},
	}
	var got [][3]any
	for c := range Replay(rules, slices.Values(past)) {
		got = append(got, [3]any{c.New.Answer, c.Differs, c.Loosened})
	}
	want := [][3]any{{tool.Allow, true, true}, {tool.Refuse, true, false}, {tool.Ask, false, false}, {tool.Allow, true, true}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for range Replay(rules, slices.Values(past)) {
		break
	}
	if past[0].Posture.Rules != nil {
		t.Error("replay changed the past")
	}
}

// TestWhyNoRule shows that rules which do not answer say why.
func TestWhyNoRule(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"ls; git push"}`: "no rule allows git push",
		`{"command":"ls $X"}`:        "no rule can allow it: it uses a variable",
		`{"command":"ls","env":"x"}`: "no rule can allow it: it has arguments besides the command",
		`{"command":[]}`:             "no rule can allow it: there is no command",
	} {
		step := Explain(Posture{Rules: defaults(t)}, call(ShellTool, args, "side_effect"))[3]
		if step.Name != "rules" || step.Said.Answer != "" || step.Said.Reason != want || step.Then.Answer != tool.Ask {
			t.Errorf("%s: %+v", args, step)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	p := Posture{Mode: ModeAsk, Rules: Join(defaults(b), mustLoad(b, "siblings.yaml")), Dir: "/w"}
	c := shellCall(b, "git status --short && rg -n main internal | sort | uniq -c")
	for b.Loop() {
		if v := Judge(p, c); v.Answer != tool.Allow {
			b.Fatalf("%+v", v)
		}
	}
}
