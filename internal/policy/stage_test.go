package policy

import (
	"fmt"
	"strings"
	"testing"

	"stave/internal/machine/tool"
)

// The choices of each thing the gate looks at.
var (
	everyMode   = []string{ModeAsk, ModeAllowlist, ModeYolo, ""}
	everySafety = []string{"read_only", "idempotent", "side_effect"}
	everyAnswer = []tool.Answer{"", tool.Allow, tool.Ask, tool.Refuse}
)

// stageCase is one way a call can come before the gate in a stage.
type stageCase struct {
	mode, safety                           string
	inside, headless, readOnly, remembered bool
	guard, rule                            tool.Answer
}

// want is what the gate has to say: the stage lets its own tools run and asks for
// a grant for any other; whatever tightens does, and nothing widens.
func (c stageCase) want() (answer tool.Answer, by string, grant bool) {
	switch {
	case c.readOnly && c.safety != "read_only":
		return tool.Refuse, "rule:read-only", false
	case c.rule == tool.Refuse:
		return tool.Refuse, "rule:r", false
	case c.guard == tool.Refuse:
		return tool.Refuse, "hook:g", false
	}
	asked := !c.inside || c.guard == tool.Ask
	by = "stage:Plan"
	if c.inside && c.rule == tool.Ask {
		if by = "rule:remembered"; !c.remembered {
			asked = true
		}
	}
	switch {
	case asked && c.headless:
		return tool.Refuse, HeadlessRule, false
	case asked:
		return tool.Ask, "", !c.inside
	}
	return tool.Allow, by, false
}

func (c stageCase) posture(t *testing.T, rules map[tool.Answer]Rules) (Posture, tool.Call) {
	t.Helper()
	x := call("Write", "{}", c.safety)
	if c.guard != "" {
		x.Guards = []tool.Verdict{{Answer: c.guard, By: "hook:g", Reason: "the guard says so"}}
	}
	p := Posture{
		Mode: c.mode, Headless: c.headless, ReadOnly: c.readOnly, Rules: rules[c.rule],
		Stage: &Envelope{
			Grant:   tool.Grant{ExecutionID: "run_1.Plan.1", Stage: "Plan", Attempt: 2},
			Allowed: func(name string) bool { return c.inside && name == "Write" },
		},
	}
	if c.remembered {
		p.Remembered = []Memory{{"Write", ScopeTool, ""}, {"Write", ScopeCall, x.Digest}}
	}
	return p, x
}

// forEachCase tries every combination.
func forEachCase(try func(stageCase)) {
	for _, mode := range everyMode {
		for _, safety := range everySafety {
			for _, guard := range everyAnswer {
				for _, rule := range everyAnswer {
					for bits := range 16 {
						try(stageCase{
							mode, safety, bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0, guard, rule,
						})
					}
				}
			}
		}
	}
}

// TestStage shows the whole table of the gate in a stage: in its envelope it
// answers in place of the mode, outside of it only a grant does, in every mode,
// and no rule and no memory stands for one.
func TestStage(t *testing.T) {
	rules := map[tool.Answer]Rules{
		tool.Allow:  load(t, "- {id: r, tool: Write, decision: allow}"),
		tool.Ask:    load(t, "- {id: r, tool: Write, decision: ask}"),
		tool.Refuse: load(t, "- {id: r, tool: Write, decision: deny}"),
	}
	seen := map[string]int{}
	forEachCase(func(c stageCase) {
		p, x := c.posture(t, rules)
		v := Judge(p, x)
		answer, by, grant := c.want()
		seen[fmt.Sprint(answer, " ", by, " ", grant)]++
		if v.Answer != answer || v.By != by || (v.Grant != tool.Grant{}) != grant {
			t.Errorf("%+v: %+v, want %s by %q (grant: %t)", c, v, answer, by, grant)
		}
		if grant && v.Grant != p.Stage.Grant {
			t.Errorf("%+v: a grant for %+v", c, v.Grant)
		}
		if !c.inside && answer != tool.Refuse && !strings.Contains(v.Reason, "Write is not among the tools of stage Plan") {
			t.Errorf("%+v: %q does not say why", c, v.Reason)
		}
		if (v.Answer == tool.Allow) == (v.Reason != "") {
			t.Errorf("%+v: %s for the reason %q", c, v.Answer, v.Reason)
		}
	})
	for _, outcome := range []string{
		"allow stage:Plan false", "allow rule:remembered false", "ask  true", "ask  false",
		"deny rule:headless false", "deny rule:r false", "deny hook:g false", "deny rule:read-only false",
	} {
		if seen[outcome] == 0 {
			t.Errorf("no case comes to %q: %v", outcome, seen)
		}
	}
}

// TestStageOnlyNarrows shows that what a stage lets run or asks about is tightened
// by everything that tightens outside of stages too, and that the question stays
// one for a grant.
func TestStageOnlyNarrows(t *testing.T) {
	for _, inside := range []bool{true, false} {
		stage := &Envelope{Grant: tool.Grant{ExecutionID: "e", Stage: "Plan", Attempt: 1}, Allowed: func(string) bool { return inside }}
		for name, c := range map[string]struct {
			p Posture
			x tool.Call
		}{
			taintRule:       {Posture{Taint: Taint{true, true}}, call("Send", "{}", "side_effect", tool.External)},
			destructiveRule: {Posture{}, call("Drop", "{}", "side_effect", tool.Destructive)},
			protectedRule:   {Posture{}, call("Write", "{}", "side_effect", tool.Protected)},
			repeatsRule:     {Posture{Repeats: maxRepeats}, call("Read", "{}", "read_only")},
		} {
			for _, mode := range everyMode {
				c.p.Mode, c.p.Stage = mode, stage
				v := Judge(c.p, c.x)
				if v.Answer != tool.Ask || !strings.Contains(v.Reason, name) || (v.Grant != tool.Grant{}) != !inside {
					t.Errorf("%s, inside %t, %q: %+v", name, inside, mode, v)
				}
				c.p.Headless = true
				if v := Judge(c.p, c.x); v.Answer != tool.Refuse || v.By != HeadlessRule {
					t.Errorf("%s, inside %t, %q, headless: %+v", name, inside, mode, v)
				}
				c.p.Headless = false
			}
		}
	}
}

// TestNoStage shows that where there is no stage everything is inside, and the
// station has nothing to say.
func TestNoStage(t *testing.T) {
	var none *Envelope
	if !none.Allows("anything") {
		t.Error("without a stage something is outside")
	}
	if step := Explain(Posture{Mode: ModeYolo}, call("Write", "{}", "side_effect"))[1]; step.Name != "stage" || step.Said != (tool.Verdict{}) {
		t.Errorf("%+v", step)
	}
}
