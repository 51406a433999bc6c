// Package agent is the room of one agent: it is made ready, takes one turn at a
// time, and ends.
package agent

import (
	"stave/internal/machine"
	"stave/internal/model"
)

const (
	spawning    machine.State = "spawning"
	idle        machine.State = "idle"
	runningTurn machine.State = "running_turn"
	terminated  machine.State = "terminated"
	failed      machine.State = "failed"
)

// Commands.
type (
	// Spawn brings an agent into being.
	Spawn struct{ Spawning }
	// BecomeReady reports that the agent's model and tools are there.
	BecomeReady struct{}
	// FailInit reports why the agent cannot be made ready.
	FailInit struct{ Error string }
	// Assign gives the agent a turn.
	Assign struct{ Work }
	// EndTurn reports that the agent's turn is over.
	EndTurn struct {
		TurnID  string
		Outcome string
		Output  string
		Cut     bool // by a stop of the conversation: it goes on when that does
	}
	// Tell gives the agent something to do. The root agent hears from its session.
	Tell struct{ Told }
	// Proceed lets the agent take up what it was told.
	Proceed struct {
		MaxRequests int
		MaxAttempts int
	}
	// Kill ends the agent: at once if forced, else after its turn.
	Kill struct {
		Reason string
		Force  bool
	}
	// ExhaustBudget ends the agent because it has used up what it was given.
	ExhaustBudget struct{ Limit string }
)

// Work is what a turn of this agent is to do.
type Work struct {
	Turn        int           `json:"turn"`
	Text        string        `json:"-"` // recorded as the turn's input
	Images      []model.Image `json:"-"`
	Mode        string        `json:"mode"`
	Message     uint64        `json:"message"`
	MaxRequests int           `json:"max_requests,omitzero"`
	MaxAttempts int           `json:"max_attempts,omitzero"`
}

// Events. Each type is a rune kind.
type (
	// Spawning says who the agent is.
	Spawning struct {
		AgentID  string `json:"agent_id"`
		Role     string `json:"role"`
		Model    string `json:"model"`
		ParentID string `json:"parent_id,omitzero"`
		// Tools are the names of those it may use, a subset of its parent's; nil for all.
		Tools  []string     `json:"tools,omitzero"`
		Budget model.Amount `json:"budget,omitzero"` // its own limits, inside its parent's
		Depth  int          `json:"depth,omitzero"`
		// Stage is where the stage lives that it works for, "" for none.
		Stage string `json:"stage,omitzero"`
		// First feeds the wire that tells it its task, in the same batch.
		First string `json:"-"`
	}
	// Told is something the agent has to do.
	Told struct {
		Text string `json:"text"`
	}
	// Ready says that the agent can take turns.
	Ready struct {
		AgentID string `json:"agent_id"`
	}
	// Failed says why the agent never became ready.
	Failed struct {
		AgentID string `json:"agent_id"`
		Error   string `json:"error"`
		// Stage feeds the wire to the stage it worked for.
		Stage string `json:"-"`
	}
	// TurnAssigned gives the agent a turn.
	TurnAssigned struct {
		AgentID string `json:"agent_id"`
		TurnID  string `json:"turn_id"`
		Work
	}
	// TurnEnded returns the agent to rest.
	TurnEnded struct {
		AgentID string `json:"agent_id"`
		TurnID  string `json:"turn_id"`
		Outcome string `json:"outcome"`
		Output  string `json:"output,omitzero"` // of an agent that answers to another
		Cut     bool   `json:"cut,omitzero"`
	}
	// Stopping says that the agent ends with its present turn.
	Stopping struct {
		AgentID string `json:"agent_id"`
		Reason  string `json:"reason"`
		Force   bool   `json:"force,omitzero"`
	}
	// Terminated is the agent's end.
	Terminated struct {
		AgentID string `json:"agent_id"`
		Reason  string `json:"reason"`
		Stats   Stats  `json:"stats"`
		// Stage feeds the wire to the stage it worked for.
		Stage string `json:"-"`
	}
)

// Stats is what an agent did in its life.
type Stats struct {
	Turns int `json:"turns"`
}

// Machine is the table.
var Machine = machine.Make(machine.Machine[Data]{
	Name: "agent",
	Boxes: []machine.Box{
		machine.Born().
			On(Spawn{}, spawning, Spawning{}),
		machine.Work(spawning, Prepare{}, "its model and tools are being looked up").
			On(BecomeReady{}, idle, Ready{}).
			On(Tell{}, spawning, Told{}).
			On(FailInit{}, failed, Failed{}).
			On(machine.Late{}, failed, Failed{}).
			On(Kill{}, terminated, Terminated{}),
		machine.Rest(idle, "ready for work").
			On(Assign{}, runningTurn, TurnAssigned{}).
			On(Tell{}, idle, Told{}).
			On(Proceed{}, runningTurn, TurnAssigned{}).
			On(Kill{}, terminated, Terminated{}).
			On(ExhaustBudget{}, terminated, Terminated{}),
		machine.Await(runningTurn, "see its turn").
			On(EndTurn{}, idle, TurnEnded{}).
			On(EndTurn{}, terminated, Terminated{}).
			On(Tell{}, runningTurn, Told{}).
			On(Kill{}, runningTurn, Stopping{}).
			On(ExhaustBudget{}, runningTurn, Stopping{}),
		machine.End(terminated, ""),
		machine.End(failed, "it never became ready"),
	},
	Decide: decide,
	Evolve: evolve,
	Due:    func(_ machine.State, d Data) any { return Prepare{d.AgentID, d.Model} },
})
