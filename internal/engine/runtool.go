package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/tool"
	"stave/internal/secret"
	"stave/internal/toolbox"
	"stave/internal/world"
)

// runTool is the job of an approved call.
func (a *actor) runTool(at world.Path, w tool.RunTool) work {
	e, cfg := a.e, a.world.Session().Config
	known, ok := a.toolAt(at, w.Call.Tool)
	refuse := func(why string) work {
		return func(context.Context, teller) (machine.Command, error) { return tool.Fail{Error: why}, nil }
	}
	if !ok {
		return refuse("there is no tool called " + w.Call.Tool + " any more")
	}
	// What runs already is taken up, whatever the tool has become since.
	if w.Call.Defined != "" && !w.Again && e.defined(known) != w.Call.Defined {
		return refuse(w.Call.Tool + " was changed after this call was allowed, so it was not run")
	}
	keep := a.checkpointDue(at, known)
	return func(ctx context.Context, t teller) (machine.Command, error) {
		if e.opt.CallContext != nil {
			ctx = e.opt.CallContext(ctx, cfg)
		}
		env := &callEnv{e: e, t: t, ctx: ctx, dir: cfg.Dir, work: w}
		defer env.cleanUp()
		if keep {
			e.keepCheckpoint(ctx, t, cfg.Dir)
		}
		out, err := supervise(func() (toolbox.Output, error) { return known.Run(ctx, env, w.Call.Arguments) })
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		last := e.verdict(out, err)
		e.observe(w.Call, last)
		return last, nil
	}
}

// defined names what a tool says of itself, computed once for each that says it.
func (e *Engine) defined(t toolbox.Tool) string {
	key := definitionKey{t.Name, t.Description, string(t.Schema), string(t.Safety)}
	if known, ok := e.definitions.Load(key); ok {
		return known.(string)
	}
	d := t.Definition()
	e.definitions.Store(key, d)
	return d
}

type definitionKey struct{ name, description, schema, safety string }

// verdict is how a tool's own end is told to its machine.
func (e *Engine) verdict(out toolbox.Output, err error) machine.Command {
	// The log is cleaned at its own door; those who only look on hear of this, too.
	text := func(s string) string { return e.clean(strings.ToValidUTF8(s, "\uFFFD")) }
	o := tool.Output{Text: text(out.Text), Blob: out.Blob}
	if len(out.Meta) > 0 {
		if meta, err := json.Marshal(out.Meta); err == nil {
			o.Meta = json.RawMessage(e.clean(string(meta)))
		}
	}
	var crashed *panicError
	switch {
	case errors.As(err, &crashed):
		return tool.Fail{Error: text("the tool crashed: " + crashed.Error()), Output: o}
	case err != nil:
		return tool.Fail{Error: text(err.Error()), Output: o}
	case out.Unknown:
		return tool.Doubt{Known: o.Text}
	case out.TimedOut:
		return tool.Expire{Output: o}
	}
	return tool.Succeed{Output: o}
}

// callEnv is what a running call may touch.
type callEnv struct {
	e      *Engine
	t      teller
	ctx    context.Context
	dir    string
	work   tool.RunTool
	temps  []string
	seen   *secret.Stream // of the output that people watch
	raw    int64          // bytes of it so far
	unsaid int64          // of those, how many no report stands for yet
}

// shown is what of a piece of output people may see now. What is held back at the
// end is part of the result.
func (v *callEnv) shown(chunk string) string {
	if v.e.opt.Secrets == nil {
		return chunk
	}
	if v.seen == nil {
		v.seen = v.e.opt.Secrets.Stream()
	}
	return v.seen.Write(chunk)
}

func (v *callEnv) Dir() string             { return v.dir }
func (v *callEnv) Attempt() int            { return v.work.Attempt }
func (v *callEnv) Plain() bool             { return v.work.Plain }
func (v *callEnv) Again() bool             { return v.work.Again }
func (v *callEnv) CallID() string          { return v.work.Call.CallID }
func (v *callEnv) Intent() json.RawMessage { return v.work.Intent }

func (v *callEnv) Declare(ctx context.Context, intent any) error {
	b, err := json.Marshal(intent)
	if err != nil {
		return fmt.Errorf("declaring intent: %w", err)
	}
	return v.t.do(ctx, tool.Report{Intent: b})
}

func (v *callEnv) Progress(stream, chunk string) {
	// What people saw before a crash is led past the search for secrets once more,
	// so that one that lies across that place is found.
	if old := min(v.work.Streamed-v.raw, int64(len(chunk))); old > 0 {
		v.shown(chunk[:old])
		v.raw += old
		chunk = chunk[old:]
	}
	v.raw += int64(len(chunk))
	v.unsaid += int64(len(chunk))
	if chunk = v.shown(strings.ToValidUTF8(chunk, "\uFFFD")); chunk != "" {
		// Output that nobody hears any more is no reason to stop: ctx says that.
		_ = v.t.do(v.ctx, tool.Report{Stream: stream, Chunk: chunk, Bytes: v.unsaid})
		v.unsaid = 0
	}
}

func (v *callEnv) TempFile() (toolbox.TempFile, error) {
	f, err := os.CreateTemp(v.e.opt.TempDir, "call-*")
	if err != nil {
		return nil, err
	}
	v.temps = append(v.temps, f.Name())
	return f, nil
}

func (v *callEnv) PutBlob(ctx context.Context, r io.Reader) (string, error) {
	b, err := v.e.opt.Log.PutBlob(ctx, v.e.cleanReader(r))
	return b.SHA256, err
}

func (v *callEnv) cleanUp() {
	for _, name := range v.temps {
		_ = os.Remove(name) // a scratch file left behind does no harm
	}
}

// drain ends an actor's work: tools may finish until ctx ends.
func (a *actor) drain(ctx context.Context) {
	idle := make(chan error, 1)
	err := a.do(context.Background(), func(a *actor) error {
		a.draining = true
		for p, r := range a.running {
			if _, isTool := r.job.Work.(tool.RunTool); !isTool || r.stands {
				a.stop(p) // it is made again next time
			}
		}
		if len(a.running) == 0 {
			idle <- nil
			return nil
		}
		a.onIdle(idle)
		return nil
	})
	if err != nil {
		return
	}
	select {
	case <-idle:
		return
	case <-ctx.Done():
	}
	_ = a.do(context.Background(), func(a *actor) error { a.cancelTools(); return nil })
}

// cancelTools puts on record that the tools still running were ended by us.
func (a *actor) cancelTools() {
	var open []world.Path
	for p := range a.running {
		open = append(open, p)
	}
	for _, p := range open {
		_, _ = a.handle(context.Background(), world.Message{Path: p, By: "engine", Command: tool.Cancel{Reason: "cancelled: stave was shut down while it ran"}})
	}
}
