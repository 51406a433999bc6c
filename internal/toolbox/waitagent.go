package toolbox

import (
	"context"
	_ "embed"
)

//go:embed waitagent.md
var waitAgentDoc string

// WaitAgent returns the tool that waits for an agent's answer.
func WaitAgent() Tool {
	t := New("WaitAgent", waitAgentDoc, ReadOnly, true, func(ctx context.Context, env Env, a agentArgs) (Output, error) {
		return awaitAgent(ctx, env, a.Agent)
	})
	t.Waits = true
	return t
}
