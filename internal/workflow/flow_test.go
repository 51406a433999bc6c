package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// shape makes a definition of bare stages: "A>B" is a sequential choice, "A>B,C&D"
// a parallel one with a join, "A>B;C" two choices; a * after an id is a visitCap.
func shape(text string) Definition {
	d := Definition{ID: "x"}
	for _, line := range strings.Fields(text) {
		id, next, _ := strings.Cut(line, ">")
		s := Stage{Body: "b", AllowedTools: []string{}, CompletionTool: "t", CompletionSchema: json.RawMessage(`{"type":"object"}`), TurnCap: 1}
		var capped bool
		if s.ID, capped = strings.CutSuffix(id, "*"); capped {
			s.VisitCap = 2
		}
		for _, c := range strings.Split(next, ";") {
			if next == "" {
				continue
			}
			stages, join, parallel := strings.Cut(c, "&")
			choice := Choice{Execution: Sequential, Join: join}
			if stages != "" {
				choice.Stages = strings.FieldsFunc(stages, func(r rune) bool { return r == ',' || r == '+' })
			}
			if parallel {
				choice.Execution = Parallel
			}
			s.Next = append(s.Next, choice)
		}
		for i := range len(s.Next) - 1 {
			s.Next[i].When = fmt.Sprintf("result.visit == %d", i)
		}
		d.Stages = append(d.Stages, s)
	}
	return Settle(d)
}

// TestOrder shows which ways of going are refused.
func TestOrder(t *testing.T) {
	for text, want := range map[string]string{
		"A":                        "",
		"A>B B>C C":                "",
		"A>B,C&D B C D":            "",
		"A>B,C& B C":               "", // parallel without a join
		"A>B+C B C>D D":            "", // one after another
		"A>B;C B C":                "",
		"A>A":                      "A → A can go on for ever",
		"A*>A":                     "",
		"A>B B>C C>A":              "A → B → C → A can go on for ever",
		"A>B B>C C*>A":             "",
		"A>B,C&D B C D>A":          "for ever",
		"A>B,C&D B* C D>A":         "A → C → D → A can go on for ever", // the way through C has no cap
		"A>B,C&D B C D*>A":         "",
		"A B":                      "stage B: no run comes here from A",
		"A>B B C>B":                "stage C: no run comes here from A",
		"A>B,C&D B>D C D":          "stage B, next: it is never asked, because whoever starts B says what follows it",
		"A>B+C B>D C>D D":          "stage B, next: it is never asked",
		"A>B,C&D B*>E C D>B E":     "", // B is asked where D leads to it
		"A>B,C&D B C D E>A":        "stage E: no run comes here from A",
		"A>B+B B":                  "B is there twice",
		"A>B,A&A B":                "which is one of the stages it waits for",
		"A>" + numbered(17) + " B": "17 choices in next, at most 32 and 16",
	} {
		err := Check(shape(text), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func numbered(n int) string { return strings.TrimSuffix(strings.Repeat("B;", n), ";") }

// TestEarlier shows which results a stage can read: those of the stages before it,
// not of its siblings.
func TestEarlier(t *testing.T) {
	for _, c := range []struct{ text, stage, want string }{
		{"A>B,C&D B C D", "D", "A B C"},
		{"A>B,C&D B C D", "B", "A"},
		{"A>B+C B C>D D", "C", "A B"},
		{"A>B,C&D B C D*>A", "B", "A B C D"},
		{"A>B;C B C>D D", "D", "A C"},
		{"A", "A", ""},
	} {
		d := shape(c.text)
		var got []string
		for i, can := range flowOf(d).earlier()[d.index(c.stage)] {
			if can {
				got = append(got, d.Stages[i].ID)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s, before %s: %v, want %s", c.text, c.stage, got, c.want)
		}
	}
}

func TestVisit(t *testing.T) {
	s := Stage{ID: "A", VisitCap: 2}
	if s.Visit(1) != nil || (Stage{ID: "A"}).Visit(1000) != nil {
		t.Error("a visit below the cap is refused")
	}
	if err := s.Visit(2); err == nil || err.Error() != "stage A has run 2 times, which is its visitCap" {
		t.Error(err)
	}
}

func TestAllows(t *testing.T) {
	s := Stage{AllowedTools: []string{"Read"}, CompletionTool: "submit"}
	if !s.Allows("Read") || !s.Allows("submit") || s.Allows("Edit") || s.Allows("all") {
		t.Error("the envelope of a list is wrong")
	}
	if (Stage{AllowedTools: []string{}}).Allows("Read") || !(Stage{AllowedTools: []string{AllTools}}).Allows("Edit") {
		t.Error("the envelope of none or all is wrong")
	}
}

func TestGraph(t *testing.T) {
	d := shape("A>B,C&D;D B C D*>A;")
	d.Stages[0].Name, d.Stages[0].AllowedTools = `say "x" | #1`, []string{"Read", "Edit"}
	want := `flowchart TD
  start_([start])
  s_A["say #quot;x#quot; #124; #35;1<br/>1 turns, tools: Read, Edit"]
  s_B["B<br/>1 turns, tools: none"]
  s_C["C<br/>1 turns, tools: none"]
  s_D["D<br/>1 turns, tools: none"]
  done_([done])
  start_ --> s_A
  s_A ==>|"result.visit == 0"| s_B
  s_B ==> s_D
  s_A ==>|"result.visit == 0"| s_C
  s_C ==> s_D
  s_A -->|else| s_D
  s_D -->|"result.visit == 0"| s_A
  s_D -->|else| done_
`
	if got := Graph(d); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestClosest(t *testing.T) {
	known := []string{"allowedTools", "turnCap", "id"}
	got := []string{closest("allowdTools", known), closest("turncap", known), closest("xyz", known), closest("ix", known), closest(strings.Repeat("x", 99), known)}
	if !slices.Equal(got, []string{"allowedTools", "turnCap", "", "id", ""}) {
		t.Error(got)
	}
}
