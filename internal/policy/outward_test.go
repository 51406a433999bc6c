package policy

import (
	"strings"
	"testing"

	"stave/internal/machine/tool"
)

// TestOutwardReads shows that what reads from elsewhere is no mere read: the mode
// answers for it, rules and memories may, and a read-only conversation asks.
func TestOutwardReads(t *testing.T) {
	const reason = "Fetch sends what it asks for out of the conversation"
	c := call("Fetch", `{"url":"https://a.example/x"}`, "read_only", tool.Untrusted, tool.External)
	rules := load(t, `- {id: a, tool: Fetch, decision: allow, args: {url: "https://a.example/**"}}`)
	memory := []Memory{{"Fetch", ScopeCall, c.Digest}}
	for _, x := range []struct {
		name string
		p    Posture
		want tool.Verdict
	}{
		{"ask", Posture{Mode: ModeAsk}, tool.Verdict{Answer: tool.Ask, Reason: reason}},
		{"no mode", Posture{}, tool.Verdict{Answer: tool.Ask, Reason: reason}},
		{"yolo", Posture{Mode: ModeYolo}, tool.Verdict{Answer: tool.Allow, By: "rule:yolo"}},
		{"allowlist", Posture{Mode: ModeAllowlist}, tool.Verdict{
			Answer: tool.Refuse, By: "rule:allowlist", Reason: "no rule allows this call, and this conversation runs only what a rule allows",
		}},
		{"ask, a rule", Posture{Mode: ModeAsk, Rules: rules}, tool.Verdict{Answer: tool.Allow, By: "rule:a"}},
		{"allowlist, a rule", Posture{Mode: ModeAllowlist, Rules: rules}, tool.Verdict{Answer: tool.Allow, By: "rule:a"}},
		{"ask, remembered", Posture{Mode: ModeAsk, Remembered: memory}, tool.Verdict{Answer: tool.Allow, By: "rule:remembered"}},
		{"ask, the tool remembered", Posture{Mode: ModeAsk, Remembered: []Memory{{"Fetch", ScopeTool, ""}}}, tool.Verdict{Answer: tool.Ask, Reason: reason}},
		{"read-only", Posture{Mode: ModeAsk, ReadOnly: true}, tool.Verdict{Answer: tool.Ask, Reason: reason}},
		{"read-only yolo", Posture{Mode: ModeYolo, ReadOnly: true}, tool.Verdict{Answer: tool.Ask, Reason: reason}},
		{"read-only yolo, a rule", Posture{Mode: ModeYolo, ReadOnly: true, Rules: rules}, tool.Verdict{Answer: tool.Allow, By: "rule:a"}},
		{"headless", Posture{Mode: ModeAsk, Headless: true}, tool.Verdict{
			Answer: tool.Refuse, By: HeadlessRule, Reason: "this call needs a person's permission and nobody is there to give it",
		}},
		{"headless, a rule", Posture{Mode: ModeAsk, Headless: true, Rules: rules}, tool.Verdict{Answer: tool.Allow, By: "rule:a"}},
	} {
		if v := Judge(x.p, c); v != x.want {
			t.Errorf("%s: %+v, want %+v", x.name, v, x.want)
		}
	}
	if v := Judge(Posture{Mode: ModeYolo, Rules: rules, Taint: Taint{true, true}}, c); v.Answer != tool.Ask {
		t.Errorf("tainted: %+v", v)
	}
}

// TestProtected shows that what makes other programs run something needs a person
// in every mode, whatever rules say, and that only the very call is remembered.
func TestProtected(t *testing.T) {
	const why = "it changes files that make other programs run something later, outside every wall (rule:protected)"
	c := call("Write", `{"path":".git/config"}`, "idempotent", tool.Protected)
	rules := load(t, `
- {id: named, tool: Write, decision: allow}
- {id: exact, tool: Write, decision: allow, args: {path: .git/config}}`)
	exact := Memory{"Write", ScopeCall, c.Digest}
	for _, x := range []struct {
		name   string
		mode   string
		rules  Rules
		memory Memory
		want   tool.Answer
	}{
		{"ask", ModeAsk, nil, Memory{}, tool.Ask},
		{"yolo", ModeYolo, nil, Memory{}, tool.Ask},
		{"yolo, rules", ModeYolo, rules, Memory{}, tool.Ask},
		{"ask, rules", ModeAsk, rules, Memory{}, tool.Ask},
		{"allowlist", ModeAllowlist, nil, Memory{}, tool.Refuse},
		{"allowlist, rules", ModeAllowlist, rules, Memory{}, tool.Ask},
		{"yolo, the tool remembered", ModeYolo, nil, Memory{"Write", ScopeTool, ""}, tool.Ask},
		{"ask, the tool remembered", ModeAsk, nil, Memory{"Write", ScopeTool, ""}, tool.Ask},
		{"ask, another call remembered", ModeAsk, nil, Memory{"Write", ScopeCall, "other"}, tool.Ask},
		{"yolo, another tool's call remembered", ModeYolo, nil, Memory{"Edit", ScopeCall, c.Digest}, tool.Ask},
		{"ask, remembered", ModeAsk, nil, exact, tool.Allow},
		{"yolo, remembered", ModeYolo, nil, exact, tool.Allow},
		{"allowlist, rules, remembered", ModeAllowlist, rules, exact, tool.Allow},
		{"allowlist, remembered", ModeAllowlist, nil, exact, tool.Refuse},
	} {
		p := Posture{Mode: x.mode, Dir: "/w", Rules: x.rules, Remembered: []Memory{x.memory}}
		v := Judge(p, c)
		if v.Answer != x.want || (v.Answer == tool.Ask) != strings.Contains(v.Reason, why) {
			t.Errorf("%s: %+v, want %s", x.name, v, x.want)
		}
		p.Headless = true
		alone := Judge(p, c)
		if (alone.Answer == tool.Allow) != (x.want == tool.Allow) || x.want == tool.Ask && !strings.Contains(alone.Reason, why) {
			t.Errorf("%s, headless: %+v", x.name, alone)
		}
	}
	for _, s := range Explain(Posture{Mode: ModeYolo}, c) {
		if (s.Name == "protected") != (s.Said.Answer == tool.Ask) {
			t.Errorf("%+v", s)
		}
	}
	c.Traits = nil
	if v := Judge(Posture{Mode: ModeYolo}, c); v.Answer != tool.Allow {
		t.Errorf("without the trait: %+v", v)
	}
}

// TestRepeats shows that the fifth of the same calls in a row is asked about,
// whatever allowed it so far.
func TestRepeats(t *testing.T) {
	for _, c := range []tool.Call{call("Read", "{}", "read_only"), call("Write", "{}", "side_effect"), shellCall(t, "ls")} {
		for n, want := range map[int]tool.Answer{-1: tool.Allow, 0: tool.Allow, 4: tool.Allow, 5: tool.Ask, 6: tool.Ask, 1 << 30: tool.Ask} {
			p := Posture{Mode: ModeYolo, Repeats: n, Rules: defaults(t), Remembered: []Memory{{c.Tool, ScopeCall, c.Digest}}}
			if v := Judge(p, c); v.Answer != want || v.Plain && want == tool.Ask {
				t.Errorf("%s, %d times: %+v", c.Tool, n, v)
			}
			p.Headless = true
			if v := Judge(p, c); (v.Answer == tool.Refuse) != (want == tool.Ask) {
				t.Errorf("%s, %d times, headless: %+v", c.Tool, n, v)
			}
		}
	}
	v := Judge(Posture{Repeats: 7}, call("Write", "{}", "side_effect"))
	if v.Reason != "Write can change things outside the conversation; this very call was made 7 times in a row (rule:repeats)" {
		t.Errorf("%+v", v)
	}
}
