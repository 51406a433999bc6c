package policy

import (
	"strings"
	"testing"

	"stave/internal/machine/tool"
)

// TestFlags shows what a list of allowed flags lets through.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		flags, words string
		want         bool
	}{
		{"-a -b", "-a", true},
		{"-a -b", "-ab -ba", true},
		{"-a -b", "-ac", false},
		{"-a -b -name", "-ab", false},
		{"-a --long=", "-aa", true},
		{"-a -n=", "-an", false},
		{"-n=", "-n5 -n 5", true},
		{"-n", "-n5", false},
		{"--long", "--long", true},
		{"--long", "--long=5", false},
		{"--long", "--lon", false},
		{"--long=", "--long=5 --long", true},
		{"--long=", "--longer", false},
		{"-#", "-20", true},
		{"-#", "-2x", false},
		{"-#", "-", false},
		{"-#", "+2", false},
		{"-a", "+a", false},
		{"-a", "--", false},
		{"-a --", "-- -x", true},
		{"-a --", "-x --", false},
		{"-", "-", true},
		{"+=", "+x", true},
		{"", "a", true},
		{"", "-a", false},
	} {
		r := Rule{ID: "x", Tool: ShellTool, Decision: tool.Allow, Command: []string{"p"}, Flags: strings.Fields(c.flags)}
		if why := r.problems(); len(why) > 0 {
			t.Errorf("[%s]: %v", c.flags, why)
		}
		if got := r.permits(append([]string{"p"}, strings.Fields(c.words)...), "/w"); got != c.want {
			t.Errorf("[%s] permits %s: %t, want %t", c.flags, c.words, got, c.want)
		}
	}
}

// TestOperands shows which words a command takes besides its flags.
func TestOperands(t *testing.T) {
	for _, c := range []struct {
		operands, word string
		want           bool
	}{
		{"", "a/b", true},
		{"", "./...", true},
		{"", "a/../b", true},
		{"", "/w/a", true},
		{"", "/w", true},
		{"", "/world/a", false},
		{"", "/etc/passwd", false},
		{"", "..", false},
		{"", "a/../../b", false},
		{"", "", false},
		{"", "host:path", false},
		{"", "of=x", false},
		{"", "@list", false},
		{"", "a\x00b", false},
		{OperandsPaths, "../x", false},
		{OperandsAny, "/etc/passwd", true},
		{OperandsNone, "a", false},
	} {
		r := Rule{Command: []string{"p", "q"}, Decision: tool.Allow, Operands: c.operands}
		if got := r.permits([]string{"p", "q", c.word}, "/w"); got != c.want {
			t.Errorf("%s %q: %t, want %t", c.operands, c.word, got, c.want)
		}
	}
	r := Rule{Command: []string{"p", "q"}, Decision: tool.Allow}
	if r.permits([]string{"p"}, "") || r.permits([]string{"p", "x"}, "") || r.permits([]string{"p", "q", "/w"}, "") || (Rule{}).permits(nil, "") {
		t.Error("a rule covers less or other words than it names")
	}
	if _, ok := within("/", "/etc"); !ok {
		t.Error("everything is inside the root")
	}
}

// TestArgs shows how fields are compared: an allow must be sure, the others need
// only suspect.
func TestArgs(t *testing.T) {
	long := `{"path":"` + strings.Repeat("a", maxValueBytes+1) + `"}`
	for _, c := range []struct {
		field, pattern, args string
		allow, deny          tool.Answer // what an allow and a deny rule make of it
	}{
		{"path", "src/**", `{"path":"src/a/b"}`, "allow", "deny"},
		{"path", "src/**", `{"path":"./src/../src/a"}`, "allow", "deny"},
		{"path", "src/**", `{"path":"/w/src/a"}`, "allow", "deny"},
		{"path", "src/**", `{"path":"src/../x"}`, "ask", "allow"},
		{"path", "src/**", `{"path":"SRC/a"}`, "ask", "deny"},
		{"path", "**", `{"path":"../x"}`, "ask", "deny"},
		{"path", "**", `{"path":"/etc/x"}`, "ask", "deny"},
		{"path", "**/x", `{"path":"/etc/x"}`, "ask", "deny"},
		{"path", "**", `{"path":"a\u0000b"}`, "ask", "deny"},
		{"file_path", "a", `{"file_path":"b/../a"}`, "allow", "deny"},
		{"profile", "a", `{"profile":"b/../a"}`, "ask", "allow"},
		{"url", "https://a.example/*", `{"url":"https://a.example/x"}`, "allow", "deny"},
		{"url", "https://a.example/*", `{"url":"https://A.example/x"}`, "allow", "deny"},
		{"url", "https://a.example/*", `{"url":"https://a.example.evil/x"}`, "ask", "allow"},
		{"n", "7", `{"n":7}`, "allow", "deny"},
		{"n", "true", `{"n":true}`, "allow", "deny"},
		{"n", "false", `{"n":false}`, "allow", "deny"},
		{"n", "x", `{"n":null}`, "ask", "ask"},
		{"n", "x", `{"n":["x"]}`, "ask", "ask"},
		{"n", "x", `{}`, "ask", "allow"},
		{"n", "x", `{"N":"x"}`, "ask", "allow"},
		{"n", "x", `{"n":"y","n":"x"}`, "ask", "ask"},
		{"n", "x", `nonsense`, "ask", "ask"},
		{"path", "**", long, "ask", "ask"},
	} {
		for _, decision := range []tool.Answer{tool.Allow, tool.Refuse} {
			rules := Rules{{ID: "r", Tool: "T", Decision: decision, Args: map[string]string{c.field: c.pattern}}}
			mode, want := ModeAsk, c.allow
			if decision == tool.Refuse {
				mode, want = ModeYolo, c.deny
			}
			v := Judge(Posture{Mode: mode, Dir: "/w", Rules: rules}, call("T", c.args, "side_effect"))
			if v.Answer != want {
				t.Errorf("%s %s=%s on %.40s: %+v, want %s", decision, c.field, c.pattern, c.args, v, want)
			}
		}
	}
}

// TestShellNeedsItsCommand shows that no rule allows the shell by its name, that
// extra arguments make a call unknown, and that others are covered by their name.
func TestShellNeedsItsCommand(t *testing.T) {
	any := Rules{{ID: "any", Tool: "*", Decision: tool.Allow}}
	if v := Judge(Posture{Rules: any}, shellCall(t, "ls")); v.Answer != tool.Ask {
		t.Errorf("%+v", v)
	}
	c := shellCall(t, "ls")
	for args, want := range map[string]tool.Answer{
		`{"command":"ls"}`: tool.Allow, `{"command":"ls","description":"x","timeout_seconds":5}`: tool.Allow,
		`{"command":"ls","env":"x"}`: tool.Ask, `{"Command":"rm","command":"ls"}`: tool.Ask, `{"command":["ls"]}`: tool.Ask,
	} {
		c.Arguments = []byte(args)
		if v := Judge(Posture{Rules: defaults(t), Dir: "/w"}, c); v.Answer != want {
			t.Errorf("%s: %+v, want %s", args, v, want)
		}
	}
	deny := Rules{{ID: "any", Tool: "*", Decision: tool.Refuse}}
	if v := Judge(Posture{Mode: ModeYolo, Rules: deny}, shellCall(t, "ls")); v.Answer != tool.Refuse {
		t.Errorf("%+v", v)
	}
	odd := Rules{{ID: "odd", Tool: "*", Decision: tool.Refuse, Command: []string{"ls"}}}
	if v := Judge(Posture{Mode: ModeYolo, Rules: odd}, call("Write", "{}", "")); v.Answer != tool.Allow {
		t.Errorf("%+v", v)
	}
}

func TestManyRulesNamed(t *testing.T) {
	v := Judge(Posture{Rules: defaults(t)}, shellCall(t, "ls; ls; cat a | sort | uniq; wc a; pwd"))
	if want := "rule:default.ls+default.cat+default.sort+default.uniq+…"; v.By != want {
		t.Errorf("%q, want %q", v.By, want)
	}
}

func TestAskRuleForCommands(t *testing.T) {
	rules := load(t, "- {id: x, decision: ask, command: [git, push], reason: look}\n- {id: y, decision: ask, command: [rm]}")
	for command, want := range map[string]string{
		"git push": "look (rule x)", "rm (": "the rule y (ask) may cover it: what it will do is not certain", "ls": "",
	} {
		if v := Judge(Posture{Mode: ModeYolo, Rules: rules}, shellCall(t, command)); v.Reason != want {
			t.Errorf("%q: %+v", command, v)
		}
	}
}

func TestShorten(t *testing.T) {
	if got := shorten(strings.Repeat("é", 60)); len(got) > maxQuoted+6 || !strings.HasSuffix(got, "…") {
		t.Errorf("%q", got)
	}
	if got := marshal(map[string]string{"a": "\xff"}); got != nil {
		t.Errorf("%q", got)
	}
}
