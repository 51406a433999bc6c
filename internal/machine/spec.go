package machine

import (
	"fmt"
	"strings"
)

// Spec is a table as data, for JSON, documents and live diagrams.
type Spec struct {
	Name        string       `json:"name"`
	States      []StateSpec  `json:"states"`
	Transitions []Transition `json:"transitions"`
}

// StateSpec is one box.
type StateSpec struct {
	Name  State  `json:"name"`
	Mode  Mode   `json:"mode"`
	Needs string `json:"needs,omitempty"` // the job or the question
	Note  string `json:"note,omitempty"`
}

// Transition is one arrow; an arrow that records several runes is listed once
// for each.
type Transition struct {
	From    State  `json:"from"`
	Command string `json:"command"`
	To      State  `json:"to"`
	Rune    string `json:"rune"`
	Person  bool   `json:"person"`
	Past    bool   `json:"past,omitempty"`
}

// Spec returns the table as data.
func (m *Machine[D]) Spec() Spec {
	s := Spec{Name: m.Name}
	for _, b := range m.Boxes {
		if b.State != None {
			st := StateSpec{Name: b.State, Mode: b.Mode, Note: b.Note}
			if b.Needs != nil {
				st.Needs = snake(b.Needs.Name())
			}
			s.States = append(s.States, st)
		}
		for _, r := range b.Rows {
			from := b.State
			for _, e := range r.Events {
				s.Transitions = append(s.Transitions, Transition{from, snake(r.Command.Name()), r.To, kindOf(e), r.Person, r.Past})
				from = r.To
			}
		}
	}
	if m.Initial != None {
		s.Transitions = append([]Transition{{From: None, To: m.Initial}}, s.Transitions...)
	}
	return s
}

// Mermaid draws the table as a state diagram.
func (s Spec) Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, t := range s.Transitions {
		from := string(t.From)
		if t.From == None {
			from = "[*]"
		}
		switch {
		case t.Command == "":
			fmt.Fprintf(&b, "    %s --> %s\n", from, t.To)
		case !t.Past:
			who := ""
			if t.Person {
				who = "👤 "
			}
			fmt.Fprintf(&b, "    %s --> %s : %s%s / %s\n", from, t.To, who, t.Command, t.Rune)
		}
	}
	for _, st := range s.States {
		if st.Mode == ModeEnd {
			fmt.Fprintf(&b, "    %s --> [*]\n", st.Name)
		}
	}
	for _, st := range s.States {
		if st.Note != "" {
			// A note on one line may hold neither colon nor semicolon.
			fmt.Fprintf(&b, "    note right of %s\n        %s: %s\n    end note\n", st.Name, st.Mode, st.Note)
		}
	}
	return b.String()
}
