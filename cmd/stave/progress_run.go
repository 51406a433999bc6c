package main

import (
	"fmt"
	"strings"

	"stave/internal/config"
	"stave/internal/machine/agent"
	"stave/internal/machine/stage"
	"stave/internal/machine/turn"
	run "stave/internal/machine/workflow"
	"stave/internal/runelog"
	"stave/internal/world"
)

// staged is what is shown of a stage that is under way.
type staged struct {
	stage    string
	cap      int // turns of one attempt
	attempts int
	tools    []string
	turns    int // answered model requests of this attempt
	tokens   int64
	microUSD int64
}

// showRun shows what happens in a workflow, and reports whether it was that.
func (p *progress) showRun(r runelog.Rune, e any) bool {
	p.lane = p.laneOf(r.Path)
	switch e := e.(type) {
	case run.Started:
		p.step(bold, "workflow %s: %s", e.Name, line(e.Task, shownLine))
	case run.StagesChosen:
		if e.After != "" {
			p.step(dim, "next: %s", chosen(e))
		}
	case run.DefinitionChanged:
		p.step(yellow, "! its definition was changed after this run began; nothing goes on but calls that run already, before somebody says that it may")
	case run.DefinitionRestored:
		p.step(green, "  its definition is again the one it began with")
	case run.Confirmed:
		p.step(green, "  it goes on by the definition it began with, says %s", line(e.By, shownLine))
	case run.Stopping:
		if !e.Failed { // else its stage has just said so
			p.step(yellow, "stopping: %s", line(e.Reason, shownLine))
		}
	case run.Completed:
		p.step(green, "workflow %s completed", e.Name)
		if text := resultText(e); p.mine == "" || p.mine == e.RunID {
			p.answer(text)
		} else {
			p.step(dim, "  %s handed in: %s", e.Name, line(text, shownLine))
		}
	case agent.Spawning:
		if e.Stage == "" {
			return false
		}
		p.byAgent[r.Path] = p.stages[e.Stage]
	default:
		return p.showStage(r, e)
	}
	return true
}

func chosen(e run.StagesChosen) string {
	var names []string
	for _, b := range e.Stages {
		names = append(names, b.Stage)
	}
	text := strings.Join(names, ", then ")
	if e.Execution == run.Parallel {
		text = strings.Join(names, " and ") + " side by side"
	}
	if e.Join != nil {
		text += ", then " + e.Join.Stage
	}
	return text
}

func (p *progress) showStage(r runelog.Rune, e any) bool {
	s := p.stages[r.Path]
	switch e := e.(type) {
	case stage.Begun:
		p.stages[r.Path] = &staged{stage: e.Stage, cap: e.TurnCap, attempts: e.MaxAttempts}
		return true
	}
	if s == nil {
		if s = p.ofStage(r.Path); s != nil {
			p.showStageTurn(s, e)
		}
		return false
	}
	switch e := e.(type) {
	case stage.Prepared:
		s.tools, s.turns = e.Tools, 0
		if len(e.Dropped) > 0 {
			p.step(yellow, "! %s does without %s, which this conversation does not have", s.stage, strings.Join(e.Dropped, ", "))
		}
	case stage.ActStarted:
		p.step(bold, "▸ %s, attempt %d of %d, at most %s, with %s", s.stage, e.Attempt, s.attempts, count(s.cap, "turn", "turns"), orNone(s.tools))
	case stage.GateChecked:
		p.step(dim, "▸ %s: its gate says %s", s.stage, e.Verdict)
	case stage.CompletionRejected:
		p.step(yellow, "  %s handed in what does not fit: %s", s.stage, line(e.Error, shownLine))
	case stage.Reminded:
		p.step(dim, "  %s stopped without a result and is reminded; %s left", s.stage, count(e.Left, "turn", "turns"))
	case stage.Retried:
		p.step(yellow, "↻ %s: %s", s.stage, line(e.Reason, shownLine))
	case stage.Exited:
		sign, word := "✓", ""
		if e.Result.Status == stage.Skip {
			sign, word = "–", " skipped"
		}
		p.step(green, "%s %s%s: %s%s", sign, s.stage, word, count(e.Result.Turns, "turn", "turns"), s.cost())
		delete(p.stages, r.Path)
	case stage.Failed:
		p.step(red, "✗ %s failed in %s: %s", s.stage, e.Phase, line(e.Error, shownLine))
		delete(p.stages, r.Path)
	case stage.Cancelled:
		p.step(yellow, "✗ %s cancelled: %s", s.stage, line(e.Reason, shownLine))
		delete(p.stages, r.Path)
	}
	return true
}

// showStageTurn shows what a model answers in a stage, and what that cost so far.
func (p *progress) showStageTurn(s *staged, e any) {
	switch e := e.(type) {
	case turn.ToolCallsReceived:
		s.bill(e.Bill)
		p.answered(s, partsText(e.Output))
	case turn.Completed:
		s.bill(e.Bill)
		if e.Reason != "concluded" && e.Reason != "max_requests" { // else it ends with its calls
			p.answered(s, e.FinalOutput)
		}
	case turn.Compacted:
		s.bill(e.Bill)
	case turn.Interrupted:
		if e.Bill != nil {
			s.bill(*e.Bill)
		}
	}
}

func (p *progress) answered(s *staged, text string) {
	s.turns++
	said := ""
	if text != "" {
		said = ": " + line(text, shownLine)
	}
	name := s.stage + ", "
	if p.lane != "" {
		name = "" // it is there already
	}
	p.step(dim, "  %sturn %d of %d%s%s", name, s.turns, s.cap, s.cost(), said)
}

func (s *staged) bill(b turn.Bill) {
	s.tokens += b.Usage.InputTokens + b.Usage.OutputTokens
	s.microUSD += b.MicroUSD
}

// ofStage is the stage that the agent of a turn works for.
func (p *progress) ofStage(path string) *staged {
	return p.byAgent[string(world.AgentOf(world.Path(path)))]
}

// laneOf tells the lines of stages apart that run side by side.
func (p *progress) laneOf(path string) string {
	s := p.ofStage(path)
	if s == nil || len(p.stages) < 2 {
		return ""
	}
	return p.paint(dim, fmt.Sprintf("%-8s ", s.stage))
}

// ofStage reports whether an agent of a stage did it. The names of such agents say
// so.
func ofStage(path string) bool {
	return strings.HasPrefix(path, "agent:"+stage.AgentPrefix)
}

func (s *staged) cost() string {
	text := ""
	if s.tokens > 0 {
		text = ", " + count(int(s.tokens), "token", "tokens")
	}
	if s.microUSD > 0 {
		text += ", " + config.USD(s.microUSD)
	}
	return text
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no tools"
	}
	return strings.Join(names, ", ")
}

// takeUpRuns knows the stages that are under way when one begins to look.
func (p *progress) takeUpRuns(v world.View) {
	p.stages, p.byAgent = map[string]*staged{}, map[string]*staged{}
	for _, r := range v.Runs {
		for _, s := range r.Stages {
			known := &staged{stage: s.Stage, cap: s.TurnCap, attempts: s.Attempts, turns: s.Answered}
			name := strings.TrimPrefix(s.ID, r.ID+".")
			p.stages[string(world.RunPath(r.ID))+"/stage:"+name] = known
			if s.Agent != "" {
				p.byAgent["agent:"+s.Agent] = known
			}
			for _, acc := range v.Accounts {
				if acc.Path.Name() == s.Agent {
					known.tokens, known.microUSD = acc.Spent.Tokens, acc.Spent.MicroUSD
				}
			}
		}
	}
}
