// Package stage is the room of one stage execution: a bounded piece of work on a
// fresh transcript, tried until it is done, skipped or given up.
package stage

import (
	"encoding/json"

	"stave/internal/machine"
	"stave/internal/model"
)

const (
	setup     machine.State = "setup"
	initial   machine.State = "init"
	gate      machine.State = "check_gate"
	acting    machine.State = "act"
	asserting machine.State = "assert"
	exiting   machine.State = "exit"
	retrying  machine.State = "retrying"
	stopping  machine.State = "stopping"
	exited    machine.State = "exited"
	failed    machine.State = "failed"
	cancelled machine.State = "cancelled"
)

// Commands.
type (
	// Begin brings a stage execution into being.
	Begin struct{ Begun }
	// Prepare ends Setup: the context is filled and the tools are known.
	Prepare struct{ Prepared }
	// Initialize ends Init: the prompt is written.
	Initialize struct{ Prompt string }
	// Gate ends CheckGate with its verdict: proceed, retry or skip.
	Gate struct{ Verdict string }
	// Submit reports a completion payload that its schema accepts.
	Submit struct {
		CallID  string
		Payload json.RawMessage
	}
	// Reject reports a completion payload that its schema does not accept.
	Reject struct{ CallID, Error string }
	// EndTurn reports that a turn of its agent is over.
	EndTurn struct {
		Requests int
		Outcome  string
		Reason   string
		Cut      bool // it goes on when the conversation does
	}
	// AgentGone reports that its agent ended by itself.
	AgentGone struct{ Reason string }
	// Assert ends Assert with its verdict: ok, retry, skip or fail.
	Assert struct{ Verdict, Reason string }
	// Exit lets the stage build its result and leave.
	Exit struct{}
	// Again begins the next attempt.
	Again struct{}
	// Break reports that a phase could not be done at all.
	Break struct{ Error string }
	// Cancel ends the stage and all that runs in it.
	Cancel struct{ Reason string }
)

// Limits bound what a stage's agent may do.
type Limits struct {
	Model       string       `json:"model,omitzero"`
	Budget      model.Amount `json:"budget,omitzero"` // of one attempt
	TurnCap     int          `json:"turn_cap"`        // model requests of one attempt
	MaxAttempts int          `json:"max_attempts"`
	Completion  string       `json:"completion_tool"`
}

// Events. Each type is a rune kind.
type (
	// Begun says what is to be done, for the how-manieth time in this run.
	Begun struct {
		ExecutionID string `json:"stage_execution_id"`
		Stage       string `json:"stage"`
		Visit       int    `json:"visit"`
		ParentID    string `json:"parent_id"` // the agent its own works under
		Limits
	}
	// Prepared is the end of Setup. The context is not written to after it.
	Prepared struct {
		Context json.RawMessage `json:"context"`
		Tools   []string        `json:"allowed_tools"` // those its conversation has
		All     bool            `json:"all_tools,omitzero"`
		Dropped []string        `json:"dropped_tools,omitzero"`
	}
	// Initialized is the end of Init: what the model is told first.
	Initialized struct {
		Prompt string `json:"prompt"`
	}
	// GateChecked is the end of CheckGate for a stage that does not act.
	GateChecked struct {
		Verdict string `json:"verdict"`
	}
	// ActStarted lets a new agent begin on a fresh transcript.
	ActStarted struct {
		AgentID string `json:"agent_id"`
		Attempt int    `json:"attempt"`
	}
	// CompletionRejected is a payload that is not what the stage asks for.
	CompletionRejected struct {
		CallID string `json:"call_id"`
		Error  string `json:"error"`
	}
	// CompletionAccepted is a payload that its schema accepts.
	CompletionAccepted struct {
		CallID  string          `json:"call_id"`
		Payload json.RawMessage `json:"payload"`
	}
	// TurnTaken counts a turn that goes on later.
	TurnTaken struct {
		Requests int `json:"requests"`
	}
	// Reminded tells a model that stopped without completing what is missing.
	Reminded struct {
		Requests int `json:"requests"`
		Left     int `json:"turns_left"`
	}
	// ActEnded is the end of Act, however it came.
	ActEnded struct {
		Requests int    `json:"requests"`
		CapHit   bool   `json:"cap_hit,omitzero"`
		Error    string `json:"error,omitzero"` // why the agent could not go on
	}
	// Asserted is the end of Assert: ok, skip or fail.
	Asserted struct {
		Verdict string `json:"verdict"`
		Reason  string `json:"reason,omitzero"`
	}
	// Retried is the end of Assert where another attempt is worth it.
	Retried struct {
		Next   int    `json:"next_attempt"`
		Reason string `json:"reason"`
	}
	// Reentered begins another attempt.
	Reentered struct {
		Attempt int `json:"attempt"`
	}
	// Exited is a stage that is done or was skipped.
	Exited struct {
		ExecutionID string `json:"stage_execution_id"`
		Result      Result `json:"result"`
	}
	// Failed is a stage that did not get there.
	Failed struct {
		ExecutionID string `json:"stage_execution_id"`
		Phase       string `json:"phase"`
		Error       string `json:"error"`
		Result      Result `json:"result"`
	}
	// Stopping ends the agent of a cancelled stage.
	Stopping struct {
		Reason string `json:"reason"`
	}
	// Cancelled is a stage that somebody ended.
	Cancelled struct {
		ExecutionID string `json:"stage_execution_id"`
		Reason      string `json:"reason"`
		Result      Result `json:"result"`
	}
)

// Result is all that others learn of a stage. Its transcript is no part of it.
type Result struct {
	Stage   string          `json:"stage"`
	Status  string          `json:"status"`
	Attempt int             `json:"attempt"`
	Visit   int             `json:"visit"`
	Turns   int             `json:"turns"`
	CapHit  bool            `json:"capHit,omitzero"`
	Output  json.RawMessage `json:"output,omitzero"`
}

// Machine is the table.
var Machine = machine.Make(machine.Machine[Data]{
	Name: "stage",
	Boxes: []machine.Box{
		machine.Born().
			On(Begin{}, setup, Begun{}),
		machine.Work(setup, SetUp{}, "its tools are looked up and its context is filled").
			On(Prepare{}, initial, Prepared{}).
			On(Break{}, failed, Failed{}).
			On(Cancel{}, cancelled, Cancelled{}),
		machine.Work(initial, Render{}, "its prompt is written").
			On(Initialize{}, gate, Initialized{}).
			On(Break{}, failed, Failed{}).
			On(Cancel{}, cancelled, Cancelled{}),
		machine.Work(gate, CheckGate{}, "its rule says whether it begins").
			On(Gate{}, acting, ActStarted{}).
			On(Gate{}, asserting, GateChecked{}).
			On(Break{}, failed, Failed{}).
			On(Cancel{}, cancelled, Cancelled{}),
		machine.Await(acting, "its agent is at work").
			On(Submit{}, acting, CompletionAccepted{}).
			On(Reject{}, acting, CompletionRejected{}).
			On(EndTurn{}, acting, TurnTaken{}).
			On(EndTurn{}, acting, Reminded{}).
			On(EndTurn{}, asserting, ActEnded{}).
			On(AgentGone{}, asserting, ActEnded{}).
			On(Cancel{}, stopping, Stopping{}),
		machine.Work(asserting, Judge{}, "its rule says what the attempt came to").
			On(Assert{}, exiting, Asserted{}).
			On(Assert{}, retrying, Retried{}).
			On(Break{}, failed, Failed{}).
			On(Cancel{}, cancelled, Cancelled{}),
		machine.Work(retrying, Wait{}, "it waits before it tries again").
			On(Again{}, setup, Reentered{}).
			On(Cancel{}, cancelled, Cancelled{}),
		machine.Await(exiting, "its result is put together").
			On(Exit{}, exited, Exited{}).
			On(Exit{}, failed, Failed{}),
		machine.Await(stopping, "its agent is ending").
			On(AgentGone{}, cancelled, Cancelled{}),
		machine.End(exited, ""),
		machine.End(failed, ""),
		machine.End(cancelled, ""),
	},
	Decide: decide,
	Evolve: evolve,
	Due:    due,
})
