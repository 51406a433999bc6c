// Package workflow is the room of one run of a workflow: it alone decides which
// stage comes next.
package workflow

import (
	"encoding/json"

	"stave/internal/machine"
	"stave/internal/model"
)

const (
	running   machine.State = "running"
	choosing  machine.State = "choosing"
	changed   machine.State = "changed"
	stopping  machine.State = "stopping"
	completed machine.State = "completed"
	failed    machine.State = "failed"
	cancelled machine.State = "cancelled"
)

// Commands.
type (
	// Start begins a run.
	Start struct {
		Started
		Stages []Brief // what is to be known of each stage, the first one first
	}
	// Proceed lets the run do what is next: begin a stage that waits, go on to the
	// join, ask for the next stages, or end.
	Proceed struct{}
	// StageEnded reports the end of a stage.
	StageEnded struct{ StageDone }
	// Choose says what follows the last stage; no stages end the run.
	Choose struct{ StagesChosen }
	// Break reports that nobody can say what comes next.
	Break struct{ Error string }
	// Drift reports that the definition in use now is not the one of this run.
	Drift struct{ Hash string }
	// GoOn is a person's order to go on by the definition the run began with.
	GoOn struct {
		By string `json:"by"`
	}
	// Cancel ends the run and everything in it.
	Cancel struct {
		Reason string `json:"reason,omitzero"`
	}
)

// Brief is what a run tells a stage about itself.
type Brief struct {
	Stage       string       `json:"stage"`
	Completion  string       `json:"completion_tool"`
	TurnCap     int          `json:"turn_cap"`
	MaxAttempts int          `json:"max_attempts"`
	Model       string       `json:"model,omitzero"`
	Budget      model.Amount `json:"budget,omitzero"`
}

// Result is what a run knows of a stage that ended.
type Result struct {
	Stage   string          `json:"stage"`
	Status  string          `json:"status"`
	Attempt int             `json:"attempt"`
	Visit   int             `json:"visit"`
	Turns   int             `json:"turns"`
	CapHit  bool            `json:"capHit,omitzero"`
	Output  json.RawMessage `json:"output,omitzero"`
}

// How stages run that were chosen together.
const (
	Sequential = "sequential"
	Parallel   = "parallel"
)

// Events. Each type is a rune kind.
type (
	// Started begins the run. The definition is kept, so that a run ends by the
	// rules it began with.
	Started struct {
		RunID      string          `json:"run_id"`
		Name       string          `json:"name"`
		Hash       string          `json:"definition_hash"`
		Definition json.RawMessage `json:"definition"`
		Source     string          `json:"source,omitzero"` // where the definition was found
		Task       string          `json:"task"`
		ParentID   string          `json:"parent_id"`       // the agent its stages' agents work under
		Budget     model.Amount    `json:"budget,omitzero"` // of the whole run
		Parallel   int             `json:"parallel_cap"`
		Headless   bool            `json:"headless,omitzero"`
	}
	// StagesChosen says what comes next.
	StagesChosen struct {
		After     string  `json:"after,omitzero"` // the stage whose rule said so
		Stages    []Brief `json:"stages"`
		Execution string  `json:"execution"`
		Join      *Brief  `json:"join,omitzero"`
	}
	// StageBegun lets a chosen stage begin.
	StageBegun struct {
		ExecutionID string `json:"stage_execution_id"`
		Visit       int    `json:"visit"`
		Brief
	}
	// StageDone notes the end of a stage.
	StageDone struct {
		ExecutionID string `json:"stage_execution_id"`
		Result      Result `json:"result"`
		Error       string `json:"error,omitzero"`
	}
	// NextDue asks the rules of the last stage what follows.
	NextDue struct {
		Stage string `json:"stage"`
	}
	// DefinitionChanged says that the definition is another now.
	DefinitionChanged struct {
		Hash string `json:"hash"`
	}
	// DefinitionRestored says that the definition is again the one of this run.
	DefinitionRestored struct {
		Hash string `json:"hash"`
	}
	// Confirmed says who lets the run go on by its own definition.
	Confirmed struct {
		By string `json:"by"`
	}
	// Stopping ends what still runs.
	Stopping struct {
		Reason string `json:"reason"`
		Failed bool   `json:"failed,omitzero"`
	}
	// Completed is a run that got to its end.
	Completed struct {
		RunID   string   `json:"run_id"`
		Name    string   `json:"name"`
		Results []Result `json:"results"`
		// Ends are the stages after which nothing came.
		Ends []string `json:"ends"`
	}
	// Failed is a run that did not.
	Failed struct {
		RunID string `json:"run_id"`
		Name  string `json:"name"`
		Stage string `json:"stage,omitzero"`
		Error string `json:"error"`
	}
	// Cancelled is a run that somebody ended.
	Cancelled struct {
		RunID  string `json:"run_id"`
		Name   string `json:"name"`
		Reason string `json:"reason"`
	}
)

// Machine is the table.
var Machine = machine.Make(machine.Machine[Data]{
	Name: "workflow",
	Boxes: []machine.Box{
		machine.Born().
			May(Start{}, running, Started{}, StagesChosen{}),
		machine.Await(running, "see its stages").
			On(Proceed{}, running, StageBegun{}).
			On(Proceed{}, running, StagesChosen{}).
			On(Proceed{}, choosing, NextDue{}).
			On(Proceed{}, completed, Completed{}).
			On(StageEnded{}, running, StageDone{}).
			On(StageEnded{}, stopping, StageDone{}, Stopping{}).
			On(Drift{}, changed, DefinitionChanged{}).
			May(Cancel{}, stopping, Stopping{}),
		machine.Work(choosing, ChooseNext{}, "the rules of the last stage say what follows").
			On(Choose{}, running, StagesChosen{}).
			On(Choose{}, completed, Completed{}).
			On(Break{}, failed, Failed{}).
			On(Drift{}, changed, DefinitionChanged{}).
			May(Cancel{}, stopping, Stopping{}),
		machine.Ask(changed, MayGoOn{}, "its definition was changed after it began; nothing goes on before a person says so").
			May(GoOn{}, running, Confirmed{}).
			On(Drift{}, running, DefinitionRestored{}).
			On(Drift{}, changed, DefinitionChanged{}).
			On(machine.Late{}, stopping, Stopping{}).
			On(StageEnded{}, changed, StageDone{}).
			On(StageEnded{}, stopping, StageDone{}, Stopping{}).
			May(Cancel{}, stopping, Stopping{}),
		machine.Await(stopping, "what still runs in it is ending").
			On(StageEnded{}, stopping, StageDone{}).
			On(Proceed{}, failed, Failed{}).
			On(Proceed{}, cancelled, Cancelled{}),
		machine.End(completed, ""),
		machine.End(failed, ""),
		machine.End(cancelled, ""),
	},
	Decide: decide,
	Evolve: evolve,
	Due:    due,
})
