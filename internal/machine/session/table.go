// Package session is the room of one conversation: it takes messages, admits
// one turn after another, and can be paused, suspended, closed and archived.
package session

import (
	"encoding/json"

	"stave/internal/machine"
	"stave/internal/model"
)

const (
	created   machine.State = "created"
	active    machine.State = "active"
	paused    machine.State = "paused"
	suspended machine.State = "suspended"
	closing   machine.State = "closing"
	closed    machine.State = "closed"
	archived  machine.State = "archived"
)

// Commands.
type (
	// Create begins a conversation.
	Create struct{ Created }
	// Activate reports that an agent is ready.
	Activate struct{ AgentID string }
	// Say gives the conversation a message.
	Say struct {
		Text     string `json:"text"`
		Mode     string `json:"mode,omitzero"` // queue (default) or steer
		Headless bool   `json:"headless,omitzero"`
		// Images go with the text.
		Images []model.Image `json:"images,omitzero"`
	}
	// Proceed lets the session do what is next: admit a turn, suspend, close.
	Proceed struct{ Agents int } // agents and runs still alive
	// Spend reports a finished turn.
	Spend struct{ TurnEnded }
	// Pause stops after the present step.
	Pause struct {
		Reason string `json:"reason,omitzero"`
	}
	// Resume goes on after a pause.
	Resume struct {
		Headless bool `json:"headless,omitzero"`
	}
	// Suspend stops until a person intervenes.
	Suspend struct{ Reason, Info string }
	// Unsuspend goes on after a suspension.
	Unsuspend struct {
		Headless bool `json:"headless,omitzero"`
	}
	// Close ends the conversation after its present turn.
	Close struct {
		Reason string `json:"reason,omitzero"`
	}
	// Stop ends the conversation and everything that runs in it, now.
	Stop struct {
		Reason string `json:"reason,omitzero"`
	}
	// Recover reports that the process died while work was due.
	Recover struct {
		Progress bool // something ended since the last recovery
		Headless bool
	}
	// AgentGone reports an agent's end.
	AgentGone struct {
		AgentID string
		Root    bool
		Reason  string
	}
	// SetBudget gives the conversation new limits.
	SetBudget struct {
		Limit model.Amount `json:"limit"`
		// Reconcile takes back what was charged for calls whose use is not known.
		Reconcile bool `json:"reconcile,omitzero"`
	}
	// SwitchModel lets another model go on with the conversation.
	SwitchModel struct {
		Model string `json:"model"`
	}
	// Taint notes what kind of content has come into the conversation.
	Taint struct{ Tainted }
	// Remember keeps a person's answer for calls like the one it was given to.
	Remember struct{ Remembered }
	// BeginRun notes that a workflow runs in the conversation.
	BeginRun struct{ RunBegan }
	// EndRun notes what became of a workflow.
	EndRun struct{ RunEnded }
	// Rewind takes the conversation back to an earlier rune.
	Rewind struct {
		Seq        uint64 `json:"seq"`
		Checkpoint string `json:"checkpoint,omitzero"` // what the workspace goes back to, if it does
	}
	// KeepCheckpoint notes how the workspace was before something changed it.
	KeepCheckpoint struct{ Checkpointed }
	// Archive moves a closed conversation to cold storage.
	Archive struct{}
)

// Config is fixed when a conversation begins.
type Config struct {
	Mode           string  `json:"mode"` // ask, allowlist or yolo
	ReadOnly       bool    `json:"read_only,omitzero"`
	Model          string  `json:"model"`
	Dir            string  `json:"cwd"`
	System         string  `json:"system,omitzero"`
	MaxRequests    int     `json:"max_requests,omitzero"`
	MaxAttempts    int     `json:"max_attempts,omitzero"`
	ErrorThreshold int     `json:"error_threshold,omitzero"`
	AnswerMs       int64   `json:"answer_ms,omitzero"` // how long a question waits, 0 for ever
	Origin         *Origin `json:"origin,omitzero"`
	// Budget limits what the conversation may use, all its agents together.
	Budget model.Amount `json:"budget,omitzero"`
	// Rules are the gate's, frozen as they were when the conversation began.
	Rules json.RawMessage `json:"rules,omitzero"`
	// Sandbox is the level commands run at, and Network whether they may use it.
	Sandbox string `json:"sandbox,omitzero"`
	Network bool   `json:"network,omitzero"`
	// Trusted says that a person trusts what stands in the workspace. Else it counts
	// as written by others.
	Trusted bool `json:"trusted,omitzero"`
	// History is the transcript a fork starts from, so that it stands alone.
	History []model.Message `json:"history,omitzero"`
}

// First is the message a conversation begins with.
type First struct {
	Say
	By string
}

// Origin names where a fork comes from.
type Origin struct {
	Log  string `json:"log"`
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// Events. Each type is a rune kind.
type (
	// Created begins the conversation.
	Created struct {
		ConversationID string `json:"conversation_id"`
		RootAgentID    string `json:"root_agent_id"`
		Title          string `json:"title"`
		Headless       bool   `json:"headless,omitzero"`
		Config         Config `json:"config"`
		// First feeds the wire that says it: a conversation and its first message
		// are one batch, and the message is recorded once, as message_received.
		First *First `json:"-"`
	}
	// Activated says that the root agent is ready.
	Activated struct {
		RootAgentID string `json:"root_agent_id"`
	}
	// AgentJoined says that an agent became ready later on.
	AgentJoined struct {
		AgentID string `json:"agent_id"`
	}
	// AgentLost says that an agent ended.
	AgentLost struct {
		AgentID string `json:"agent_id"`
		Root    bool   `json:"root,omitzero"`
		Reason  string `json:"reason"`
	}
	// MessageReceived is an input that waits for its turn.
	MessageReceived struct {
		Message  uint64 `json:"message"`
		Text     string `json:"text"`
		Mode     string `json:"mode"`
		Headless bool   `json:"headless,omitzero"`

		Images []model.Image `json:"images,omitzero"`
	}
	// TurnAdmitted gives a waiting input to the root agent.
	TurnAdmitted struct {
		Turn    int    `json:"turn"`
		Message uint64 `json:"message"`
		Mode    string `json:"mode"`
		// Text and Images are recorded with the message and again as the turn's
		// input, not here.
		Text   string        `json:"-"`
		Images []model.Image `json:"-"`
	}
	// TurnEnded closes a turn's books in the session.
	TurnEnded struct {
		TurnID   string      `json:"turn_id"`
		Root     bool        `json:"root"`
		Outcome  string      `json:"outcome"`
		Reason   string      `json:"reason,omitzero"`
		Calls    int         `json:"calls"`
		Usage    model.Usage `json:"usage"`
		MicroUSD int64       `json:"micro_usd,omitzero"`
	}
	// Paused stops the conversation.
	Paused struct {
		Reason string `json:"reason"`
	}
	// Resumed goes on.
	Resumed struct {
		Headless bool `json:"headless,omitzero"`
	}
	// Suspended stops the conversation until a person intervenes.
	Suspended struct {
		Reason string `json:"reason"`
		Info   string `json:"budget_info,omitzero"`
	}
	// Unsuspended goes on.
	Unsuspended struct {
		Headless bool `json:"headless,omitzero"`
	}
	// BudgetSet says what the conversation may use from now on.
	BudgetSet struct {
		Limit      model.Amount `json:"limit"`
		Reconciled bool         `json:"reconciled,omitzero"`
	}
	// ModelSwitched says which model goes on.
	ModelSwitched struct {
		Model  string `json:"model"`
		Before string `json:"before"`
	}
	// Tainted says what kind of content came into the conversation, and from where.
	Tainted struct {
		Private   bool   `json:"private,omitzero"`   // the user's own files
		Untrusted bool   `json:"untrusted,omitzero"` // what others wrote
		Source    string `json:"source"`
	}
	// Remembered is an answer that holds for calls to come.
	Remembered struct {
		Tool   string `json:"tool"`
		Scope  string `json:"scope"`           // call: these very arguments; tool: whatever they are
		Digest string `json:"digest,omitzero"` // of the arguments
	}
	// RunBegan is a workflow that a person started.
	RunBegan struct {
		RunID    string `json:"run_id"`
		Name     string `json:"name"`
		Task     string `json:"task"`
		Headless bool   `json:"headless,omitzero"`
	}
	// RunEnded is what became of it: completed, failed or cancelled.
	RunEnded struct {
		RunID   string `json:"run_id"`
		Name    string `json:"name"`
		Outcome string `json:"outcome"`
		Text    string `json:"text,omitzero"` // for the conversation
	}
	// Rewound says that what came after a rune no longer counts.
	Rewound struct {
		Seq        uint64 `json:"to_seq"`
		Checkpoint string `json:"checkpoint,omitzero"` // what the workspace was put back to
	}
	// Checkpointed is how the workspace was before something changed it.
	Checkpointed struct {
		Blob    string `json:"blob"` // the list of its files
		Turn    string `json:"turn"`
		Files   int    `json:"files"`
		Skipped int    `json:"skipped,omitzero"` // too large, or too many
		Missed  string `json:"missed,omitzero"`  // why nothing was kept
	}
	// Recovered notes that the process died while work was due.
	Recovered struct {
		InARow   int  `json:"in_a_row"` // without anything ending in between
		Headless bool `json:"headless,omitzero"`
	}
	// Closing ends the agents.
	Closing struct {
		Reason string `json:"reason"`
		Force  bool   `json:"force,omitzero"`
	}
	// Stopping ends at once what a close was waiting for.
	Stopping struct {
		Reason string `json:"reason"`
	}
	// Closed seals the log.
	Closed struct {
		FinalStats Stats `json:"final_stats"`
	}
	// Archived says that the runes went to cold storage.
	Archived struct{}
)

// Machine is the table.
var Machine = machine.Make(machine.Machine[Data]{
	Name: "session",
	Boxes: []machine.Box{
		machine.Born().
			On(Create{}, created, Created{}),
		machine.Await(created, "the root agent is being made ready").
			On(Activate{}, active, Activated{}).
			On(AgentGone{}, created, AgentLost{}).
			On(BeginRun{}, created, RunBegan{}).
			On(EndRun{}, created, RunEnded{}).
			On(Proceed{}, suspended, Suspended{}).
			On(Recover{}, created, Recovered{}).
			May(Say{}, created, MessageReceived{}).
			May(SetBudget{}, created, BudgetSet{}).
			May(SwitchModel{}, created, ModelSwitched{}).
			May(Close{}, closing, Closing{}).
			May(Stop{}, closing, Closing{}),
		machine.Rest(active, "takes messages and runs turns").
			May(Say{}, active, MessageReceived{}).
			May(SetBudget{}, active, BudgetSet{}).
			May(SwitchModel{}, active, ModelSwitched{}).
			On(Taint{}, active, Tainted{}).
			On(Remember{}, active, Remembered{}).
			On(BeginRun{}, active, RunBegan{}).
			On(EndRun{}, active, RunEnded{}).
			On(KeepCheckpoint{}, active, Checkpointed{}).
			May(Rewind{}, active, Rewound{}).
			On(Proceed{}, active, TurnAdmitted{}).
			On(Proceed{}, suspended, Suspended{}).
			On(Spend{}, active, TurnEnded{}).
			On(Activate{}, active, AgentJoined{}).
			On(AgentGone{}, active, AgentLost{}).
			On(Recover{}, active, Recovered{}).
			On(Recover{}, suspended, Suspended{}).
			On(Suspend{}, suspended, Suspended{}).
			May(Pause{}, paused, Paused{}).
			May(Close{}, closing, Closing{}).
			May(Stop{}, closing, Closing{}),
		machine.Rest(paused, "stopped by a person; messages wait").
			May(Resume{}, active, Resumed{}).
			May(Say{}, paused, MessageReceived{}).
			May(SetBudget{}, paused, BudgetSet{}).
			May(SwitchModel{}, paused, ModelSwitched{}).
			On(Taint{}, paused, Tainted{}).
			On(EndRun{}, paused, RunEnded{}).
			May(Rewind{}, paused, Rewound{}).
			On(Spend{}, paused, TurnEnded{}).
			On(Activate{}, paused, AgentJoined{}).
			On(AgentGone{}, paused, AgentLost{}).
			On(Recover{}, paused, Recovered{}).
			May(Close{}, closing, Closing{}).
			May(Stop{}, closing, Closing{}),
		machine.Rest(suspended, "stopped by errors or a budget; a person must intervene").
			May(Unsuspend{}, active, Unsuspended{}).
			May(Say{}, suspended, MessageReceived{}).
			May(SetBudget{}, suspended, BudgetSet{}).
			May(SwitchModel{}, suspended, ModelSwitched{}).
			On(Taint{}, suspended, Tainted{}).
			On(EndRun{}, suspended, RunEnded{}).
			May(Rewind{}, suspended, Rewound{}).
			On(Spend{}, suspended, TurnEnded{}).
			On(Activate{}, suspended, AgentJoined{}).
			On(AgentGone{}, suspended, AgentLost{}).
			On(Recover{}, suspended, Recovered{}).
			May(Close{}, closing, Closing{}).
			May(Stop{}, closing, Closing{}),
		machine.Await(closing, "its agents are ending").
			On(Taint{}, closing, Tainted{}).
			On(EndRun{}, closing, RunEnded{}).
			On(Remember{}, closing, Remembered{}).
			On(KeepCheckpoint{}, closing, Checkpointed{}).
			May(SetBudget{}, closing, BudgetSet{}).
			On(Spend{}, closing, TurnEnded{}).
			On(AgentGone{}, closing, AgentLost{}).
			On(Recover{}, closing, Recovered{}).
			On(Proceed{}, closed, Closed{}).
			May(Stop{}, closing, Stopping{}),
		machine.Rest(closed, "sealed").
			May(Archive{}, archived, Archived{}),
		machine.End(archived, "in cold storage; still listed, restorable"),
	},
	Decide: decide,
	Evolve: evolve,
})
