package toolbox

import (
	"context"
	_ "embed"
	"fmt"
)

//go:embed spawnagent.md
var spawnAgentDoc string

type spawnArgs struct {
	Task         string   `json:"task" min:"1" max:"100000" jsonschema:"what the agent is to do, with all it needs to know: it sees nothing of this conversation"`
	Role         string   `json:"role,omitempty" max:"100" jsonschema:"a name for what it is, for the people who watch"`
	Tools        []string `json:"tools,omitempty" max:"100" jsonschema:"names of the tools it may use; without it all that you have"`
	Model        string   `json:"model,omitempty" max:"200" jsonschema:"another model for it to use"`
	MaxTokens    int64    `json:"max_tokens,omitempty" min:"1" jsonschema:"most tokens it may use in all"`
	MaxToolCalls int64    `json:"max_tool_calls,omitempty" min:"1" jsonschema:"most tool calls it may make"`
	Background   bool     `json:"background,omitempty" jsonschema:"do not wait for its answer: you get its id at once, and its answer with WaitAgent"`
}

// SpawnAgent returns the tool that gives a task to a new agent.
func SpawnAgent() Tool {
	// Taken up again after a crash it finds the agent it had started: nothing is
	// started twice.
	return New("SpawnAgent", spawnAgentDoc, Idempotent, true, func(ctx context.Context, env Env, a spawnArgs) (Output, error) {
		role := a.Role
		if role == "" {
			role = "helper"
		}
		id, err := env.Agents().Spawn(ctx, AgentSpec{
			Role: role, Task: a.Task, Tools: a.Tools, Model: a.Model, Tokens: a.MaxTokens, ToolUses: a.MaxToolCalls,
		})
		if err != nil {
			return Output{}, err
		}
		if a.Background {
			return Output{Text: fmt.Sprintf("agent %s works in the background; WaitAgent gives its answer", id), Meta: map[string]any{"agent": id}}, nil
		}
		return awaitAgent(ctx, env, id)
	})
}
