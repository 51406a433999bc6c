package world

import (
	"fmt"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/machine/workflow"
	"stave/internal/runelog"
)

// stageEnv is what the surroundings have done, and what was seen.
type stageEnv struct {
	cancelled, paused bool
	crashes           int
	begun, ended      [5]uint8 // of each stage
	failed            bool     // one of them did
	requests          [5]uint8 // model requests of the present attempt
	outcome           string
}

// stageNames are the stages by their place in what is counted.
const stageNames = "PABCJ"

// stageCaps are the most model requests of an attempt of each.
var stageCaps = [5]uint8{1, 2, 2, 1, 1}

// orders are what a person may say at any time.
func (s *stageSearch) orders(n int32, p stagePlace) {
	if p.w.State(SessionPath) == "paused" {
		s.step(n, p.env, Message{Path: SessionPath, Command: session.Resume{}, By: "user:ann"})
	}
	if !s.people {
		return
	}
	if e := p.env; !e.cancelled && p.w.State(RunPath("r")) != "stopping" {
		e.cancelled = true
		s.step(n, e, Message{Path: RunPath("r"), Command: workflow.Cancel{}, By: "user:ann"})
	}
	if e := p.env; !e.paused && p.w.State(SessionPath) == "active" {
		e.paused = true
		s.step(n, e, Message{Path: SessionPath, Command: session.Pause{}, By: "user:ann"})
	}
}

// reports are the ways a job can end.
func (s *stageSearch) reports(w *World, j Job) []machine.Command {
	at := j.Path
	if of := w.stageOf(j.Path); of != "" {
		at = Path(of)
	}
	d := data[stage.Data](w, at)
	free := d.Stage == "A" || s.brave && d.Stage == "C"
	var list []machine.Command
	switch work := j.Work.(type) {
	case stage.SetUp:
		list = []machine.Command{stage.Prepare{Prepared: stage.Prepared{Tools: []string{"post"}}}}
		if free {
			list = append(list, stage.Break{Error: "broken"})
		}
	case stage.CheckGate:
		list = []machine.Command{stage.Gate{Verdict: stage.Proceed}}
		if d.Stage == "P" {
			list = []machine.Command{stage.Gate{Verdict: stage.Skip}}
		}
		if free {
			list = append(list, stage.Gate{Verdict: stage.Skip}, stage.Gate{Verdict: stage.Retry})
		}
	case stage.Judge:
		list = []machine.Command{stage.Assert{Verdict: fairly(d)}}
	case agent.Prepare:
		list = []machine.Command{agent.BecomeReady{}}
		if free {
			list = append(list, agent.FailInit{Error: "broken"})
		}
	case turn.CallModel:
		list = s.answers(d, work.Request, free)
	case tool.RunTool:
		list = []machine.Command{tool.Succeed{}}
		if free && work.Call.Tool == "hand" {
			list = append(list, tool.Fail{Error: "no"})
		}
	case workflow.ChooseNext:
		list = []machine.Command{s.choice(work)}
	default:
		list = []machine.Command{done(j.Work)}
	}
	return list
}

// answers are what the model of a stage says.
func (s *stageSearch) answers(d stage.Data, request int, free bool) []machine.Command {
	calls := func(text string) machine.Command {
		var c turn.ReceiveToolCalls
		for call := range strings.FieldsSeq(text) {
			c.Calls = append(c.Calls, proposal(call))
		}
		return c
	}
	switch {
	case d.Stage == "B" && request == 1 && d.Used == 0:
		return []machine.Command{calls("w:write")}
	case d.Stage == "C":
		return []machine.Command{calls("h:hand p:post")}
	case free:
		return []machine.Command{calls("h:hand"), turn.Finish{Stop: "end"}, turn.Fail{Type: "auth"}}
	}
	return []machine.Command{calls("h:hand")}
}

func (s *stageSearch) choice(work workflow.ChooseNext) machine.Command {
	if work.Stage != "P" {
		return workflow.Choose{}
	}
	return workflow.Choose{StagesChosen: workflow.StagesChosen{
		After: "P", Stages: briefs("A:2:" + s.attempts + " B:2:1 C:1:1"), Execution: workflow.Parallel, Join: &briefs("J:1:1")[0],
	}}
}

// observe holds, rune by rune, what may never happen.
func (e *stageEnv) observe(r runelog.Rune) error {
	i := strings.IndexAny(r.Path, stageNames)
	if i >= 0 {
		i = strings.IndexByte(stageNames, r.Path[i])
	}
	switch r.Kind {
	case "stage.begun":
		e.begun[i]++
		if stageNames[i] == 'J' && (e.failed || e.ended != [5]uint8{1, 1, 1, 1, 0}) {
			return fmt.Errorf("the join begins after %v (one failed: %t)", e.ended, e.failed)
		}
		if e.failed || e.begun[i] > 1 {
			return fmt.Errorf("%s begins (one failed: %t)", r.Path, e.failed)
		}
	case "stage.exited", "stage.failed", "stage.cancelled":
		e.ended[i]++
		if e.ended[i] > e.begun[i] {
			return fmt.Errorf("%s ends twice", r.Path)
		}
		e.failed = e.failed || r.Kind != "stage.exited"
	case "stage.act_started", "stage.act_ended":
		e.requests[i] = 0
	case "turn.started", "turn.tools_finished":
		if e.requests[i]++; e.requests[i] > stageCaps[i] {
			return fmt.Errorf("%s: %d model requests, and %d are allowed", r.Path, e.requests[i], stageCaps[i])
		}
	case "turn.interrupted":
		if r.From == "streaming" && strings.Contains(string(r.Payload), `"reason":"pause"`) && !strings.Contains(string(r.Payload), `"bill":`) {
			e.requests[i]-- // it was not answered
		}
	case "workflow.completed", "workflow.failed", "workflow.cancelled":
		e.outcome = strings.TrimPrefix(r.Kind, "workflow.")
		if e.outcome != "cancelled" && (e.outcome == "completed") == e.failed {
			return fmt.Errorf("%s (one failed: %t)", r.Kind, e.failed)
		}
	}
	return nil
}
