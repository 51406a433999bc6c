package toolbox

import (
	"context"
	_ "embed"
)

//go:embed messageagent.md
var messageAgentDoc string

type messageArgs struct {
	Agent string `json:"agent" min:"1" max:"100" jsonschema:"the agent's id"`
	Text  string `json:"text" min:"1" max:"100000" jsonschema:"what it is to do next"`
}

// MessageAgent returns the tool that gives an agent something more to do.
func MessageAgent() Tool {
	return New("MessageAgent", messageAgentDoc, SideEffect, false, func(ctx context.Context, env Env, a messageArgs) (Output, error) {
		if err := env.Agents().Tell(ctx, a.Agent, a.Text); err != nil {
			return Output{}, err
		}
		return Output{Text: "told; WaitAgent gives its answer"}, nil
	})
}
