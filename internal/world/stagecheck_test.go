package world

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/workflow"
)

// The check of runs walks every order in which three stages side by side and
// their join can go on, with the code that runs in production. Stage A can go
// wrong in every phase, B makes a call that is not among its tools, C one that
// cannot be repeated. A person may cancel and pause, and the process may die.
type stageScenario struct {
	name     string
	parallel int
	attempts string // of A
	crashes  int
	people   bool
	brave    bool // C goes wrong as well
}

var (
	stageScenarios = []stageScenario{
		{name: "one at a time", parallel: 1, attempts: "2", crashes: 1, people: true, brave: true},
		{name: "two at a time", parallel: 2, attempts: "1", crashes: 1},
		{name: "two at a time, people", parallel: 2, attempts: "1", people: true},
		{name: "all at once", parallel: 3, attempts: "2"},
	}
	deepStageScenarios = []stageScenario{
		{name: "one at a time, deep", parallel: 1, attempts: "2", crashes: 2, people: true, brave: true},
		{name: "two at a time, deep", parallel: 2, attempts: "2", crashes: 1, people: true},
		{name: "all at once, deep", parallel: 3, attempts: "1", crashes: 1},
		{name: "all at once, people", parallel: 3, attempts: "1", people: true},
		{name: "all at once, brave", parallel: 3, attempts: "1", brave: true},
	}
)

type stagePlace struct {
	w    *World
	keys map[Path]string
	env  stageEnv
}

type stageSearch struct {
	stageScenario
	t        *testing.T
	seed     maphash.Seed
	seen     map[uint64]int32
	places   []stagePlace
	parents  []int32
	actions  []string
	next     [][]int32
	outcomes map[string]int
}

// TestStageCheck shows, in whatever order things go right and wrong: the join
// begins only after all siblings ended well; each stage that begins ends once; no
// attempt has more model requests than its cap; after a run nothing of it is left;
// and every run comes to an end.
func TestStageCheck(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // many short-lived worlds
	chosen := stageScenarios
	switch {
	case os.Getenv("STAVE_MODELCHECK") == "deep":
		chosen = slices.Concat(stageScenarios, deepStageScenarios)
	case raceDetector:
		chosen = chosen[:1]
	}
	t.Run("scenarios", func(t *testing.T) {
		for _, sc := range chosen {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				s := &stageSearch{t: t, stageScenario: sc, seed: maphash.MakeSeed(), seen: map[uint64]int32{}, outcomes: map[string]int{}}
				s.run()
				s.mustEnd()
				edges := 0
				for _, n := range s.next {
					edges += len(n)
				}
				t.Logf("%d states, %d transitions; %v", len(s.places), edges, s.outcomes)
				if s.outcomes["completed"] == 0 || s.outcomes["failed"] == 0 || (s.outcomes["cancelled"] == 0) == sc.people {
					t.Errorf("the search did not get where it should: %v", s.outcomes)
				}
			})
		}
	})
}

func (s *stageSearch) run() {
	start := newTape()
	create := session.Created{ConversationID: testLog, RootAgentID: "agt_1", Config: session.Config{Mode: "ask", MaxAttempts: 1}}
	start.must(s.t, SessionPath, session.Create{Created: create})
	start.must(s.t, RootPath, agent.BecomeReady{})
	begin := workflow.Started{RunID: "r", Name: "n", Hash: "h", Definition: []byte("{}"), ParentID: "agt_1", Parallel: s.parallel}
	start.must(s.t, RunPath("r"), workflow.Start{Started: begin, Stages: briefs("P:1:1")})
	first := stagePlace{w: start.World, keys: map[Path]string{}, env: stageEnv{begun: [5]uint8{1}}}
	for p := range first.w.live {
		first.keys[p] = (&search{}).nodeKey(first.w.live[p])
	}
	s.visit(first, -1, "start")
	for n := 0; n < len(s.places) && !s.t.Failed(); n++ {
		s.expand(int32(n))
		s.places[n] = stagePlace{} // only what is still to be gone on from is kept
	}
}

// visit numbers a place and checks it, unless it is known.
func (s *stageSearch) visit(p stagePlace, from int32, action string) {
	var b strings.Builder
	for _, path := range p.w.sorted() {
		b.WriteString(string(path) + p.keys[path])
	}
	fmt.Fprintf(&b, "%t%v", p.w.progress, p.env)
	key := maphash.String(s.seed, b.String())
	n, known := s.seen[key]
	if !known {
		n = int32(len(s.places))
		s.seen[key] = n
		s.places, s.parents = append(s.places, p), append(s.parents, from)
		s.actions, s.next = append(s.actions, action), append(s.next, nil)
		s.check(p, n)
	}
	if from >= 0 {
		s.next[from] = append(s.next[from], n)
	}
}

// check holds what is true of every place.
func (s *stageSearch) check(p stagePlace, n int32) {
	if len(p.w.Runs()) > 0 {
		if p.env.failed || p.env.cancelled {
			s.fail(n, errors.New("something failed or was cancelled, and the run is still there"))
		}
		if len(p.w.Jobs())+len(p.w.Questions()) == 0 && p.w.State(SessionPath) == "active" {
			s.fail(n, errors.New("the run is stuck"))
		}
		return
	}
	s.outcomes[p.env.outcome]++
	for _, name := range []string{"stage", "turn", "tool"} {
		if left := p.w.paths(name, ""); len(left) > 0 {
			s.fail(n, fmt.Errorf("the run is over and %s is still there", left[0]))
		}
	}
	if left := p.w.paths("agent", ""); len(left) != 1 {
		s.fail(n, fmt.Errorf("the run is over and there are %v", left))
	}
	if p.env.begun != p.env.ended {
		s.fail(n, fmt.Errorf("begun %v, ended %v", p.env.begun, p.env.ended))
	}
}

// mustEnd holds that there is no way round in circles, so that every way leads to
// a place nothing follows, which is one after the run.
func (s *stageSearch) mustEnd() {
	waits := make([]int, len(s.next))
	for _, list := range s.next {
		for _, n := range list {
			waits[n]++
		}
	}
	queue, done := []int32{0}, 0
	for ; len(queue) > 0; done++ {
		n := queue[0]
		queue = queue[1:]
		for _, to := range s.next[n] {
			if waits[to]--; waits[to] == 0 {
				queue = append(queue, to)
			}
		}
	}
	if done != len(s.next) && !s.t.Failed() {
		n := slices.IndexFunc(waits, func(w int) bool { return w > 0 })
		s.fail(int32(n), errors.New("a run can go on for ever"))
	}
}

// expand takes everything that can happen next.
func (s *stageSearch) expand(n int32) {
	p := s.places[n]
	if len(p.w.Runs()) == 0 {
		return
	}
	for _, j := range p.w.Jobs() {
		for _, c := range s.reports(p.w, j) {
			s.step(n, p.env, Message{Path: j.Path, Command: c, By: engineName, Job: j.ID})
		}
	}
	for _, q := range p.w.Questions() {
		answers := []machine.Command{tool.Approve{}, tool.Deny{}}
		if q.Kind == "what_happened" {
			answers = []machine.Command{tool.NotHappened{}}
		}
		for _, c := range answers {
			s.step(n, p.env, Message{Path: q.Path, Command: c, By: "user:ann"})
		}
	}
	s.orders(n, p)
	if e := p.env; e.crashes < s.crashes && len(p.w.Jobs()) > 0 {
		e.crashes++
		s.crash(n, p, e, false)
		s.crash(n, p, e, true)
	}
}

// step takes a message from a place.
func (s *stageSearch) step(from int32, e stageEnv, m Message) {
	p := s.places[from]
	name := fmt.Sprintf("%s %T", short(string(m.Path)), m.Command)
	p.env = e
	next, err := s.take(p, m)
	if err != nil {
		s.fail(from, fmt.Errorf("%s: %w", name, err))
		return
	}
	s.visit(next, from, name)
}

func (s *stageSearch) take(p stagePlace, m Message) (stagePlace, error) {
	c, err := p.w.Step(m)
	if err != nil {
		return p, err
	}
	next := stagePlace{w: p.w.copy(), keys: maps.Clone(p.keys), env: p.env}
	for _, r := range c.Runes {
		if err := next.env.observe(r); err != nil {
			return p, err
		}
	}
	next.w.Commit(c)
	for path := range c.next.gone {
		delete(next.keys, path)
	}
	for path, n := range c.next.live {
		next.keys[path] = (&search{}).nodeKey(n)
	}
	return next, nil
}

// crash is a death of the process and its restart, in one go.
func (s *stageSearch) crash(from int32, p stagePlace, e stageEnv, headless bool) {
	p.env = e
	losses := p.w.Losses()
	m, _ := p.w.Recovery(headless)
	for _, m := range append([]Message{m}, losses...) {
		next, err := s.take(p, m)
		if err != nil && !errors.Is(err, ErrStale) {
			s.fail(from, fmt.Errorf("crash, %T: %w", m.Command, err))
			return
		}
		if err == nil {
			p = next
		}
	}
	s.visit(p, from, fmt.Sprintf("crash (headless: %t)", headless))
}

// fail shows the way to a place.
func (s *stageSearch) fail(n int32, err error) {
	s.t.Helper()
	var way []string
	for ; n >= 0; n = s.parents[n] {
		way = append(way, s.actions[n])
	}
	slices.Reverse(way)
	s.t.Errorf("%v\nafter %s", err, strings.Join(way, "\n      "))
}
