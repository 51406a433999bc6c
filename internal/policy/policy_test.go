package policy

import (
	"testing"

	"stave/internal/machine/tool"
)

// TestJudge shows the gate's whole table: every posture with every safety.
func TestJudge(t *testing.T) {
	want := map[string]string{
		"ask read_only": "allow", "ask idempotent": "ask", "ask side_effect": "ask", "ask ": "ask",
		"yolo read_only": "allow", "yolo idempotent": "allow", "yolo side_effect": "allow", "yolo ": "allow",
		" read_only": "allow", " idempotent": "ask", " side_effect": "ask", " ": "ask",
	}
	for _, mode := range []string{ModeAsk, ModeYolo, ""} {
		for _, safety := range []string{"read_only", "idempotent", "side_effect", ""} {
			for bits := range 4 {
				p := Posture{Mode: mode, ReadOnly: bits&1 != 0, Headless: bits&2 != 0}
				expect := want[mode+" "+safety]
				if p.ReadOnly && safety != "read_only" {
					expect = "deny"
				}
				if p.Headless && expect == "ask" {
					expect = "deny"
				}
				v := Judge(p, tool.Call{Tool: "hammer", Safety: safety})
				if got := string(v.Answer); got != expect {
					t.Errorf("%+v, %s: %s, want %s", p, safety, got, expect)
				}
				if named := v.By != ""; named != (v.Answer != tool.Ask) {
					t.Errorf("%+v, %s: %s by %q: a rule that decides is named, a question has none yet", p, safety, v.Answer, v.By)
				}
				if why := v.Reason != ""; why != (v.Answer != tool.Allow) {
					t.Errorf("%+v, %s: %s without a reason", p, safety, v.Answer)
				}
			}
		}
	}
}

func TestAskNamesTheTool(t *testing.T) {
	v := Judge(Posture{Mode: ModeAsk}, tool.Call{Tool: "hammer"})
	if want := "hammer can change things outside the conversation"; v.Reason != want {
		t.Errorf("%q, want %q", v.Reason, want)
	}
}
