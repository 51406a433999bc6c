package world

import (
	"fmt"
	"strings"

	"stave/internal/machine"
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
