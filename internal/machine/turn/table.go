// Package turn is the room of one turn: an input, model answers and tool rounds
// until the model is done, is stopped, or fails.
package turn

import (
	"encoding/json"

	"stave/internal/machine"
	"stave/internal/model"
)

const (
	idle          machine.State = "idle"
	streaming     machine.State = "streaming"
	toolExecuting machine.State = "tool_executing"
	interrupted   machine.State = "interrupted"
	completed     machine.State = "completed"
	errored       machine.State = "error"
)

// Commands.
type (
	// Start begins the turn.
	Start struct{ Started }
	// Delta passes on a fragment of the model's answer.
	Delta struct {
		Text      string
		Reasoning string
		ItemDone  bool // a safe boundary
	}
	// Reserve sets aside the most a model call can cost, before it is made.
	Reserve struct{ Amount model.Amount }
	// Compact replaces the older part of what the model is shown by a summary.
	Compact struct{ Compacted }
	// ReceiveToolCalls ends a model answer that asks for tools.
	ReceiveToolCalls struct {
		Output []model.Part
		Calls  []Proposal
		Bill
	}
	// Finish ends the turn with the model's answer.
	Finish struct {
		Output []model.Part
		Stop   model.StopReason
		Bill
	}
	// Fail reports that a model call failed, or that tools cannot be run at all.
	Fail struct {
		Type       string
		Message    string
		Retryable  bool
		RetryMs    int64 // what the provider asked us to wait
		Free       bool  // the provider did not begin: nothing was used
		JitterSeed int64 // randomness enters with the command
	}
	// ToolDone reports one call's result.
	ToolDone struct {
		CallID string
		Status string
		// Concludes says that nothing is left for the model to say: the turn ends
		// with its calls.
		Concludes bool
	}
	// Boundary is a place where a held steer or pause may take effect.
	Boundary struct{}
	// Interrupt stops the turn now.
	Interrupt struct {
		Note   string `json:"note,omitzero"` // a person's words
		Reason string `json:"-"`             // the runtime's: the session goes by it
	}
	// Steer stops the turn at the next safe boundary; the new input follows.
	Steer struct{}
	// Pause stops the turn at the next safe boundary.
	Pause struct{ Reason string }
	// Finalize returns an ended turn to rest.
	Finalize struct{}
)

// Bill is what one model call cost.
type Bill struct {
	Usage    model.Usage `json:"usage"`
	MicroUSD int64       `json:"micro_usd,omitzero"`
	Unsure   bool        `json:"usage_unknown,omitzero"` // the provider did not say: the reservation stands
}

// Proposal is a tool call of the model, checked and frozen.
type Proposal struct {
	CallID   string
	Tool     string
	Args     json.RawMessage
	Digest   string
	Defined  string // what the tool was, see tool.Call
	Safety   string
	Parallel bool
	Invalid  string
	Alias    string
	Opaque   string
	Origin   string
	Traits   []string
	Guards   []Guarded
	Waits    bool // for an agent, and does nothing else: asking again is no loop
	Last     bool // it runs after all others of its answer
}

// Guarded is what a guard hook said of a call.
type Guarded struct{ Answer, By, Reason string }

// Input is what a turn answers.
type Input struct {
	Text    string `json:"text"`
	Mode    string `json:"mode"`    // queue, steer, continue
	Message uint64 `json:"message"` // seq of the message it consumes

	Images []model.Image `json:"images,omitzero"`
}

// Events. Each type is a rune kind.
type (
	// Started begins the turn.
	Started struct {
		TurnID      string `json:"turn_id"`
		Number      int    `json:"number"`
		AgentID     string `json:"agent_id"`
		Input       Input  `json:"input"`
		MaxRequests int    `json:"max_requests,omitzero"`
		MaxAttempts int    `json:"max_attempts,omitzero"`
	}
	// Reserved is what the model call that follows may cost at most.
	Reserved struct {
		Request int `json:"request"`
		Attempt int `json:"attempt"`
		model.Amount
	}
	// Compacted says that a summary stands for the first messages from now on.
	Compacted struct {
		Messages int    `json:"messages"` // how many it stands for
		Summary  string `json:"summary"`
		Before   int64  `json:"before_tokens"` // of the next request, estimated
		After    int64  `json:"after_tokens"`
		Bill
	}
	// AssistantDelta is a fragment of the answer.
	AssistantDelta struct {
		Content   string `json:"content,omitzero"`
		Reasoning string `json:"reasoning,omitzero"`
		ItemDone  bool   `json:"item_done,omitzero"`
	}
	// ToolCallsReceived ends a model answer that asks for tools.
	ToolCallsReceived struct {
		CallIDs []string `json:"call_ids"`
		Groups  []int    `json:"groups"`
		// Mark is the same for answers that ask for the same calls.
		Mark   string       `json:"mark,omitzero"`
		Output []model.Part `json:"output,omitzero"`
		Bill
		// Calls feeds the wire that proposes them; each is recorded once, as tool.call.
		Calls []Proposal `json:"-"`
	}
	// CallFinished notes one result while others are open.
	CallFinished struct {
		CallID    string `json:"call_id"`
		Status    string `json:"status"`
		Concludes bool   `json:"concludes,omitzero"`
	}
	// ToolsFinished returns the results to the model.
	ToolsFinished struct {
		Results []Summary `json:"results"`
	}
	// Retried begins the model call again; what the failed attempt said is void.
	Retried struct {
		Attempt int    `json:"attempt"`
		Why     string `json:"why"`
		WaitMs  int64  `json:"wait_ms,omitzero"`
		Free    bool   `json:"free,omitzero"` // the failed attempt used nothing
	}
	// StopRequested notes that the turn is to end, when it cannot end at once.
	StopRequested struct {
		Stop    Stop   `json:"stop"`
		Reason  string `json:"reason,omitzero"`
		Message string `json:"message,omitzero"`
	}
	// Completed is a turn that ended well.
	Completed struct {
		FinalOutput string       `json:"final_output"`
		Output      []model.Part `json:"output,omitzero"`
		Reason      string       `json:"reason"` // end, length, refusal, max_requests, concluded
		Bill
	}
	// Interrupted is a turn that was stopped; what was said until then is kept.
	Interrupted struct {
		Reason        string `json:"reason"`
		PartialOutput string `json:"partial_output"`
		Bill          *Bill  `json:"bill,omitzero"` // of an answer that came whole and was not used
	}
	// Error is a turn that failed.
	Error struct {
		Type    string `json:"error_type"`
		Message string `json:"message"`
		Free    bool   `json:"free,omitzero"`
	}
	// Finalized closes the turn's books.
	Finalized struct {
		TurnID   string      `json:"turn_id"`
		Outcome  string      `json:"outcome"`
		Reason   string      `json:"reason,omitzero"`
		Requests int         `json:"requests"`
		Calls    int         `json:"calls"`
		Usage    model.Usage `json:"usage"`
		MicroUSD int64       `json:"micro_usd,omitzero"`
		// Output feeds the wire that hands it to the agent; it is recorded as the
		// answer already.
		Output string `json:"-"`
		// Unanswered says that its last model request was cut off.
		Unanswered bool `json:"-"`
	}
)

// Summary is one call's end, as tools_finished lists it.
type Summary struct {
	CallID string `json:"call_id"`
	Status string `json:"status"`
}

// Internal marks runes that are of no use to a reader of the conversation.
func (Retried) Internal() {}

// Lazy marks runes that may be written without waiting for the disk.
func (AssistantDelta) Lazy() bool { return true }

// Machine is the table.
var Machine = machine.Make(machine.Machine[Data]{
	Name:    "turn",
	Initial: idle,
	Boxes: []machine.Box{
		machine.Rest(idle, "nothing is running").
			On(Start{}, streaming, Started{}),
		machine.Work(streaming, CallModel{}, "the model is answering").
			On(Reserve{}, streaming, Reserved{}).
			On(Compact{}, streaming, Compacted{}).
			On(Delta{}, streaming, AssistantDelta{}).
			On(ReceiveToolCalls{}, toolExecuting, ToolCallsReceived{}).
			On(ReceiveToolCalls{}, interrupted, Interrupted{}).
			On(Finish{}, completed, Completed{}).
			On(Fail{}, streaming, Retried{}).
			On(Fail{}, errored, Error{}).
			On(machine.Lost{}, streaming, Retried{}).
			On(machine.Late{}, streaming, Retried{}).
			On(machine.Late{}, errored, Error{}).
			On(Steer{}, streaming, StopRequested{}).
			On(Pause{}, streaming, StopRequested{}).
			On(Boundary{}, interrupted, Interrupted{}).
			May(Interrupt{}, interrupted, Interrupted{}),
		machine.Await(toolExecuting, "tools are running or waiting for a person").
			On(ToolDone{}, toolExecuting, CallFinished{}).
			On(ToolDone{}, streaming, ToolsFinished{}).
			On(ToolDone{}, completed, Completed{}).
			On(ToolDone{}, interrupted, Interrupted{}).
			On(ToolDone{}, errored, Error{}).
			On(Steer{}, toolExecuting, StopRequested{}).
			On(Pause{}, toolExecuting, StopRequested{}).
			On(Fail{}, toolExecuting, StopRequested{}).
			May(Interrupt{}, toolExecuting, StopRequested{}),
		machine.Await(interrupted, "stopped; partial output is kept").
			On(Finalize{}, idle, Finalized{}),
		machine.Await(completed, "done").
			On(Finalize{}, idle, Finalized{}),
		machine.Await(errored, "failed").
			On(Finalize{}, idle, Finalized{}),
	},
	Decide: decide,
	Evolve: evolve,
	Due:    due,
})
