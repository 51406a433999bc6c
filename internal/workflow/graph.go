package workflow

import (
	"fmt"
	"strings"
)

// Graph draws a definition as a Mermaid flowchart.
func Graph(d Definition) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	name := func(i int) string {
		if i == done {
			return "done_"
		}
		return "s_" + d.Stages[i].ID // a prefix, because end and graph are words of Mermaid
	}
	b.WriteString("  start_([start])\n")
	for _, s := range d.Stages {
		tools := list(s.AllowedTools)
		fmt.Fprintf(&b, "  s_%s[\"%s<br/>%d turns, tools: %s\"]\n", s.ID, escape(s.Name), s.TurnCap, escape(tools))
	}
	b.WriteString("  done_([done])\n")
	if first := d.index(d.First); first >= 0 {
		fmt.Fprintf(&b, "  start_ --> %s\n", name(first))
	}
	for _, e := range flowOf(d).edges {
		arrow := "-->"
		if e.choice.Execution == Parallel && (!e.joins || e.choice.Join != "") {
			arrow = "==>"
		}
		label := ""
		switch {
		case e.joins:
		case e.choice.When != "":
			label = fmt.Sprintf("|\"%s\"|", escape(e.choice.When))
		case len(d.Stages[e.from].Next) > 1:
			label = "|else|"
		}
		fmt.Fprintf(&b, "  %s %s%s %s\n", name(e.from), arrow, label, name(e.to))
	}
	return b.String()
}

// escape keeps a text inside a Mermaid label.
func escape(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "|", "#124;", "`", "#96;").Replace(text)
}
