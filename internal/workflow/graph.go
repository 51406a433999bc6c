package workflow

import (
	"fmt"
	"strings"
)

// Arrow is one way a run can go.
type Arrow struct {
	From     string `json:"from"`
	To       string `json:"to,omitzero"`       // empty where the run ends
	When     string `json:"when,omitzero"`     // the rule that leads here
	Else     bool   `json:"else,omitzero"`     // no rule before it held
	Parallel bool   `json:"parallel,omitzero"` // side by side with others
	Joins    bool   `json:"joins,omitzero"`    // whoever started From says so, not its next
}

// Arrows are the ways a run can go, from the first stage on.
func Arrows(d Definition) []Arrow {
	all := []Arrow{}
	for _, e := range flowOf(d).edges {
		a := Arrow{From: d.Stages[e.from].ID, Joins: e.joins}
		if e.to != done {
			a.To = d.Stages[e.to].ID
		}
		a.Parallel = e.choice.Execution == Parallel && (!e.joins || e.choice.Join != "")
		if !e.joins {
			a.When = e.choice.When
			a.Else = a.When == "" && len(d.Stages[e.from].Next) > 1
		}
		all = append(all, a)
	}
	return all
}

// Graph draws a definition as a Mermaid flowchart.
func Graph(d Definition) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	name := func(id string) string {
		if id == "" {
			return "done_"
		}
		return "s_" + id // a prefix, because end and graph are words of Mermaid
	}
	b.WriteString("  start_([start])\n")
	for _, s := range d.Stages {
		tools := list(s.AllowedTools)
		fmt.Fprintf(&b, "  s_%s[\"%s<br/>%d turns, tools: %s\"]\n", s.ID, escape(s.Name), s.TurnCap, escape(tools))
	}
	b.WriteString("  done_([done])\n")
	if d.index(d.First) >= 0 {
		fmt.Fprintf(&b, "  start_ --> %s\n", name(d.First))
	}
	for _, a := range Arrows(d) {
		arrow, label := "-->", ""
		if a.Parallel {
			arrow = "==>"
		}
		switch {
		case a.When != "":
			label = fmt.Sprintf("|\"%s\"|", escape(a.When))
		case a.Else:
			label = "|else|"
		}
		fmt.Fprintf(&b, "  %s %s%s %s\n", name(a.From), arrow, label, name(a.To))
	}
	return b.String()
}

// escape keeps a text inside a Mermaid label.
func escape(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "|", "#124;", "`", "#96;").Replace(text)
}
