package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/model"
	"stave/internal/model/script"
	"stave/internal/policy"
	"stave/internal/runelog/memory"
	"stave/internal/toolbox"
)

// BenchmarkRounds is what a tool round costs the engine: a log in memory, a model
// and a command that take no time.
func BenchmarkRounds(b *testing.B) {
	const rounds = 100
	var text strings.Builder
	text.WriteString("replies:\n")
	for i := range rounds {
		fmt.Fprintf(&text, "  - {calls: [{tool: Bash, args: {command: \"true %d\"}}]}\n", i)
	}
	text.WriteString("  - text: done\n")
	s, err := script.Parse("bench.yaml", []byte(text.String()))
	if err != nil {
		b.Fatal(err)
	}
	list := toolbox.All()
	for i := range list {
		if list[i].Name == policy.ShellTool {
			list[i].Run = func(context.Context, toolbox.Env, json.RawMessage) (toolbox.Output, error) {
				return toolbox.Output{Text: "ok"}, nil
			}
		}
	}
	set, err := toolbox.NewSet(list...)
	if err != nil {
		b.Fatal(err)
	}
	rules, err := policy.Default()
	if err != nil {
		b.Fatal(err)
	}
	e := engine.New(engine.Options{
		Log: memory.New(), Tools: set, TempDir: b.TempDir(),
		Provider: func(context.Context, string) (model.Provider, error) { return s, nil },
	})
	b.ReportAllocs()
	for b.Loop() {
		log, err := e.Begin(b.Context(), engine.Begin{Text: "go", By: "user:b", Config: session.Config{
			Mode: policy.ModeYolo, Dir: b.TempDir(), Model: "script", Sandbox: "off", Rules: rules.Snapshot(),
		}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := e.Settle(b.Context(), log); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*rounds), "µs/round")
	if err := e.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}
