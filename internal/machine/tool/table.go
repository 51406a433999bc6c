// Package tool is the room of one tool call: from the model's proposal through
// the gate and the work to exactly one result.
package tool

import (
	"encoding/json"

	"stave/internal/machine"
)

const (
	pendingCall      machine.State = "pending_call"
	awaitingApproval machine.State = "awaiting_approval"
	executing        machine.State = "executing"
	outcomeUnknown   machine.State = "outcome_unknown"
	denied           machine.State = "denied"
	completedResult  machine.State = "completed_result"
	errorResult      machine.State = "error_result"
	timeoutResult    machine.State = "timeout_result"
	cancelledResult  machine.State = "cancelled_result"
	unknownResult    machine.State = "unknown_result"
)

// Commands.
type (
	// Propose records a call the model made.
	Propose struct{ Call }
	// Judge carries the gate's verdict to a call whose place in the order has come.
	Judge struct{ Verdict }
	// Approve lets a waiting call run.
	Approve struct {
		By     string `json:"by"`
		Digest string `json:"digest,omitzero"` // of the arguments the person saw
		// Remember makes the answer hold for calls to come: "" for this one only,
		// "call" for the same arguments, "tool" for whatever this tool is asked.
		Remember string `json:"remember,omitzero"`
	}
	// Reply is what a person says to a call that is a question.
	Reply struct {
		By   string `json:"by"`
		Text string `json:"text"`
	}
	// Deny refuses a waiting call for good.
	Deny struct {
		By     string `json:"by"`
		Reason string `json:"reason,omitzero"`
	}
	// Defer leaves a grant undecided; the stage goes on without the call.
	Defer struct {
		By string `json:"by"`
	}
	// Report passes on what a running call prints, or declares an effect before it begins.
	Report struct {
		Stream string          `json:"stream,omitzero"`
		Chunk  string          `json:"chunk,omitzero"`
		Bytes  int64           `json:"bytes,omitzero"` // of the output this stands for
		Intent json.RawMessage `json:"intent,omitzero"`
	}
	// Succeed ends a call with its output.
	Succeed struct{ Output }
	// Fail ends a call with an ordinary error the model is told about.
	Fail struct {
		Error string
		Output
	}
	// Expire ends a call that ran into its own time limit.
	Expire struct{ Output }
	// Crash ends a call whose router broke: the turn cannot go on.
	Crash struct{ Error string }
	// Doubt says that nobody can tell whether the effect happened.
	Doubt struct{ Known string }
	// Cancel ends a call because its turn is ending.
	Cancel struct{ Reason string }
	// Withdraw ends a call that has not begun; a running one goes on.
	Withdraw struct{ Reason string }
	// Reattach takes up a run that outlived the process that had started it.
	Reattach struct{}
	// Happened is a person's word that a lost effect took place.
	Happened struct {
		By     string `json:"by"`
		Output string `json:"output,omitzero"`
	}
	// NotHappened is a person's word that a lost effect did not take place.
	NotHappened struct {
		By string `json:"by"`
	}
	// Retry is a person's order to run a lost call again.
	Retry struct {
		By string `json:"by"`
	}
	// GiveUp ends a lost call with an unknown outcome: nobody is there to ask.
	GiveUp struct{ Reason string }
)

// Events. Each type is a rune kind.
type (
	// Call is the model's proposal as it will run: canonical arguments, frozen.
	Call struct {
		CallID    string          `json:"call_id"`
		Tool      string          `json:"tool_name"`
		Arguments json.RawMessage `json:"arguments"`
		Digest    string          `json:"args_digest"`
		Defined   string          `json:"tool_digest,omitzero"` // of what the tool said of itself; part of Digest
		Safety    string          `json:"safety"`
		Parallel  bool            `json:"parallel,omitzero"`
		Group     int             `json:"group"`            // calls of one group run side by side
		Invalid   string          `json:"invalid,omitzero"` // why it cannot run at all
		Alias     string          `json:"alias,omitzero"`   // the provider's own id
		Opaque    string          `json:"opaque,omitzero"`  // goes back to the provider with the call
		Origin    string          `json:"origin,omitzero"`  // the kind of provider Opaque is for
		Traits    []string        `json:"traits,omitzero"`  // what it touches: see the Trait constants
		Guards    []Verdict       `json:"guards,omitzero"`  // what the guard hooks said of it
		Waits     bool            `json:"waits,omitzero"`   // for an agent, and does nothing else
	}
	// ApprovalRequested asks a person.
	ApprovalRequested struct {
		CallID string `json:"call_id"`
		Digest string `json:"args_digest"`
		Reason string `json:"policy_reason"`
		// Grant names the stage whose tools the call is not among.
		Grant Grant `json:"grant,omitzero"`
	}
	// Approved says who or which rule let the call run.
	Approved struct {
		CallID   string `json:"call_id"`
		Approver string `json:"approver"`
		Digest   string `json:"args_digest"`
		Remember string `json:"remember,omitzero"`
		Plain    bool   `json:"plain,omitzero"` // it runs as argv, without a shell
	}
	// Denied says who or which rule refused the call.
	Denied struct {
		CallID string `json:"call_id"`
		Reason string `json:"reason"`
		By     string `json:"denied_by"`
	}
	// Progress is output while the call runs, or a declared intent.
	Progress struct {
		CallID string          `json:"call_id"`
		Stream string          `json:"stream,omitzero"`
		Chunk  string          `json:"chunk,omitzero"`
		Bytes  int64           `json:"bytes,omitzero"` // of the output, which may be more than is shown
		Intent json.RawMessage `json:"intent,omitzero"`
	}
	// Restarted begins a call again after its outcome was lost.
	Restarted struct {
		CallID  string `json:"call_id"`
		Attempt int    `json:"attempt"`
		Why     string `json:"why"`
	}
	// Reattached says that a run went on while nobody listened, and is listened to again.
	Reattached struct {
		CallID string `json:"call_id"`
		Times  int    `json:"times"`
	}
	// OutcomeUnknown says that the effect may or may not have happened.
	OutcomeUnknown struct {
		CallID string `json:"call_id"`
		Known  string `json:"known"`
	}
	// Result is the one terminal fact of a call.
	Result struct {
		CallID  string `json:"call_id"`
		Status  Status `json:"status"`
		Error   string `json:"error,omitzero"`
		Crashed bool   `json:"crashed,omitzero"`
		Output
		// Tool, Arguments and Traits, of a call that has run, feed the wires that tell
		// the session what came in and a stage what was submitted; the call itself
		// records them.
		Tool      string          `json:"-"`
		Arguments json.RawMessage `json:"-"`
		Traits    []string        `json:"-"`
	}
)

// Output is what a call leaves behind.
type Output struct {
	Text string          `json:"output,omitzero"`
	Blob string          `json:"blob,omitzero"` // sha256 of the whole output where Text was cut
	Meta json.RawMessage `json:"meta,omitzero"`
}

// Status sorts results.
type Status string

// Statuses.
const (
	Success   Status = "success"
	Error     Status = "error"
	Timeout   Status = "timeout"
	Cancelled Status = "cancelled"
	Refused   Status = "denied"
	Unknown   Status = "unknown"
)

// Lazy reports whether the rune may be written without waiting for the disk: a
// declared intent may not.
func (p Progress) Lazy() bool { return p.Intent == nil }

// Machine is the table.
var Machine = machine.Make(machine.Machine[Data]{
	Name: "tool",
	Boxes: []machine.Box{
		machine.Born().
			On(Propose{}, pendingCall, Call{}),
		machine.Await(pendingCall, "waits for its place in the order, then for the gate").
			On(Judge{}, awaitingApproval, ApprovalRequested{}).
			On(Judge{}, executing, Approved{}).
			On(Judge{}, denied, Denied{}, Result{}).
			On(Judge{}, errorResult, Result{}).
			On(Cancel{}, cancelledResult, Result{}).
			On(Withdraw{}, cancelledResult, Result{}),
		machine.Ask(awaitingApproval, MayRun{}, "a person decides whether it may run").
			May(Approve{}, executing, Approved{}).
			May(Reply{}, completedResult, Result{}).
			May(Deny{}, denied, Denied{}, Result{}).
			May(Defer{}, denied, Denied{}, Result{}).
			On(machine.Late{}, timeoutResult, Result{}).
			On(machine.Late{}, denied, Denied{}, Result{}).
			On(Cancel{}, cancelledResult, Result{}).
			On(Withdraw{}, cancelledResult, Result{}),
		machine.Work(executing, RunTool{}, "the tool is running").
			On(Report{}, executing, Progress{}).
			On(Reattach{}, executing, Reattached{}).
			On(Succeed{}, completedResult, Result{}).
			On(Fail{}, errorResult, Result{}).
			On(Crash{}, errorResult, Result{}).
			On(Expire{}, timeoutResult, Result{}).
			On(machine.Late{}, timeoutResult, Result{}).
			On(Cancel{}, cancelledResult, Result{}).
			On(Doubt{}, outcomeUnknown, OutcomeUnknown{}).
			On(machine.Lost{}, executing, Restarted{}).
			On(machine.Lost{}, outcomeUnknown, OutcomeUnknown{}),
		machine.Ask(outcomeUnknown, WhatHappened{}, "the process died while it ran; only a person can tell").
			May(Happened{}, completedResult, Result{}).
			May(NotHappened{}, errorResult, Result{}).
			May(Retry{}, executing, Restarted{}).
			On(GiveUp{}, unknownResult, Result{}).
			On(machine.Late{}, unknownResult, Result{}).
			On(Cancel{}, unknownResult, Result{}).
			On(Withdraw{}, unknownResult, Result{}),
		machine.End(denied, "refused; it never ran"),
		machine.End(completedResult, ""),
		machine.End(errorResult, ""),
		machine.End(timeoutResult, ""),
		machine.End(cancelledResult, ""),
		machine.End(unknownResult, "the model is told that nobody knows"),
	},
	Decide: decide,
	Evolve: evolve,
	Due:    due,
})
