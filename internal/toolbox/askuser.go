package toolbox

import (
	"context"
	_ "embed"
	"errors"
)

//go:embed askuser.md
var askUserDoc string

type askUserArgs struct {
	Question string   `json:"question" min:"1" max:"4000" jsonschema:"the question, complete in itself"`
	Choices  []string `json:"choices,omitempty" max:"10" jsonschema:"answers to choose from; the person may always say something else"`
}

// AskUser returns the tool that asks the person. It never runs: the call waits
// in the log like one that needs approval, and what the person says is its result.
func AskUser() Tool {
	return New("AskUser", askUserDoc, Question, true, func(context.Context, Env, askUserArgs) (Output, error) {
		return Output{}, errors.New("a question is answered by a person")
	})
}
