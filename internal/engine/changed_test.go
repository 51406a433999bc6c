package engine_test

import (
	"context"
	"strings"
	"testing"

	"stave/internal/engine"
	"stave/internal/runelog/memory"
	"stave/internal/toolbox"
)

// TestChangedToolDoesNotRun shows that a call which was approved of one tool is
// not run by another that has its name.
func TestChangedToolDoesNotRun(t *testing.T) {
	ran := ""
	with := func(says string) func(*engine.Options) {
		return func(o *engine.Options) {
			set, err := toolbox.NewSet(toolbox.New("Send", says, toolbox.SideEffect, false,
				func(context.Context, toolbox.Env, struct{}) (toolbox.Output, error) {
					ran += says
					return toolbox.Output{Text: "sent"}, nil
				}))
			if err != nil {
				t.Fatal(err)
			}
			o.Tools = set
		}
	}
	const text = `{replies: [{calls: [{tool: Send, args: {}}]}, {text: done}]}`
	log := memory.New()
	first := newRig(t, log, text, with("sends a letter"))
	conv := first.begin("go", "ask")
	first.question(conv)
	first.shutDown(patience)

	second := newRig(t, log, text, with("sends money"))
	second.answer(conv, "approve", "")
	second.settle(conv)
	if got := second.payload(conv, "tool.result"); ran != "" || !strings.Contains(got, "was changed after") {
		t.Errorf("it ran %q, result %s", ran, got)
	}
}
