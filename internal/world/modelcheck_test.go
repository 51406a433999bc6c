package world

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
)

// The model check walks every order in which one turn with three calls, people,
// and a dying process can go on, with the code that runs in production.
//
// Bounds: one user message, the calls of a scenario in the first answer, one
// each of steer, interrupt, pause, close and stop, and so many crashes; where
// something is limited, one top-up; beside an agent's agent, one order in all.
const (
	crashesDeep = 3 // with STAVE_MODELCHECK=deep
	maxRuns     = 3 // of one call, by order of a person
)

// scenario is an answer of the model, and what there is to answer with.
type scenario struct {
	calls   string
	crashes int          // unless told otherwise
	budget  model.Amount // of the session; it is topped up once
	child   model.Amount // of the agent that the first call may start
}

// scenarios each mix safeties and places, or the ways to run out of something.
var scenarios = []scenario{
	{calls: "a:read b:put c:post", crashes: 1},  // side by side: by far the most orders
	{calls: "a:read b:post c:bash", crashes: 2}, // two groups
	{calls: "a:task", crashes: 1, budget: model.Amount{Tokens: 60, Agents: 1}, child: model.Amount{Tokens: 30}},
	{calls: "a:read b:post c:stat", crashes: 1, budget: model.Amount{ToolCalls: 2}}, // the last may have no room
	{calls: "a:stat b:write c:bash", crashes: 1},                                    // one after the other
}

// place is one state of the search: a world, and what its surroundings have done.
type place struct {
	w    *World
	keys map[Path]string // of every node, kept to hash only what moved
	env  env
}

// search is a breadth-first walk.
type search struct {
	scenario
	t        testing.TB
	calls    []turn.Proposal
	seen     map[[2]uint64]int32 // place → number
	parents  []int32
	actions  []string
	into     [][]int32 // edges backwards
	rests    []int32
	frontier []numbered
	seeds    [2]maphash.Seed
	edges    int
	tracked  tracked
}

// tracked counts what happened, so that a search that misses the point shows.
type tracked struct{ unknown, restarted, headless, closed, spawned, short, unsure int }

type numbered struct {
	place
	n int32
}

// TestModelCheck shows that nothing gets stuck, ends twice, runs twice or runs
// unasked, whatever happens in whatever order, and that there is a way to rest
// from everywhere.
func TestModelCheck(t *testing.T) {
	deep := os.Getenv("STAVE_MODELCHECK") == "deep"
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // millions of short-lived worlds
	chosen := scenarios
	if raceDetector { // it makes each step ten times slower
		chosen = scenarios[len(scenarios)-1:]
	}
	searches, begin := make([]*search, len(chosen)), time.Now()
	t.Run("scenarios", func(t *testing.T) {
		for i, sc := range chosen {
			if deep {
				sc.crashes = crashesDeep
			}
			t.Run(sc.calls, func(t *testing.T) {
				t.Parallel()
				searches[i] = walk(t, sc)
			})
		}
	})
	states, edges := 0, 0
	for _, s := range searches {
		if s == nil {
			continue // not asked for
		}
		states, edges = states+len(s.parents), edges+s.edges
	}
	t.Logf("together %d states, %d transitions, %v", states, edges, time.Since(begin).Round(time.Millisecond))
}

func walk(t *testing.T, sc scenario) *search {
	s := &search{t: t, scenario: sc, seen: map[[2]uint64]int32{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for call := range strings.FieldsSeq(sc.calls) {
		s.calls = append(s.calls, proposal(call))
	}
	s.run()
	s.everyPlaceCanRest()
	got := s.tracked
	t.Logf("≤ %d crashes: %d states, %d transitions, %d rests; %+v", sc.crashes, len(s.parents), s.edges, len(s.rests), got)
	missed := got.restarted == 0 || got.headless == 0 || got.closed == 0
	missed = missed || strings.Contains(sc.calls, "task") == (got.spawned == 0 || got.unsure == 0)
	missed = missed || s.limited() == (got.short == 0)
	missed = missed || strings.Contains(sc.calls, "bash") && got.unknown == 0
	if sc.crashes > 0 && missed {
		t.Errorf("the search did not get where it should: %+v", got)
	}
	return s
}

func (s *search) limited() bool { return s.budget != model.Amount{} }

func (s *search) run() {
	start := newTape()
	create := session.Created{ConversationID: testLog, RootAgentID: "agt_1", Config: session.Config{Mode: "ask", MaxAttempts: 2, MaxRequests: 3, Budget: s.budget}}
	start.must(s.t, SessionPath, session.Create{Created: create})
	start.must(s.t, RootPath, done(start.Jobs()[0].Work))
	start.must(s.t, SessionPath, session.Say{Text: "go"})
	first := place{w: start.World, keys: map[Path]string{}}
	for p := range first.w.live {
		first.keys[p] = s.nodeKey(first.w.live[p])
	}
	s.visit(first, -1, "start")
	for len(s.frontier) > 0 && !s.t.Failed() {
		now := s.frontier[0]
		s.frontier = s.frontier[1:]
		s.expand(now)
	}
}

// visit numbers a place and checks it, unless it is known.
func (s *search) visit(p place, from int32, action string) {
	key := s.hash(p)
	n, known := s.seen[key]
	if !known {
		n = int32(len(s.parents))
		s.seen[key] = n
		s.parents, s.actions, s.into = append(s.parents, from), append(s.actions, action), append(s.into, nil)
		s.frontier = append(s.frontier, numbered{p, n})
		s.check(p, n)
	}
	if from >= 0 {
		s.edges++
		s.into[n] = append(s.into[n], from)
	}
}

// check holds that no limit is passed, and that a place where nothing is due and
// nothing is asked is a rest.
func (s *search) check(p place, n int32) {
	for _, a := range p.w.Accounts() {
		if over := a.Spent.Plus(a.Held).Over(a.Limit); over != "" {
			s.fail(n, fmt.Errorf("%s uses more %s than it may: %+v", a.Path, over, a))
		}
	}
	if p.env.down || len(p.w.Jobs()) > 0 || len(p.w.Questions()) > 0 {
		return
	}
	s.rests = append(s.rests, n)
	if err := restful(p.w); err != nil {
		s.fail(n, err)
	}
}

func (s *search) hash(p place) (key [2]uint64) {
	var b strings.Builder
	for _, path := range p.w.sorted() {
		b.WriteString(string(path))
		b.WriteString(p.keys[path])
	}
	fmt.Fprintf(&b, "%t%v", p.w.progress, p.env)
	for i, seed := range s.seeds {
		key[i] = maphash.String(seed, b.String())
	}
	return key
}

// nodeKey is what Save keeps of a node, without when it came there and without
// what is only ever written down: no decision looks at it again.
func (s *search) nodeKey(n node) string {
	d := n.Data()
	switch known := d.(type) {
	case session.Data:
		known.Created = session.Created{Headless: known.Headless}
		known.Stats = session.Stats{Turns: known.Stats.Turns}
		d = known
	case agent.Data:
		known.Answer = ""
		d = known
	case turn.Data:
		known.Finished, known.LastText, known.StopText = nil, "", ""
		known.Usage, known.MicroUSD = model.Usage{}, 0
		d = known
	case tool.Data:
		known.Call, known.Reason, known.Known = tool.Call{}, "", ""
		d = known
	}
	b, err := json.Marshal(d, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	if !s.limited() {
		return string(n.State()) + string(b)
	}
	a := n.account()
	a.Since, a.Spent.WallMs = 0, 0
	return fmt.Sprint(string(n.State()), string(b), a)
}

// step takes a message from a place.
func (s *search) step(p numbered, e env, m Message) {
	name := fmt.Sprintf("%s %T", short(string(m.Path)), m.Command)
	c, err := p.w.Step(m)
	if errors.Is(err, ErrStale) && m.Command == (machine.Lost{}) {
		s.visit(place{p.w, p.keys, e}, p.n, name+" (stale)")
		return
	}
	if err != nil {
		s.fail(p.n, fmt.Errorf("%s: %w", name, err))
		return
	}
	for _, r := range c.Runes {
		if err := e.observe(r, s); err != nil {
			s.fail(p.n, fmt.Errorf("%s: %w", name, err))
			return
		}
	}
	next := place{w: p.w.copy(), keys: make(map[Path]string, len(p.keys)+3), env: e}
	next.w.Commit(c)
	for path := range next.w.live {
		if moved, ok := c.next.live[path]; ok {
			next.keys[path] = s.nodeKey(moved)
		} else {
			next.keys[path] = p.keys[path]
		}
	}
	s.visit(next, p.n, name)
}

// everyPlaceCanRest holds that no place is a trap: from each there is a way to
// a rest.
func (s *search) everyPlaceCanRest() {
	can := make([]bool, len(s.parents))
	queue := slices.Clone(s.rests)
	for _, n := range queue {
		can[n] = true
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, from := range s.into[n] {
			if !can[from] {
				can[from] = true
				queue = append(queue, from)
			}
		}
	}
	if n := slices.Index(can, false); n >= 0 {
		s.fail(int32(n), errors.New("no way leads from here to rest"))
	}
}

// fail shows the way to a place.
func (s *search) fail(n int32, err error) {
	s.t.Helper()
	var way []string
	for ; n >= 0; n = s.parents[n] {
		way = append(way, s.actions[n])
	}
	slices.Reverse(way)
	s.t.Errorf("%v\nafter %s", err, strings.Join(way, "\n      "))
}
