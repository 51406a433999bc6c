package engine_test

import (
	"context"
	"testing"
	"time"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/model"
	"stave/internal/model/script"
	"stave/internal/runelog"
	"stave/internal/runelog/memory"
	"stave/internal/toolbox"
)

func newEngine(t *testing.T, log runelog.Log, text string) *engine.Engine {
	t.Helper()
	s, err := script.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := toolbox.NewSet(toolbox.All()...)
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Options{
		Log: log, Tools: set, TempDir: t.TempDir(),
		Provider: func(context.Context, string) (model.Provider, error) { return s, nil },
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestConversation(t *testing.T) {
	l := memory.New()
	e := newEngine(t, l, `
replies:
  - text: "let me look"
    calls:
      - {tool: Glob, args: {pattern: "*"}}
      - {tool: Bash, args: {command: "echo hi"}}
  - text: "done"
`)
	ctx := t.Context()
	log, err := e.Begin(ctx, engine.Begin{Text: "hello", By: "user:t", Config: session.Config{Mode: "yolo", Dir: t.TempDir(), Model: "script"}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Settle(ctx, log)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range l.Read(ctx, log, 0) {
		if err != nil {
			t.Fatal(err)
		}
		t.Log(r.Seq, r.Path, r.Kind, r.From, r.To, r.By, string(r.Payload))
	}
	t.Logf("%+v", v)
	if _, err := e.Verify(ctx, log); err != nil {
		t.Fatal(err)
	}
}
