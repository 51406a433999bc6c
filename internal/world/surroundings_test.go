package world

import (
	"fmt"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/runelog"
)

// env is everything outside the world that the future depends on.
type env struct {
	steered, interrupted, paused, closed, stopped bool
	crashes                                       int
	down                                          bool // dead, or not yet recovered
	losses                                        []Path
	results                                       [3]uint8 // of each call
	ends                                          uint8    // terminal runes of the present turn
	spawned, topped                               bool
	woken                                         int // from a suspension
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
	case "turn.retried":
		if !strings.Contains(string(r.Payload), `"free":true`) && s.limited() {
			s.tracked.unsure++
		}
	case "session.suspended":
		if strings.Contains(string(r.Payload), `"reason":"budget"`) {
			s.tracked.short++
		}
	case "agent.spawning":
		if Path(r.Path) != RootPath {
			s.tracked.spawned++
		}
	case "session.closed":
		s.tracked.closed++
	}
	return e.observeTurn(r)
}

func (e *env) observeTurn(r runelog.Rune) error {
	if Path(r.Path).parent() != RootPath {
		return nil
	}
	switch r.Kind {
	case "turn.started":
		e.ends = 0
	case "turn.completed", "turn.interrupted", "turn.error":
		if e.ends++; e.ends > 1 {
			return fmt.Errorf("%s ended twice", r.Path)
		}
	case "turn.finalized":
		e.results = [3]uint8{}
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
		s.spawn(p, j)
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

// disturbed says that somebody has given an order: beside an agent's agent, one
// has to be enough.
func (e env) disturbed() bool {
	return e.steered || e.interrupted || e.paused || e.closed || e.stopped
}

// next is up again once no loss is left to be told.
func (e env) next() env {
	if e.down = len(e.losses) > 0; !e.down {
		e.losses = nil
	}
	return e
}

// spawn lets the first call start an agent.
func (s *search) spawn(p numbered, j Job) {
	if run, ok := j.Work.(tool.RunTool); !ok || run.Call.Tool != "task" || p.env.spawned || p.w.State(SessionPath) == "closing" {
		return
	}
	e := p.env
	e.spawned = true
	s.step(p, e, Message{Path: ChildPath("a"), By: "agent:agt_1", Command: agent.Spawn{Spawning: agent.Spawning{
		AgentID: ChildID("a"), ParentID: "agt_1", Depth: 1, Budget: s.child, First: "help",
	}}})
}

// answering are the ways a model call can go where calls are limited.
func (s *search) answering(w *World, j Job) []machine.Command {
	if c := reserve(w, j); c != nil {
		return []machine.Command{c}
	}
	bill := turn.Bill{Usage: model.Usage{InputTokens: 10, OutputTokens: 5}}
	list := []machine.Command{
		turn.Finish{Output: []model.Part{{Text: "x"}}, Stop: model.StopEnd, Bill: bill},
		turn.Fail{Type: "stream", Retryable: AgentOf(j.Path) == RootPath},
	}
	if d := data[turn.Data](w, j.Path); d.Number == 1 && d.Requests == 1 && AgentOf(j.Path) == RootPath {
		list = append(list, turn.ReceiveToolCalls{Calls: s.calls, Bill: bill})
	}
	return list
}

// reports are the ways a job can end.
func (s *search) reports(w *World, j Job) []machine.Command {
	switch work := j.Work.(type) {
	case turn.CallModel:
		if s.limited() {
			return s.answering(w, j)
		}
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
	if q.Kind == "may_run" && w.Short(q.Path, model.Amount{ToolCalls: 1}) != "" {
		return []machine.Command{tool.Deny{}, machine.Late{}}
	}
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
			if *once(&e) || s.child != (model.Amount{}) && e.disturbed() {
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
		s.help(p)
	}
	if state != "closed" {
		tell(SessionPath, session.Stop{}, func(e *env) *bool { return &e.stopped })
	}
}

// help is what a person does for a suspended session: where something is limited
// it gets more, once, and is woken while that can be of use.
func (s *search) help(p numbered) {
	e, wake := p.env, Message{Path: SessionPath, Command: session.Unsuspend{}, By: "user:ann"}
	if !s.limited() {
		s.step(p, e, wake)
		return
	}
	if !e.topped {
		e.topped = true
		more := s.budget.Plus(model.Amount{Tokens: s.budget.Tokens / 2, ModelCalls: s.budget.ModelCalls / 2, ToolCalls: s.budget.ToolCalls})
		s.step(p, e, Message{Path: SessionPath, Command: session.SetBudget{Limit: more, Reconcile: true}, By: "user:ann"})
	} else if e.woken < 2 {
		e.woken++
		s.step(p, e, wake)
	}
}
