package world

import (
	"fmt"

	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/workflow"
	"stave/internal/model"
)

// stageWires are those of runs and their stages.
var stageWires = []wire{
	on[workflow.Started, session.BeginRun]("session", func(_ *World, _ Path, e workflow.Started) []letter {
		return to(SessionPath, session.BeginRun{RunBegan: session.RunBegan{RunID: e.RunID, Name: e.Name, Task: e.Task, Headless: e.Headless}})
	}),
	on[workflow.Started, agent.Spawn]("an agent that holds the run's budget, if it has one", func(w *World, _ Path, e workflow.Started) []letter {
		if e.Budget == (model.Amount{}) {
			return nil
		}
		depth := data[agent.Data](w, w.agentPath(e.ParentID)).Depth
		return to(w.agentPath(purse(e.RunID)), agent.Spawn{Spawning: agent.Spawning{
			AgentID: purse(e.RunID), Role: "workflow", ParentID: e.ParentID, Budget: e.Budget, Depth: depth + 1,
		}})
	}),
	on[workflow.StagesChosen, workflow.Proceed]("itself", onward[workflow.StagesChosen]),
	on[workflow.StageBegun, stage.Begin]("the new stage", func(w *World, at Path, e workflow.StageBegun) []letter {
		run := data[workflow.Data](w, at)
		parent := run.ParentID
		if run.Budget != (model.Amount{}) {
			parent = purse(run.RunID)
		}
		return to(stagePath(run.RunID, e.ExecutionID), stage.Begin{Begun: stage.Begun{
			ExecutionID: e.ExecutionID, Stage: e.Stage, Visit: e.Visit, ParentID: parent,
			Limits: stage.Limits{Model: e.Model, Budget: e.Budget, TurnCap: e.TurnCap, MaxAttempts: e.MaxAttempts, Completion: e.Completion},
		}})
	}),
	on[workflow.StageBegun, workflow.Proceed]("itself", onward[workflow.StageBegun]),
	on[workflow.StageDone, workflow.Proceed]("itself", onward[workflow.StageDone]),
	on[workflow.Confirmed, workflow.Proceed]("itself", onward[workflow.Confirmed]),
	on[workflow.Confirmed, tool.Judge]("calls that waited with it", released[workflow.Confirmed]),
	on[workflow.DefinitionRestored, workflow.Proceed]("itself", onward[workflow.DefinitionRestored]),
	on[workflow.DefinitionRestored, tool.Judge]("calls that waited with it", released[workflow.DefinitionRestored]),
	on[workflow.Stopping, stage.Cancel]("its stages", func(w *World, at Path, e workflow.Stopping) []letter {
		return toAll(w.paths("stage", at), stage.Cancel{Reason: e.Reason})
	}),
	on[workflow.Stopping, workflow.Proceed]("itself", onward[workflow.Stopping]),
	on[session.Closing, workflow.Cancel]("every run", func(w *World, _ Path, e session.Closing) []letter {
		return toAll(w.paths("workflow", ""), workflow.Cancel{Reason: e.Reason})
	}),
	on[workflow.Completed, session.EndRun]("session", func(_ *World, _ Path, e workflow.Completed) []letter {
		return runEnded(e.RunID, e.Name, "completed", resultsText(e.Results))
	}),
	on[workflow.Failed, session.EndRun]("session", func(_ *World, _ Path, e workflow.Failed) []letter {
		return runEnded(e.RunID, e.Name, "failed", e.Error)
	}),
	on[workflow.Cancelled, session.EndRun]("session", func(_ *World, _ Path, e workflow.Cancelled) []letter {
		return runEnded(e.RunID, e.Name, "cancelled", e.Reason)
	}),
	on[session.RunEnded, agent.Kill]("the agent that holds its budget", func(w *World, _ Path, e session.RunEnded) []letter {
		return toAll(w.alive(purse(e.RunID)), agent.Kill{Reason: "its run is over", Force: true})
	}),
	on[session.RunEnded, session.Proceed]("itself", proceed[session.RunEnded]),

	on[stage.ActStarted, agent.Spawn]("a new agent with a fresh transcript", spawnForStage),
	on[stage.ActStarted, stage.AgentGone]("itself, if there can be no agent", func(w *World, at Path, _ stage.ActStarted) []letter {
		if why := w.noAgent(at); why != "" {
			return to(at, stage.AgentGone{Reason: why})
		}
		return nil
	}),
	on[stage.Reminded, agent.Tell]("its agent", func(w *World, at Path, e stage.Reminded) []letter {
		d := data[stage.Data](w, at)
		if len(data[agent.Data](w, w.agentPath(d.AgentID)).Tasks) >= agent.MaxTasks {
			return nil // it has enough to go on with
		}
		return to(w.agentPath(d.AgentID), agent.Tell{Told: agent.Told{Text: fmt.Sprintf(reminder, d.Completion, e.Left)}})
	}),
	on[stage.ActEnded, agent.Kill]("its agent", func(w *World, at Path, _ stage.ActEnded) []letter {
		return toAll(w.alive(data[stage.Data](w, at).AgentID), agent.Kill{Reason: "its stage is over", Force: true})
	}),
	on[stage.Stopping, agent.Kill]("its agent", func(w *World, at Path, e stage.Stopping) []letter {
		return toAll(w.alive(data[stage.Data](w, at).AgentID), agent.Kill{Reason: e.Reason, Force: true})
	}),
	on[stage.Asserted, stage.Exit]("itself", func(_ *World, at Path, _ stage.Asserted) []letter { return to(at, stage.Exit{}) }),
	on[stage.Exited, workflow.StageEnded]("its run", func(_ *World, at Path, e stage.Exited) []letter {
		return stageEnded(at, e.ExecutionID, e.Result, "")
	}),
	on[stage.Failed, workflow.StageEnded]("its run", func(_ *World, at Path, e stage.Failed) []letter {
		return stageEnded(at, e.ExecutionID, e.Result, e.Error)
	}),
	on[stage.Cancelled, workflow.StageEnded]("its run", func(_ *World, at Path, e stage.Cancelled) []letter {
		return stageEnded(at, e.ExecutionID, e.Result, e.Reason)
	}),
	on[agent.Terminated, stage.AgentGone]("the stage it works for", func(_ *World, _ Path, e agent.Terminated) []letter {
		return toStage(e.Stage, stage.AgentGone{Reason: e.Reason})
	}),
	on[agent.Failed, stage.AgentGone]("the stage it works for", func(_ *World, _ Path, e agent.Failed) []letter {
		return toStage(e.Stage, stage.AgentGone{Reason: e.Error})
	}),
	on[tool.Result, stage.Submit]("its stage, if it is the completion", func(w *World, at Path, e tool.Result) []letter {
		if e.Status != tool.Success || !w.completes(at, e.Tool) {
			return nil
		}
		return toStage(w.stageOf(at), stage.Submit{CallID: e.CallID, Payload: e.Arguments})
	}),
	on[tool.Result, stage.Reject]("its stage, if it is a completion that does not do", func(w *World, at Path, e tool.Result) []letter {
		if e.Status != tool.Error || !w.completes(at, e.Tool) {
			return nil
		}
		return toStage(w.stageOf(at), stage.Reject{CallID: e.CallID, Error: e.Error})
	}),
}
