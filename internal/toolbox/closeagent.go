package toolbox

import (
	"context"
	_ "embed"
)

//go:embed closeagent.md
var closeAgentDoc string

// CloseAgent returns the tool that ends an agent.
func CloseAgent() Tool {
	return New("CloseAgent", closeAgentDoc, Idempotent, false, func(ctx context.Context, env Env, a agentArgs) (Output, error) {
		if err := env.Agents().Close(ctx, a.Agent); err != nil {
			return Output{}, err
		}
		return Output{Text: "ended"}, nil
	})
}
