package engine

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"stave/internal/machine"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/toolbox"
	"stave/internal/world"
)

// Hooks are programs of the person's own that take part in every call.
type Hooks interface {
	// Transform returns the arguments to use instead, or an error that the model
	// is told. What it returns is what is shown, approved and run.
	Transform(ctx context.Context, c tool.Call) (json.RawMessage, error)
	// Guard returns what each guard says of the call as it will run. A guard that
	// fails refuses.
	Guard(ctx context.Context, c tool.Call) []tool.Verdict
	// Observe tells of a result. It must not block.
	Observe(c tool.Call, r tool.Result)
}

// checkpointPatience is how long a call waits for the workspace to be kept.
const checkpointPatience = 20 * time.Second

// lookup finds a tool by its exact name.
func (e *Engine) lookup(name string) (toolbox.Tool, bool) {
	if t, ok := e.opt.Tools.Lookup(name); ok || e.opt.MoreTools == nil {
		return t, ok
	}
	more := e.opt.MoreTools()
	if i := slices.IndexFunc(more, func(t toolbox.Tool) bool { return t.Name == name }); i >= 0 {
		return more[i], true
	}
	return toolbox.Tool{}, false
}

// guard lets the hooks look at the calls of an answer, before they are recorded:
// so what a hook changed and what it said is part of the record.
func (e *Engine) guard(ctx context.Context, calls []turn.Proposal, may []toolbox.Tool) {
	if e.opt.Hooks == nil {
		return
	}
	for i := range calls {
		if p := &calls[i]; p.Invalid == "" {
			e.transform(ctx, p, may)
		}
		if p := &calls[i]; p.Invalid == "" {
			for _, v := range e.opt.Hooks.Guard(ctx, callOf(*p)) {
				p.Guards = append(p.Guards, turn.Guarded{Answer: string(v.Answer), By: v.By, Reason: v.Reason})
			}
		}
	}
}

func (e *Engine) transform(ctx context.Context, p *turn.Proposal, may []toolbox.Tool) {
	changed, err := e.opt.Hooks.Transform(ctx, callOf(*p))
	if err != nil {
		p.Invalid = "a hook refused the call: " + err.Error()
		return
	}
	args, err := toolbox.Canonical(string(changed))
	if err == nil {
		if i := slices.IndexFunc(may, func(t toolbox.Tool) bool { return t.Name == p.Tool }); i >= 0 {
			err = may[i].Check(args)
			if p.Traits = slices.Clone(may[i].Traits); may[i].Touches != nil { // of what will run
				p.Traits = append(p.Traits, may[i].Touches(args)...)
			}
		}
	}
	if err != nil {
		p.Invalid = "a hook made arguments that do not fit: " + err.Error()
		return
	}
	p.Args, p.Digest = args, toolbox.Digest(p.Tool, p.Defined, args)
}

func callOf(p turn.Proposal) tool.Call {
	return tool.Call{CallID: p.CallID, Tool: p.Tool, Arguments: p.Args, Digest: p.Digest, Defined: p.Defined, Safety: p.Safety, Traits: p.Traits}
}

// observe tells the hooks of a result.
func (e *Engine) observe(c tool.Call, last machine.Command) {
	if e.opt.Hooks == nil {
		return
	}
	r := tool.Result{CallID: c.CallID}
	switch l := last.(type) {
	case tool.Succeed:
		r.Status, r.Output = tool.Success, l.Output
	case tool.Fail:
		r.Status, r.Error, r.Output = tool.Error, l.Error, l.Output
	case tool.Expire:
		r.Status, r.Output = tool.Timeout, l.Output
	case tool.Doubt:
		r.Status, r.Error = tool.Unknown, l.Known
	}
	e.opt.Hooks.Observe(c, r)
}

// checkpointDue says that a call is the first of its turn that may change the
// workspace, and remembers that there was one.
func (a *actor) checkpointDue(call world.Path, known toolbox.Tool) bool {
	id := call.Parent().Name()
	if a.e.opt.Checkpoints == nil || known.Safety == toolbox.ReadOnly || !known.Workspace || a.checkpointed == id {
		return false
	}
	a.checkpointed = id
	return true
}

// keepCheckpoint notes how the workspace is before it is changed. It is a help for
// going back, not a condition for going on: where it fails, the call runs without.
func (e *Engine) keepCheckpoint(ctx context.Context, t teller, dir string) {
	// A large workspace that was never kept before takes its time. What is kept
	// until patience ends need not be read again the next time.
	patient, cancel := context.WithTimeout(ctx, checkpointPatience)
	defer cancel()
	kept, err := e.opt.Checkpoints.Keep(patient, dir)
	if err != nil {
		kept = session.Checkpointed{Missed: err.Error()} // on record, so that nobody relies on it
	}
	kept.Turn = t.job.Path.Parent().Name()
	_ = t.a.do(ctx, func(a *actor) error {
		_, err := a.handle(ctx, world.Message{Path: world.SessionPath, By: "engine", Command: session.KeepCheckpoint{Checkpointed: kept}})
		return err
	})
}
