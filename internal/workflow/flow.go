package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// done is where a run that is over stands.
const done = -1

// edge is one way a run can go from a stage to the next.
type edge struct {
	from, to int
	choice   Choice // the choice it comes from
	joins    bool   // it leaves a parallel or an earlier sequential stage
}

// flow is every way a run can go.
type flow struct {
	edges   []edge
	reached []bool // can a run come to the stage
	asked   []bool // and is its next asked there
}

// flowOf follows the choices from the first stage. What names no stage is left out.
func flowOf(d Definition) flow {
	f := flow{reached: make([]bool, len(d.Stages)), asked: make([]bool, len(d.Stages))}
	var waiting []int
	ask := func(i int) {
		f.reached[i] = true
		if !f.asked[i] {
			f.asked[i] = true
			waiting = append(waiting, i)
		}
	}
	if first := d.index(d.First); first >= 0 {
		ask(first)
	}
	for len(waiting) > 0 {
		from := waiting[0]
		waiting = waiting[1:]
		if len(d.Stages[from].Next) == 0 {
			f.add(edge{from: from, to: done})
		}
		for _, c := range d.Stages[from].Next {
			f.follow(d, from, c, ask)
		}
	}
	return f
}

// follow adds the edges of one choice and asks those whose next counts.
func (f *flow) follow(d Definition, from int, c Choice, ask func(int)) {
	var to []int
	for _, id := range c.Stages {
		if i := d.index(id); i >= 0 {
			to = append(to, i)
		}
	}
	join := d.index(c.Join)
	switch {
	case len(to) == 0:
		f.add(edge{from: from, to: done, choice: c})
	case c.Execution == Parallel:
		for _, i := range to {
			f.reached[i] = true
			f.add(edge{from: from, to: i, choice: c})
			f.add(edge{from: i, to: join, choice: c, joins: true}) // without a join the run is over
		}
		if join >= 0 {
			ask(join)
		}
	default:
		f.add(edge{from: from, to: to[0], choice: c})
		for n := 1; n < len(to); n++ {
			f.reached[to[n-1]] = true
			f.add(edge{from: to[n-1], to: to[n], choice: c, joins: true})
		}
		ask(to[len(to)-1])
	}
}

func (f *flow) add(e edge) {
	same := func(o edge) bool {
		return o.from == e.from && o.to == e.to && o.joins == e.joins && (e.joins || o.choice.When == e.choice.When)
	}
	if !slices.ContainsFunc(f.edges, same) {
		f.edges = append(f.edges, e)
	}
}

// before lists the stages that can have run when a run enters a stage.
func (f flow) before(stage int) []int {
	var all []int
	waiting := []int{stage}
	for len(waiting) > 0 {
		to := waiting[0]
		waiting = waiting[1:]
		for _, e := range f.edges {
			if e.to == to && !slices.Contains(all, e.from) {
				all = append(all, e.from)
				waiting = append(waiting, e.from)
			}
		}
	}
	slices.Sort(all)
	return all
}

// loop finds a circle of stages none of which has a visitCap.
func (f flow) loop(d Definition) []string {
	const untouched, open, closed = 0, 1, 2
	state := make([]int, len(d.Stages))
	var trail []int
	var visit func(i int) []string
	visit = func(i int) []string {
		if i == done || d.Stages[i].VisitCap > 0 || state[i] == closed {
			return nil
		}
		if state[i] == open {
			var ids []string
			for _, s := range trail[slices.Index(trail, i):] {
				ids = append(ids, d.Stages[s].ID)
			}
			return append(ids, d.Stages[i].ID)
		}
		state[i], trail = open, append(trail, i)
		for _, e := range f.edges {
			if e.from == i {
				if ids := visit(e.to); ids != nil {
					return ids
				}
			}
		}
		state[i], trail = closed, trail[:len(trail)-1]
		return nil
	}
	for i := range d.Stages {
		if ids := visit(i); ids != nil {
			return ids
		}
	}
	return nil
}

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
		if e.choice.When != "" && !e.joins {
			label = fmt.Sprintf("|\"%s\"|", escape(e.choice.When))
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
