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
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/runelog"
)

// The model check walks every order in which one turn with three calls, people,
// and a dying process can go on, with the code that runs in production.
//
// Bounds: one user message, the calls of a scenario in the first answer, one
// each of steer, interrupt, pause, close and stop, and so many crashes.
const (
	crashesRaced = 0 // the race detector makes it ten times slower and finds nothing new here
	crashesDeep  = 3 // with STAVE_MODELCHECK=deep
	maxRuns      = 3 // of one call, by order of a person
)

// scenarios are the answers of the model: each mixes safeties and places.
var scenarios = []struct {
	calls   string
	crashes int // unless told otherwise
}{
	{"a:read b:put c:post", 1},   // side by side: by far the most orders
	{"a:read b:post c:bash", 2},  // two groups
	{"a:stat b:write c:bash", 2}, // one after the other
}

// place is one state of the search: a world, and what its surroundings have done.
type place struct {
	w    *World
	keys map[Path]string // of every node, kept to hash only what moved
	env  env
}

// env is everything outside the world that the future depends on.
type env struct {
	steered, interrupted, paused, closed, stopped bool
	crashes                                       int
	down                                          bool // dead, or not yet recovered
	losses                                        []Path
	results                                       [3]uint8 // of each call
	ends                                          uint8    // terminal runes of the present turn
}

// search is a breadth-first walk.
type search struct {
	t        testing.TB
	calls    []turn.Proposal
	crashes  int
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
type tracked struct{ unknown, restarted, headless, closed int }

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
	searches, begin := make([]*search, len(scenarios)), time.Now()
	t.Run("scenarios", func(t *testing.T) {
		for i, sc := range scenarios {
			switch {
			case deep:
				sc.crashes = crashesDeep
			case raceDetector:
				sc.crashes = crashesRaced
			}
			t.Run(sc.calls, func(t *testing.T) {
				t.Parallel()
				searches[i] = walk(t, sc.calls, sc.crashes)
			})
		}
	})
	states, edges := 0, 0
	for _, s := range searches {
		states, edges = states+len(s.parents), edges+s.edges
	}
	t.Logf("together %d states, %d transitions, %v", states, edges, time.Since(begin).Round(time.Millisecond))
}

func walk(t *testing.T, calls string, crashes int) *search {
	s := &search{t: t, crashes: crashes, seen: map[[2]uint64]int32{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for call := range strings.FieldsSeq(calls) {
		s.calls = append(s.calls, proposal(call))
	}
	s.run()
	s.everyPlaceCanRest()
	t.Logf("≤ %d crashes: %d states, %d transitions, %d rests; %+v", crashes, len(s.parents), s.edges, len(s.rests), s.tracked)
	if crashes > 0 && (s.tracked.unknown == 0 || s.tracked.restarted == 0 || s.tracked.headless == 0 || s.tracked.closed == 0) {
		t.Errorf("the search did not get where it should: %+v", s.tracked)
	}
	return s
}

func (s *search) run() {
	start := newTape()
	create := session.Created{ConversationID: testLog, RootAgentID: "agt_1", Config: session.Config{Mode: "ask", MaxAttempts: 2, MaxRequests: 3}}
	start.must(s.t, SessionPath, session.Create{Created: create})
	start.must(s.t, RootPath, done(start.Jobs()[0].Work))
	start.must(s.t, SessionPath, session.Say{Text: "go"})
	first := place{w: start.World, keys: map[Path]string{}}
	for p := range first.w.live {
		first.keys[p] = nodeKey(first.w.live[p])
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

// check holds that a place where nothing is due and nothing is asked is a rest.
func (s *search) check(p place, n int32) {
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
func nodeKey(n node) string {
	d := n.Data()
	switch known := d.(type) {
	case session.Data:
		known.Created = session.Created{Headless: known.Headless}
		known.Stats = session.Stats{Turns: known.Stats.Turns}
		d = known
	case turn.Data:
		known.Finished, known.LastText, known.StopText = nil, "", ""
		d = known
	case tool.Data:
		known.Call, known.Reason, known.ApprovedBy, known.Known = tool.Call{}, "", "", ""
		d = known
	}
	b, err := json.Marshal(d, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return string(n.State()) + string(b)
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
			next.keys[path] = nodeKey(moved)
		} else {
			next.keys[path] = p.keys[path]
		}
	}
	s.visit(next, p.n, name)
}

// observe holds, rune by rune, what may never happen.
func (e *env) observe(r runelog.Rune, s *search) error {
	byPerson := strings.HasPrefix(r.By, "user:")
	switch r.Kind {
	case "tool.result":
		i := Path(r.Path).Name()[0] - 'a'
		if e.results[i]++; e.results[i] > 1 {
			return fmt.Errorf("%s has two results", r.Path)
		}
	case "tool.restarted":
		s.tracked.restarted++
		call := s.calls[Path(r.Path).Name()[0]-'a']
		if call.Safety == "side_effect" && !byPerson {
			return fmt.Errorf("%s ran again without a person", r.Path)
		}
	case "tool.approved":
		call := s.calls[Path(r.Path).Name()[0]-'a']
		if call.Safety != "read_only" && !byPerson {
			return fmt.Errorf("%s ran without a person", r.Path)
		}
	case "tool.outcome_unknown":
		s.tracked.unknown++
	case "turn.started":
		e.ends = 0
	case "turn.completed", "turn.interrupted", "turn.error":
		if e.ends++; e.ends > 1 {
			return fmt.Errorf("%s ended twice", r.Path)
		}
	case "turn.finalized":
		e.results = [3]uint8{}
	case "session.closed":
		s.tracked.closed++
	}
	return nil
}

// expand takes everything that can happen next.
func (s *search) expand(p numbered) {
	if p.env.crashes < s.crashes {
		e := p.env
		e.crashes, e.down, e.losses = e.crashes+1, true, nil
		s.visit(place{p.w, p.keys, e}, p.n, "crash")
	}
	if p.env.down {
		s.recover(p)
		return
	}
	for _, j := range p.w.Jobs() {
		for _, c := range s.reports(p.w, j) {
			s.step(p, p.env, Message{Path: j.Path, Command: c, By: engineName, Job: j.ID})
		}
	}
	for _, q := range p.w.Questions() {
		for _, c := range s.answers(p.w, q) {
			by := "user:ann"
			if c == (machine.Late{}) {
				by = engineName
			}
			s.step(p, p.env, Message{Path: q.Path, Command: c, By: by})
		}
	}
	s.people(p)
}

// recover is the restart, step by step: a crash may come between any two.
func (s *search) recover(p numbered) {
	e := p.env
	if e.losses == nil {
		e.losses = []Path{}
		for _, m := range p.w.Losses() {
			e.losses = append(e.losses, m.Path+Path(m.Job[strings.IndexByte(m.Job, '#'):]))
		}
		for _, headless := range []bool{false, true} {
			m, ok := p.w.Recovery(headless)
			if !ok {
				e.down = len(e.losses) > 0
				s.visit(place{p.w, p.keys, e}, p.n, "restart")
				continue
			}
			if headless {
				s.tracked.headless++
			}
			s.step(p, e.next(), m)
		}
		return
	}
	id := e.losses[0]
	e.losses = e.losses[1:]
	path, _, _ := strings.Cut(string(id), "#")
	s.step(p, e.next(), Message{Path: Path(path), Command: machine.Lost{}, By: engineName, Job: string(id)})
}

// next is up again once no loss is left to be told.
func (e env) next() env {
	if e.down = len(e.losses) > 0; !e.down {
		e.losses = nil
	}
	return e
}

// reports are the ways a job can end.
func (s *search) reports(w *World, j Job) []machine.Command {
	switch work := j.Work.(type) {
	case turn.CallModel:
		d := data[turn.Data](w, j.Path)
		list := []machine.Command{
			turn.Finish{Output: []model.Part{{Text: "x"}}, Stop: model.StopEnd},
			turn.Fail{Type: "overloaded", Retryable: true},
		}
		if d.Said == nil {
			list = append(list, turn.Delta{Text: "x", ItemDone: true})
		}
		if d.Number == 1 && work.Request == 1 {
			list = append(list, turn.ReceiveToolCalls{Calls: s.calls})
		}
		return list
	case tool.RunTool:
		list := []machine.Command{tool.Succeed{}, machine.Late{}}
		if work.Call.CallID == "a" {
			list = append(list, tool.Crash{Error: "broken"})
		}
		if work.Call.Safety == "side_effect" {
			list = append(list, tool.Doubt{Known: "nothing"})
		}
		return list
	}
	return []machine.Command{done(j.Work)}
}

// answers are what a person can say, or not say.
func (s *search) answers(w *World, q Question) []machine.Command {
	if q.Kind == "may_run" {
		return []machine.Command{tool.Approve{}, tool.Deny{}, machine.Late{}}
	}
	list := []machine.Command{tool.Happened{}, tool.NotHappened{}, machine.Late{}}
	if data[tool.Data](w, q.Path).Attempt < maxRuns {
		list = append(list, tool.Retry{})
	}
	return list
}

// people are the orders that can come at any time.
func (s *search) people(p numbered) {
	tell := func(path Path, c machine.Command, once func(*env) *bool) {
		e := p.env
		if once != nil {
			if *once(&e) {
				return
			}
			*once(&e) = true
		}
		s.step(p, e, Message{Path: path, Command: c, By: "user:ann"})
	}
	state := p.w.State(SessionPath)
	for _, turnPath := range p.w.paths("turn", "") {
		tell(turnPath, turn.Interrupt{}, func(e *env) *bool { return &e.interrupted })
	}
	switch state {
	case "active":
		tell(SessionPath, session.Say{Text: "no", Mode: session.Steer}, func(e *env) *bool { return &e.steered })
		tell(SessionPath, session.Pause{}, func(e *env) *bool { return &e.paused })
		tell(SessionPath, session.Close{}, func(e *env) *bool { return &e.closed })
	case "paused":
		tell(SessionPath, session.Resume{}, nil)
	case "suspended":
		tell(SessionPath, session.Unsuspend{}, nil)
	}
	if state != "closed" {
		tell(SessionPath, session.Stop{}, func(e *env) *bool { return &e.stopped })
	}
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
