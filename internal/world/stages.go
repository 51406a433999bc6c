package world

import (
	"errors"
	"fmt"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/machine/workflow"
	"stave/internal/model"
	"stave/internal/policy"
)

const (
	beginning = "Do the work that is described above. When it is done, call %s with the result: nothing else ends it. You have %d turns."
	reminder  = "You stopped without calling %s. The work is over only when you call it with the result. %d turns are left."
	// maxRunText bounds what a conversation is told about a run.
	maxRunText = 32 << 10
)

// purse names the agent that holds what a whole run may use. It takes no turns.
func purse(run string) string { return "agt_" + run }

func onward[E machine.Event](_ *World, at Path, _ E) []letter { return to(at, workflow.Proceed{}) }

// alive returns the place of an agent that is there.
func (w *World) alive(agentID string) []Path {
	if p := w.agentPath(agentID); p != "" && w.State(p) != machine.None {
		return []Path{p}
	}
	return nil
}

// toStage tells a stage, if there is one.
func toStage(at string, c machine.Command) []letter {
	if at == "" {
		return nil
	}
	return to(Path(at), c)
}

// stageOf is where the stage lives that the agent of a turn or call works for.
func (w *World) stageOf(at Path) string { return data[agent.Data](w, AgentOf(at)).Stage }

// completes reports whether a call of a tool hands in the result of a stage.
func (w *World) completes(at Path, tool string) bool {
	s := w.stageOf(at)
	return s != "" && tool != "" && data[stage.Data](w, Path(s)).Completion == tool
}

// cutOff reports whether a turn ended only because the conversation stopped.
func cutOff(e turn.Finalized) bool {
	return e.Outcome == "interrupted" &&
		(e.Reason == "pause" || e.Reason == "suspended" || strings.HasPrefix(e.Reason, session.BudgetReason))
}

// answered counts the model requests of a turn. One that a stop of the conversation
// cut off is made again, and counts then.
func answered(e turn.Finalized) int {
	if e.Unanswered && cutOff(e) {
		return e.Requests - 1
	}
	return e.Requests
}

// whyEnded is the reason of a turn's end, with the words of an error.
func whyEnded(e turn.Finalized) string {
	if e.Outcome == "error" && e.Output != "" {
		return e.Reason + ": " + e.Output
	}
	return e.Reason
}

func stageEnded(at Path, execution string, r stage.Result, why string) []letter {
	return to(at.parent(), workflow.StageEnded{StageDone: workflow.StageDone{ExecutionID: execution, Result: workflow.Result(r), Error: why}})
}

func runEnded(run, name, outcome, text string) []letter {
	if len(text) > maxRunText {
		text = strings.ToValidUTF8(text[:maxRunText], "") + " … (cut)"
	}
	return to(SessionPath, session.EndRun{RunEnded: session.RunEnded{RunID: run, Name: name, Outcome: outcome, Text: text}})
}

// resultsText is what the stages of a run handed in, in the order they ended.
func resultsText(results []workflow.Result) string {
	var b strings.Builder
	for _, r := range results {
		fmt.Fprintf(&b, "%s (%s): %s\n", r.Stage, r.Status, r.Output)
	}
	return strings.TrimSpace(b.String())
}

// noAgent says why a stage cannot have an agent, "" if it can.
func (w *World) noAgent(at Path) string {
	d := data[stage.Data](w, at)
	parent := w.agentPath(d.ParentID)
	n, ok := w.find(parent)
	switch {
	case !ok:
		return "the agent it would work under is gone"
	case machine.DataOf[agent.Data](n.Instance).Ending != "":
		return "the agent it would work under is ending"
	}
	if limit := w.short(parent, model.Amount{Agents: 1}); limit != "" {
		return session.BudgetReason + limit
	}
	e := w.agentFor(at)
	for _, l := range laws[machine.Kind(e)] {
		if err := l.hold(w, w.agentPath(e.AgentID), machine.Move{Event: e}, engineName); err != nil {
			return err.Error() // or nothing could be recorded, and the stage would wait for ever
		}
	}
	return ""
}

// sessionIsShort reports whether a limit that an agent ran into is the
// conversation's. In a stage it is also if merely too little is left for one more
// call: a run is suspended and goes on after a top-up, where an agent that works
// for another just tells it.
func (w *World) sessionIsShort(at Path, limit string) bool {
	whole := w.session().account()
	if whole.full() != "" || w.envelope(at) == nil {
		return whole.full() != ""
	}
	var own model.Amount
	for _, p := range w.above(at) {
		n, _ := w.find(p)
		own = own.Within(n.account().left())
	}
	left, mine := partOf(whole.left(), limit), partOf(own, limit)
	return left != 0 && (mine == 0 || left <= mine)
}

func (a account) left() model.Amount { return a.Limit.Left(a.Spent.Plus(a.Held)) }

// partOf returns the part of an amount that a limit of this name is about.
func partOf(a model.Amount, limit string) int64 {
	for _, part := range []struct {
		only  model.Amount
		value int64
	}{
		{model.Amount{MicroUSD: 2}, a.MicroUSD},
		{model.Amount{Tokens: 2}, a.Tokens},
		{model.Amount{ModelCalls: 2}, a.ModelCalls},
		{model.Amount{ToolCalls: 2}, a.ToolCalls},
		{model.Amount{Agents: 2}, a.Agents},
		{model.Amount{WallMs: 2}, a.WallMs},
	} {
		one := model.Amount{MicroUSD: 1, Tokens: 1, ModelCalls: 1, ToolCalls: 1, Agents: 1, WallMs: 1}
		if part.only.Over(one) == limit {
			return part.value
		}
	}
	return 0
}

// agentFor is the agent of a stage's present attempt.
func (w *World) agentFor(at Path) agent.Spawning {
	d := data[stage.Data](w, at)
	return agent.Spawning{
		AgentID: d.AgentID, Role: "stage", Model: d.Model, ParentID: d.ParentID, Budget: d.Budget,
		Depth: data[agent.Data](w, w.agentPath(d.ParentID)).Depth + 1, Stage: string(at),
		First: fmt.Sprintf(beginning, d.Completion, d.TurnCap),
	}
}

func spawnForStage(w *World, at Path, e stage.ActStarted) []letter {
	if w.noAgent(at) != "" {
		return nil
	}
	return to(w.agentPath(e.AgentID), agent.Spawn{Spawning: w.agentFor(at)})
}

// envelope is what a stage lets the agent at a path do, and those that work for
// it; nil where no stage has a say.
func (w *World) envelope(at Path) *policy.Envelope {
	s := w.stageAbove(at)
	if s == "" {
		return nil
	}
	d := data[stage.Data](w, Path(s))
	return &policy.Envelope{
		Grant: tool.Grant{ExecutionID: d.ExecutionID, Stage: d.Stage, Attempt: d.Attempt}, Allowed: d.Allows,
	}
}

// held reports whether a job has to wait because the run it belongs to does: its
// definition was changed, and nobody has said that it goes on. A call that was let
// run before is ended all the same.
func (w *World) held(p Path) bool { return p.machine() != "tool" && w.heldRun(p) }

func (w *World) heldRun(p Path) bool {
	if len(w.Session().Runs) == 0 {
		return false
	}
	if p.machine() == "stage" {
		return w.State(p.parent()) == "changed"
	}
	s := w.stageAbove(p)
	return s != "" && w.State(Path(s).parent()) == "changed"
}

// released judges the calls that waited with their run.
func released[E machine.Event](w *World, at Path, _ E) []letter {
	var list []letter
	for _, p := range w.paths("tool", "") {
		if Path(w.stageAbove(p)).parent() == at {
			list = append(list, judge(w, p, data[tool.Data](w, p).Call)...)
		}
	}
	return list
}

// stageAbove is where the stage lives that the agent of a call works for, or one
// above it.
func (w *World) stageAbove(p Path) string {
	for _, a := range w.above(AgentOf(p)) {
		if s := data[agent.Data](w, a).Stage; s != "" {
			return s
		}
	}
	return ""
}

// Stage returns what the stage at a path remembers, and the run it belongs to.
func (w *World) Stage(at Path) (stage.Data, workflow.Data) {
	return data[stage.Data](w, at), data[workflow.Data](w, at.parent())
}

// Run returns what the run at a path remembers.
func (w *World) Run(at Path) workflow.Data { return data[workflow.Data](w, at) }

// Runs returns the places of the runs that are under way.
func (w *World) Runs() []Path { return w.paths("workflow", "") }

// chosenByRun holds that a stage begins only where its run lets it.
func chosenByRun(w *World, p Path, mv machine.Move, _ string) error {
	e := mv.Event.(stage.Begun)
	run := data[workflow.Data](w, p.parent())
	for _, id := range run.Running {
		if id == e.ExecutionID && p == stagePath(run.RunID, id) {
			return nil
		}
	}
	return fmt.Errorf("its run did not let stage %s begin", e.Stage)
}

// worksForStage holds that an agent that names a stage is the one the stage has.
func worksForStage(w *World, p Path, mv machine.Move, _ string) error {
	e := mv.Event.(agent.Spawning)
	if e.Stage == "" {
		return nil
	}
	if d := data[stage.Data](w, Path(e.Stage)); w.State(Path(e.Stage)) != "act" || d.AgentID != e.AgentID {
		return fmt.Errorf("stage %s has no agent %s", e.Stage, e.AgentID)
	}
	return nil
}

// toldByStage holds that no other agent puts words into a stage's transcript: what
// its agent is told comes with its birth, or from the stage.
func toldByStage(w *World, p Path, mv machine.Move, by string) error {
	d := data[agent.Data](w, p)
	if d.Stage == "" || !strings.HasPrefix(by, "agent:") || mv.From == "spawning" && len(d.Tasks) == 0 {
		return nil
	}
	return fmt.Errorf("it works for stage %s, and %s has nothing to tell it", d.Stage, by)
}

// insideCap holds that a stage's agent never gets more model requests than the
// stage has left.
func insideCap(w *World, p Path, mv machine.Move, _ string) error {
	e := mv.Event.(turn.Started)
	s := w.stageOf(p)
	if s == "" {
		return nil
	}
	if left := data[stage.Data](w, Path(s)).Left(); e.MaxRequests < 1 || e.MaxRequests > left {
		return fmt.Errorf("a turn of %d model requests, and the stage has %d left", e.MaxRequests, left)
	}
	return nil
}

// insideEnvelope holds that what is not among a stage's tools runs only by a
// person's grant.
func insideEnvelope(w *World, p Path, mv machine.Move, _ string) error {
	e := w.envelope(AgentOf(p))
	call := data[tool.Data](w, p)
	if e == nil || e.Allows(call.Call.Tool) || mv.From == "awaiting_approval" && call.Grant == e.Grant {
		return nil
	}
	return errors.New("it is not among the tools of its stage, and nobody granted it")
}

// confirmedByPerson holds that nothing but a person lets a run go on whose
// definition was changed.
func confirmedByPerson(_ *World, _ Path, _ machine.Move, by string) error {
	if !strings.HasPrefix(by, "user:") {
		return fmt.Errorf("a question for a person was answered by %q", by)
	}
	return nil
}

// startedByPerson holds that no agent starts a workflow.
func startedByPerson(_ *World, p Path, mv machine.Move, by string) error {
	e := mv.Event.(workflow.Started)
	if !strings.HasPrefix(by, "user:") {
		return fmt.Errorf("a workflow is started by a person, not by %q", by)
	}
	if p != RunPath(e.RunID) {
		return fmt.Errorf("the place of run %s is not %s", e.RunID, p)
	}
	return nil
}
