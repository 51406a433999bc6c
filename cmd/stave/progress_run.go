package main

import (
	"fmt"
	"strings"

	"stave/internal/machine/agent"
	"stave/internal/machine/stage"
	"stave/internal/machine/turn"
	run "stave/internal/machine/workflow"
	"stave/internal/model"
	"stave/internal/runelog"
	"stave/internal/world"
)

// staged is what is shown of a stage that is under way.
type staged struct {
	stage    string
	cap      int // turns of one attempt
	attempts int
	tools    []string
	turns    int // model requests of this attempt
	usage    model.Usage
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
		p.step(yellow, "! its definition was changed after this run began; nothing new begins before somebody says that it may")
	case run.Confirmed:
		p.step(green, "  it goes on by the definition it began with, says %s", line(e.By, shownLine))
	case run.Stopping:
		if !e.Failed { // else its stage has just said so
			p.step(yellow, "stopping: %s", line(e.Reason, shownLine))
		}
	case run.Completed:
		p.step(green, "workflow %s completed", e.Name)
		p.answer(resultText(e.Results))
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
	case turn.ToolCallsReceived:
		if s = p.ofStage(r.Path); s != nil {
			s.turns++
			said := ""
			if text := partsText(e.Output); text != "" {
				said = ": " + line(text, shownLine)
			}
			name := s.stage + ", "
			if p.lane != "" {
				name = "" // it is there already
			}
			p.step(dim, "  %sturn %d of %d%s", name, s.turns, s.cap, said)
		}
		return false
	case turn.Finalized:
		if s = p.ofStage(r.Path); s != nil {
			s.usage, s.microUSD = s.usage.Plus(e.Usage), s.microUSD+e.MicroUSD
		}
		return false
	}
	if s == nil {
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
		s.turns += e.Requests
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
	tokens := s.usage.InputTokens + s.usage.OutputTokens
	if tokens == 0 {
		return ""
	}
	text := fmt.Sprintf(", %d tokens", tokens)
	if s.microUSD > 0 {
		text += fmt.Sprintf(", $%.4f", float64(s.microUSD)/1e6)
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
			known := &staged{stage: s.Stage, cap: s.TurnCap, attempts: s.Attempts, turns: s.Turns}
			name := strings.TrimPrefix(s.ID, r.ID+".")
			p.stages[string(world.RunPath(r.ID))+"/stage:"+name] = known
			if s.Agent != "" {
				p.byAgent["agent:"+s.Agent] = known
			}
		}
	}
}
