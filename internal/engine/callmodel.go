package engine

import (
	"context"
	"errors"
	"hash/fnv"
	"iter"
	"slices"
	"sync"
	"time"

	"stave/internal/machine"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/policy"
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
	who := a.world.Agent(j.Path)
	shown, may, err := a.repertoire(who)
	if err != nil {
		return nil, err
	}
	e, last := a.e, a.lastTool(who)
	req := model.Request{
		Model: who.Model, System: who.System, Messages: transcript.Messages(),
		Tools: toolSpecs(shown), Attempt: w.Attempt, CacheKey: a.log + "/" + who.ID,
	}
	return func(ctx context.Context, t teller) (machine.Command, error) {
		if err := sleep(ctx, time.Duration(w.WaitMs)*time.Millisecond); err != nil {
			return nil, err
		}
		provider, err := e.opt.Provider(ctx, req.Model)
		if err != nil {
			return turn.Fail{Type: string(model.ErrInternal), Message: err.Error(), Free: true}, nil
		}
		if e.opt.Expecting != nil {
			e.expect.Do(func() { go e.opt.Expecting() })
		}
		answer, err := e.answer(ctx, t, provider, req)
		if err != nil {
			return t.fail(ctx, err)
		}
		bill := e.bill(req.Model, answer)
		if len(answer.Calls) == 0 {
			return turn.Finish{Output: answer.Parts, Stop: answer.Stop, Bill: bill}, nil
		}
		calls := e.proposals(answer.Calls, may, last)
		e.guard(ctx, calls, may)
		return turn.ReceiveToolCalls{Output: answer.Parts, Calls: calls, Bill: bill}, nil
	}, nil
}

// answer makes room for a request, pays for it in advance, and makes it.
func (e *Engine) answer(ctx context.Context, t teller, p model.Provider, r model.Request) (model.Response, error) {
	r, err := e.compact(ctx, t, p, r)
	if err == nil {
		err = t.reserve(ctx, &r)
	}
	if err != nil {
		return model.Response{}, err
	}
	return e.stream(ctx, t, p, r)
}

// stream reads one answer, passing its fragments on as they come.
func (e *Engine) stream(ctx context.Context, t teller, p model.Provider, req model.Request) (model.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	deltas := &gatherer{tell: func(c machine.Command) error { return t.do(ctx, c) }}
	answer, err := model.Assemble(e.cleaned(e.lively(ctx, cancel, p, req)), model.Limits{}, deltas.add)
	if flushed := deltas.close(); err == nil {
		err = flushed
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return answer, err
}

// lively is a provider's stream that ends when it falls silent.
func (e *Engine) lively(ctx context.Context, cancel context.CancelCauseFunc, p model.Provider, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		idle := time.AfterFunc(e.opt.StreamIdle, func() {
			cancel(&model.Error{Kind: model.ErrTimeout, Message: "the model went silent", Retryable: true})
		})
		defer idle.Stop()
		alive := func() { idle.Reset(e.opt.StreamIdle) }
		for ev, err := range p.Stream(model.WithPulse(ctx, alive), r) {
			alive()
			if !yield(ev, err) {
				return
			}
		}
	}
}

// fail reports a failed attempt, unless the turn is not interested any more.
func (t teller) fail(ctx context.Context, err error) (machine.Command, error) {
	if errors.Is(err, world.ErrStale) || errors.Is(err, errExhausted) || ctx.Err() != nil {
		return nil, err
	}
	f := turn.Fail{Type: string(model.ErrInternal), Message: err.Error(), JitterSeed: jitter(t.job.ID)}
	var known *model.Error
	if errors.As(err, &known) {
		f.Type, f.Message, f.Retryable, f.RetryMs = string(known.Kind), known.Message, known.Retryable, known.RetryAfter.Milliseconds()
		f.Free = free(known.Kind)
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

// allowed returns the tools of these names, all for nil.
func (e *Engine) allowed(names []string) []toolbox.Tool {
	all := e.opt.Tools.List()
	if e.opt.MoreTools != nil {
		all = append(all, e.opt.MoreTools()...)
	}
	if names == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(t toolbox.Tool) bool { return !slices.Contains(names, t.Name) })
}

// traitsIn adds what tools touch in this conversation: commands that can reach the
// network can send data out, and in a workspace that nobody trusts whatever is
// read was written by others. Who takes the walls away has decided about the
// latter: else no second command could run without a person.
func traitsIn(c session.Config, tools []toolbox.Tool) []toolbox.Tool {
	walls := c.Sandbox != "off"
	reaches := c.Network || !walls
	tools = slices.Clone(tools)
	for i, t := range tools {
		traits := slices.Clone(t.Traits)
		if reaches && t.Workspace && t.Safety == toolbox.SideEffect && t.Name == policy.ShellTool {
			traits = append(traits, tool.External)
		}
		if !c.Trusted && walls && slices.Contains(traits, tool.Private) {
			traits = append(traits, tool.Untrusted)
		}
		slices.Sort(traits)
		tools[i].Traits = slices.Compact(traits)
	}
	return tools
}

func toolSpecs(tools []toolbox.Tool) []model.ToolSpec {
	var specs []model.ToolSpec
	for _, t := range tools {
		specs = append(specs, model.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return specs
}

// proposals checks and freezes the model's calls. The ids are ours: the
// provider's may be empty or doubled. The tool named last runs after the others.
func (e *Engine) proposals(calls []model.RawCall, may []toolbox.Tool, last string) []turn.Proposal {
	list := make([]turn.Proposal, len(calls))
	for i, c := range calls {
		p := turn.Proposal{CallID: e.opt.NewID("call"), Tool: c.Name, Alias: c.ID, Opaque: c.Opaque, Origin: c.Origin, Safety: string(toolbox.SideEffect)}
		at := slices.IndexFunc(may, func(t toolbox.Tool) bool { return t.Name == c.Name })
		args, err := toolbox.Canonical(c.Args)
		switch {
		case err != nil:
			p.Invalid = "the arguments are not usable: " + err.Error()
			args = unreadable(e.clean(c.Args))
		case e.opt.Secrets != nil && e.opt.Secrets.Contains(c.Args):
			p.Invalid = "the arguments hold a secret that must not be passed on"
			args = unreadable(e.clean(c.Args))
		case at < 0:
			p.Invalid = "there is no tool called " + c.Name
		default:
			t := may[at]
			p.Safety, p.Parallel, p.Traits = string(t.Safety), t.Parallel, slices.Clone(t.Traits)
			p.Defined = e.defined(t)
			p.Waits, p.Last = t.Waits, last != "" && t.Name == last
			if t.Touches != nil {
				p.Traits = append(p.Traits, t.Touches(args)...)
			}
			if err := t.Check(args); err != nil {
				p.Invalid = "the arguments do not fit: " + err.Error()
			}
		}
		if p.Tool == "" {
			p.Tool = "(none)"
		}
		p.Args, p.Digest = args, toolbox.Digest(p.Tool, p.Defined, args)
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
