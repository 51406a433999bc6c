package workflow

import "slices"

// done is where a run that is over stands.
const done = -1

// edge is one way a run can go from a stage to the next.
type edge struct {
	from, to int
	choice   Choice // the choice it comes from
	joins    bool   // it leaves a parallel or an earlier sequential stage
}

// edgeKey is what makes two edges the same one.
type edgeKey struct {
	from, to int
	joins    bool
	when     string
}

// flow is every way a run can go.
type flow struct {
	edges   []edge
	known   map[edgeKey]bool
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
	key := edgeKey{e.from, e.to, e.joins, ""}
	if !e.joins {
		key.when = e.choice.When
	}
	if f.known == nil {
		f.known = map[edgeKey]bool{}
	}
	if !f.known[key] {
		f.known[key] = true
		f.edges = append(f.edges, e)
	}
}

// earlier tells for each stage which stages can have run when a run enters it.
func (f flow) earlier() [][]bool {
	n := len(f.reached)
	can := make([][]bool, n)
	for i := range can {
		can[i] = make([]bool, n)
	}
	for _, e := range f.edges {
		if e.to != done {
			can[e.to][e.from] = true
		}
	}
	for via := range n {
		for to := range n {
			if can[to][via] {
				for from := range n {
					can[to][from] = can[to][from] || can[via][from]
				}
			}
		}
	}
	return can
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
