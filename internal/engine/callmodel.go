package engine

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"stave/internal/machine"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/toolbox"
	"stave/internal/world"
)

// Deltas are gathered before they become runes.
const (
	deltaEvery = 25 * time.Millisecond
	deltaBytes = 1 << 10
)

// maxInvalidArgs bounds what is kept of arguments that cannot be read.
const maxInvalidArgs = 4 << 10

// callModel prepares one attempt at one model call. The request is derived from
// the runes up to here and never stored.
func (a *actor) callModel(j world.Job, w turn.CallModel) (work, error) {
	transcript, err := a.transcript(world.AgentOf(j.Path))
	if err != nil {
		return nil, err
	}
	cfg := a.world.Session().Config
	req := model.Request{
		Model: cfg.Model, System: cfg.System, Messages: transcript.Messages(),
		Tools: a.e.toolSpecs(), Attempt: w.Attempt,
	}
	e := a.e
	return func(ctx context.Context, t teller) (machine.Command, error) {
		if err := sleep(ctx, time.Duration(w.WaitMs)*time.Millisecond); err != nil {
			return nil, err
		}
		provider, err := e.opt.Provider(ctx, cfg.Model)
		if err != nil {
			return turn.Fail{Type: string(model.ErrInternal), Message: err.Error()}, nil
		}
		answer, err := e.stream(ctx, t, provider, req)
		if err != nil {
			return t.fail(ctx, err)
		}
		if len(answer.Calls) == 0 {
			return turn.Finish{Output: answer.Parts, Stop: answer.Stop, Usage: answer.Usage}, nil
		}
		return turn.ReceiveToolCalls{Output: answer.Parts, Calls: e.proposals(answer.Calls), Usage: answer.Usage}, nil
	}, nil
}

// stream reads one answer, passing its fragments on as they come.
func (e *Engine) stream(ctx context.Context, t teller, p model.Provider, req model.Request) (model.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(e.opt.StreamIdle, func() {
		cancel(&model.Error{Kind: model.ErrTimeout, Message: "the model went silent", Retryable: true})
	})
	defer idle.Stop()
	deltas := &gatherer{tell: func(c machine.Command) error { return t.do(ctx, c) }}
	answer, err := model.Assemble(p.Stream(ctx, req), model.Limits{}, func(d model.Delta) error {
		idle.Reset(e.opt.StreamIdle)
		return deltas.add(d)
	})
	if flushed := deltas.close(); err == nil {
		err = flushed
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return answer, err
}

// fail reports a failed attempt, unless the turn is not interested any more.
func (t teller) fail(ctx context.Context, err error) (machine.Command, error) {
	if errors.Is(err, world.ErrStale) || ctx.Err() != nil {
		return nil, err
	}
	f := turn.Fail{Type: string(model.ErrInternal), Message: err.Error(), JitterSeed: jitter(t.job.ID)}
	var known *model.Error
	if errors.As(err, &known) {
		f.Type, f.Message, f.Retryable, f.RetryMs = string(known.Kind), known.Message, known.Retryable, known.RetryAfter.Milliseconds()
	}
	return f, nil
}

// jitter spreads the retries of many logs; the same job always waits as long.
func jitter(id string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return int64(h.Sum32())
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Engine) toolSpecs() []model.ToolSpec {
	var specs []model.ToolSpec
	for _, t := range e.opt.Tools.List() {
		specs = append(specs, model.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return specs
}

// proposals checks and freezes the model's calls. The ids are ours: the
// provider's may be empty or doubled.
func (e *Engine) proposals(calls []model.RawCall) []turn.Proposal {
	list := make([]turn.Proposal, len(calls))
	for i, c := range calls {
		p := turn.Proposal{CallID: e.opt.NewID("call"), Tool: c.Name, Alias: c.ID, Opaque: c.Opaque, Origin: c.Origin, Safety: string(toolbox.SideEffect)}
		t, known := e.opt.Tools.Lookup(c.Name)
		args, err := toolbox.Canonical(c.Args)
		switch {
		case err != nil:
			p.Invalid = "the arguments are not usable: " + err.Error()
			args = unreadable(c.Args)
		case !known:
			p.Invalid = "there is no tool called " + c.Name
		default:
			p.Safety, p.Parallel, p.Traits = string(t.Safety), t.Parallel, t.Traits
			if err := t.Check(args); err != nil {
				p.Invalid = "the arguments do not fit: " + err.Error()
			}
		}
		if p.Tool == "" {
			p.Tool = "(none)"
		}
		p.Args, p.Digest = args, toolbox.Digest(p.Tool, args)
		list[i] = p
	}
	return list
}

// gatherer joins fragments until enough came or enough time passed.
type gatherer struct {
	tell func(machine.Command) error

	mu     sync.Mutex
	held   turn.Delta
	inItem bool // some of the present item was passed on
	timer  *time.Timer
	err    error
}

func (g *gatherer) add(d model.Delta) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held.Text += d.Text
	g.held.Reasoning += d.Reasoning
	g.held.ItemDone = g.held.ItemDone || d.ItemDone
	switch {
	case g.err != nil:
	case g.held.ItemDone || len(g.held.Text)+len(g.held.Reasoning) >= deltaBytes:
		g.flush()
	case g.timer == nil && g.held != (turn.Delta{}):
		g.timer = time.AfterFunc(deltaEvery, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.flush()
		})
	}
	return g.err
}

// flush passes on what is held. The caller holds the lock, so that fragments
// keep their order.
func (g *gatherer) flush() {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	if g.held == (turn.Delta{}) || g.err != nil {
		return
	}
	d := g.held
	g.held = turn.Delta{}
	switch empty := d.Text == "" && d.Reasoning == ""; {
	case !empty:
		g.err = g.tell(d)
		g.inItem = !d.ItemDone
	case g.inItem: // nothing to record, but a stop may be waiting for this
		g.err = g.tell(turn.Boundary{})
		g.inItem = false
	}
}

func (g *gatherer) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flush()
	return g.err
}
