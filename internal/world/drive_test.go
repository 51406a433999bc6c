package world

import (
	"fmt"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/machine/workflow"
	"stave/internal/model"
)

// maxDrive bounds how long a driver works until it calls the world stuck.
const maxDrive = 500

// driver does what is due and answers what is asked until nothing is left.
type driver struct {
	say func(question string) machine.Command // a person's answer
}

// People who are asked: the trusting one and the careful one.
var (
	trusting = driver{func(q string) machine.Command {
		switch q {
		case "may_run", "grant_stage_tool":
			return tool.Approve{}
		case "what_to_say":
			return tool.Reply{Text: "yes"}
		case "may_go_on":
			return workflow.GoOn{}
		}
		return tool.Retry{}
	}}
	careful = driver{func(q string) machine.Command {
		switch q {
		case "what_happened":
			return tool.NotHappened{}
		case "grant_stage_tool":
			return tool.Defer{}
		case "may_go_on":
			return workflow.Cancel{}
		}
		return tool.Deny{}
	}}
)

// rest drives until nothing is due and nothing is asked, and says what is wrong
// with that rest.
func (d driver) rest(t *tape) error {
	for range maxDrive {
		m, ok := d.next(t.World)
		if !ok {
			return restful(t.World)
		}
		if _, err := t.tell(m); err != nil {
			return fmt.Errorf("driving %s %T: %w", m.Path, m.Command, err)
		}
	}
	return fmt.Errorf("no rest after %d messages", maxDrive)
}

func (d driver) next(w *World) (Message, bool) {
	for _, j := range w.Jobs() {
		return Message{Path: j.Path, Command: goOnWith(w, j), By: engineName, Job: j.ID}, true
	}
	if qs := w.Questions(); len(qs) > 0 {
		q := qs[0]
		answer := d.say(q.Kind)
		if _, yes := answer.(tool.Approve); yes && w.Short(q.Path, model.Amount{ToolCalls: 1}) != "" {
			answer = tool.Deny{} // there is nothing left to run it with
		}
		return Message{Path: q.Path, Command: answer, By: "user:driver"}, true
	}
	return Message{}, false
}

// worst is the most a model call of these tests costs.
var worst = model.Amount{MicroUSD: 3, Tokens: 20, ModelCalls: 1}

// goOnWith is the next thing a job does that goes well. A limited model call is
// reserved for first, as the engine does it; without room for it its turn ends.
func goOnWith(w *World, j Job) machine.Command {
	if c := reserve(w, j); c != nil {
		return c
	}
	if c := goOnInStage(w, j); c != nil {
		return c
	}
	return done(j.Work)
}

// goOnInStage is what a stage and its model do that do their best, nil for
// anybody else.
func goOnInStage(w *World, j Job) machine.Command {
	switch j.Work.(type) {
	case turn.CallModel:
		if w.stageOf(j.Path) == "" {
			return nil
		}
		call := proposal(fmt.Sprintf("h%d:hand", w.seq))
		return turn.ReceiveToolCalls{Calls: []turn.Proposal{call}, Bill: turn.Bill{Usage: model.Usage{InputTokens: 3, OutputTokens: 2}}}
	case stage.Judge:
		return stage.Assert{Verdict: fairly(data[stage.Data](w, j.Path))}
	}
	return nil
}

// fairly judges an attempt as a stage without a rule of its own does.
func fairly(d stage.Data) string {
	switch {
	case d.Gate != "":
		return d.Gate
	case d.Output == nil:
		return stage.Retry
	}
	return stage.OK
}

// reserve is what has to come before the model call of a job, nil if nothing.
func reserve(w *World, j Job) machine.Command {
	if _, ok := j.Work.(turn.CallModel); !ok || !limitsCalls(w.Limit(j.Path)) || data[turn.Data](w, j.Path).Held != (model.Amount{}) {
		return nil
	}
	if limit := w.Short(j.Path, worst); limit != "" {
		return turn.Interrupt{Reason: session.BudgetReason + limit}
	}
	return turn.Reserve{Amount: worst}
}

// done is the end of a job that went well.
func done(work any) machine.Command {
	switch work.(type) {
	case agent.Prepare:
		return agent.BecomeReady{}
	case turn.CallModel:
		return turn.Finish{Output: []model.Part{{Text: "done"}}, Stop: model.StopEnd, Bill: turn.Bill{Usage: model.Usage{InputTokens: 3, OutputTokens: 2}}}
	case tool.RunTool:
		return tool.Succeed{Output: tool.Output{Text: "ok"}}
	case stage.SetUp:
		return stage.Prepare{Prepared: stage.Prepared{Context: []byte("{}"), Tools: []string{"read"}}}
	case stage.Render:
		return stage.Initialize{Prompt: "You are a stage."}
	case stage.CheckGate:
		return stage.Gate{Verdict: stage.Proceed}
	case stage.Wait:
		return stage.Again{}
	case workflow.ChooseNext:
		return workflow.Choose{}
	}
	panic(fmt.Sprintf("nobody does %T", work))
}

// restful says what is wrong with a world in which nothing is due and nothing
// is asked: nothing may be under way, and nothing may wait that could go on.
func restful(w *World) error {
	for _, name := range []string{"turn", "tool"} {
		if left := w.paths(name, ""); len(left) > 0 {
			return fmt.Errorf("stuck: %s is %s and nothing is due", left[0], w.State(left[0]))
		}
	}
	for _, a := range w.Accounts() {
		if a.Held != (model.Amount{}) {
			return fmt.Errorf("%s holds %+v for nothing", a.Path, a.Held)
		}
	}
	s := w.Session()
	switch state := w.State(SessionPath); state {
	case "paused", "suspended":
		return cutInStages(w)
	case "closed", "archived", machine.None:
	case "active":
		if left := append(w.paths("stage", ""), w.paths("workflow", "")...); len(left) > 0 {
			return fmt.Errorf("stuck: %s is %s and nothing is due", left[0], w.State(left[0]))
		}
		if len(s.Waiting) > 0 || s.Running {
			return fmt.Errorf("stuck: %d messages wait (running: %t) and nothing is due", len(s.Waiting), s.Running)
		}
		for _, p := range w.paths("agent", "") {
			if tasks := data[agent.Data](w, p).Tasks; len(tasks) > 0 {
				return fmt.Errorf("stuck: %d tasks wait for %s and nothing is due", len(tasks), p)
			}
		}
	default:
		return fmt.Errorf("stuck: the session is %s and nothing is due", state)
	}
	return nil
}

// cutInStages holds that in a stopped session a stage waits only for an agent that
// goes on by itself.
func cutInStages(w *World) error {
	for _, p := range w.paths("stage", "") {
		d := data[stage.Data](w, p)
		a := data[agent.Data](w, w.agentPath(d.AgentID))
		if w.State(p) != "act" || !a.Cut && len(a.Tasks) == 0 {
			return fmt.Errorf("stuck: %s is %s, its agent has nothing to go on with", p, w.State(p))
		}
	}
	return nil
}

// wake lets a stopped session go on, and reports whether there was one.
func wake(t *tape) (bool, error) {
	var c machine.Command
	switch t.State(SessionPath) {
	case "paused":
		c = session.Resume{}
	case "suspended":
		c = session.Unsuspend{}
	default:
		return false, nil
	}
	_, err := t.tell(Message{Path: SessionPath, Command: c, By: "user:driver"})
	return true, err
}
