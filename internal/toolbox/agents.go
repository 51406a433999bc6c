package toolbox

import (
	"context"
	"errors"
	"fmt"
)

// Agents are the agents that work for the one that makes a call.
type Agents interface {
	// Spawn starts an agent for this call and returns its id. If the call was
	// taken up again after a crash, it returns the agent that is there already.
	Spawn(ctx context.Context, s AgentSpec) (string, error)
	// Wait returns when the agent has nothing left to do, or has ended.
	Wait(ctx context.Context, id string) (AgentReport, error)
	// Tell gives the agent something more to do.
	Tell(ctx context.Context, id, text string) error
	// Close ends the agent and all that work for it.
	Close(ctx context.Context, id string) error
}

// AgentSpec says what an agent is given.
type AgentSpec struct {
	Role     string
	Task     string
	Tools    []string // nil for all that its parent has
	Model    string   // "" for its parent's
	Tokens   int64    // 0 for no limit of its own
	ToolUses int64
}

// AgentReport is what became of an agent's work.
type AgentReport struct {
	Outcome string // completed, interrupted, error, ended
	Answer  string
}

type agentArgs struct {
	Agent string `json:"agent" min:"1" max:"100" jsonschema:"the agent's id"`
}

func awaitAgent(ctx context.Context, env Env, id string) (Output, error) {
	r, err := env.Agents().Wait(ctx, id)
	if err != nil {
		return Output{}, err
	}
	out := Output{Text: r.Answer, Meta: map[string]any{"agent": id, "outcome": r.Outcome}}
	switch {
	case r.Outcome != "completed":
		return out, fmt.Errorf("agent %s did not finish: %s", id, r.Outcome)
	case r.Answer == "":
		return out, errors.New("the agent gave no answer")
	}
	return out, nil
}
