// Package engine makes the tables run: message → step → append → reconcile what
// is due. One goroutine per live log; logs at rest cost nothing.
package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/model"
	"stave/internal/runelog"
	"stave/internal/secret"
	"stave/internal/toolbox"
	"stave/internal/world"
)

// Defaults of Options.
const (
	DefaultIdleAfter     = 30 * time.Second
	DefaultMaxLive       = 256
	DefaultSnapshotEvery = 10_000
	DefaultModelLimit    = 30 * time.Minute // one model call
	DefaultStreamIdle    = 3 * time.Minute  // between two signs of life of a model call
	DefaultToolLimit     = 31 * time.Minute // one tool run, beyond the tool's own limit
)

// ErrClosed is the answer of an engine that is shutting down.
var ErrClosed = errors.New("the engine is shutting down")

// Options say what an engine works with. Log, Tools and Provider are needed.
type Options struct {
	Log   runelog.Log
	Tools toolbox.Set
	// MoreTools are those that come and go, as of servers; nil for none.
	MoreTools func() []toolbox.Tool
	// Expecting is called once, when the first model call is made: what tools need
	// may be prepared while the model answers.
	Expecting func()
	// CallContext gives a call's context what its conversation settled.
	CallContext func(ctx context.Context, c session.Config) context.Context
	// Survived says whether a run that a dead process had begun can be taken up
	// again; nil for never. Settled is told once the result of a run is durable; the
	// log waits meanwhile, so it does nothing slow.
	Survived func(c tool.Call, attempt int, since time.Time) bool
	Settled  func(c tool.Call, attempt int)
	// Abandoned ends a run that survived and whose call has ended meanwhile.
	Abandoned func(c tool.Call, attempt int)
	// Secrets never reach the log; nil knows none.
	Secrets *secret.Set
	// Hooks are asked about calls and told of results; nil for none.
	Hooks Hooks
	// Checkpoints keep how workspaces were; nil keeps nothing.
	Checkpoints Checkpoints
	Provider    func(ctx context.Context, name string) (model.Provider, error)
	// Info says what is known of a model; nil knows nothing of any.
	Info func(model string) ModelInfo
	// Tokens estimates, never too low, how long a request is; nil counts bytes.
	Tokens func(model.Request) int64
	// Definition is the hash of the workflow that a run would find now; nil leaves
	// it unasked.
	Definition func(dir, source, name string) string
	// TempDir is where running calls keep scratch files.
	TempDir string
	// Now and NewID are where time and randomness enter.
	Now   func() time.Time
	NewID func(prefix string) string

	IdleAfter     time.Duration // how long a log at rest stays in memory
	MaxLive       int           // logs in memory beyond which one at rest leaves at once
	SnapshotEvery uint64        // runes between snapshots
	ModelLimit    time.Duration
	StreamIdle    time.Duration
	ToolLimit     time.Duration
}

// Engine runs every log of one store.
type Engine struct {
	opt    Options
	ctx    context.Context // of all jobs
	cancel context.CancelFunc
	jobs   sync.WaitGroup
	loops  sync.WaitGroup

	mu     sync.Mutex
	actors map[string]*actor
	failed map[string]error // why a log left memory, until it is opened again
	closed bool

	expect sync.Once

	definitions sync.Map // of tools, by what they say: see defined
}

// New returns an engine; it starts nothing until a log is told something.
func New(opt Options) *Engine {
	setDefault(&opt.IdleAfter, DefaultIdleAfter)
	setDefault(&opt.MaxLive, DefaultMaxLive)
	setDefault(&opt.SnapshotEvery, DefaultSnapshotEvery)
	setDefault(&opt.ModelLimit, DefaultModelLimit)
	setDefault(&opt.StreamIdle, DefaultStreamIdle)
	setDefault(&opt.ToolLimit, DefaultToolLimit)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.NewID == nil {
		opt.NewID = NewID
	}
	if opt.Info == nil {
		opt.Info = func(string) ModelInfo { return ModelInfo{} }
	}
	if opt.Tokens == nil {
		opt.Tokens = countBytes
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Engine{opt: opt, ctx: ctx, cancel: cancel, actors: map[string]*actor{}, failed: map[string]error{}}
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Tell gives a message to a log and returns the runes it caused, durable. A log
// that is not in memory is opened, and goes on by itself if it was cut off.
func (e *Engine) Tell(ctx context.Context, m world.Message) ([]runelog.Rune, error) {
	var runes []runelog.Rune
	_, create := m.Command.(session.Create)
	err := e.with(ctx, m.Log, opening{create: create}, func(a *actor) error {
		var err error
		runes, err = a.handle(ctx, m)
		return err
	})
	return runes, err
}

// Resume opens a log that was cut off and lets it go on; headless says that
// nobody is there to answer questions.
func (e *Engine) Resume(ctx context.Context, log string, headless bool) error {
	return e.with(ctx, log, opening{headless: headless}, func(a *actor) error { return a.recover(headless) })
}

// Watch yields a log's runes after a seq, then those to come.
func (e *Engine) Watch(ctx context.Context, log string, after uint64) iter.Seq2[runelog.Rune, error] {
	return e.opt.Log.Watch(ctx, log, after)
}

// Look returns the present of a log. It starts nothing.
func (e *Engine) Look(ctx context.Context, log string) (world.View, error) {
	if a := e.peek(log); a != nil {
		var v world.View
		err := a.do(ctx, func(a *actor) error { v = a.world.View(); return nil })
		if !errors.Is(err, errLeft) {
			return v, err
		}
	}
	w, _, err := load(ctx, e.opt.Log, log)
	if err != nil {
		return world.View{}, err
	}
	return w.View(), nil
}

// Settle waits until nothing of a log runs any more: it rests, waits for a
// person, or has ended.
func (e *Engine) Settle(ctx context.Context, log string) (world.View, error) {
	for {
		a := e.peek(log)
		if a == nil {
			if err := e.failure(log); err != nil {
				return world.View{}, err
			}
			return e.Look(ctx, log)
		}
		settled := make(chan error, 1)
		err := a.do(ctx, func(a *actor) error { a.onSettle(settled); return nil })
		if errors.Is(err, errLeft) {
			continue
		}
		if err != nil {
			return world.View{}, err
		}
		select {
		case err := <-settled:
			if err != nil {
				return world.View{}, err
			}
			return e.Look(ctx, log)
		case <-ctx.Done():
			return world.View{}, ctx.Err()
		}
	}
}

// with runs f on the log's goroutine, opening the log if need be.
func (e *Engine) with(ctx context.Context, log string, how opening, f func(*actor) error) error {
	for {
		a, err := e.open(log, how)
		if err != nil {
			return err
		}
		if err := a.do(ctx, f); !errors.Is(err, errLeft) {
			return err
		}
	}
}

func (e *Engine) peek(log string) *actor {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.actors[log]
}

// failure is why a log left memory, nil if it left at rest.
func (e *Engine) failure(log string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed[log]
}

// open returns the log's actor, starting it if need be.
func (e *Engine) open(log string, how opening) (*actor, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	a := e.actors[log]
	if a == nil {
		a = newActor(e, log, how)
		e.actors[log] = a
		delete(e.failed, log)
		e.loops.Add(1)
		go a.run()
	}
	return a, nil
}

// leave takes an actor that is at rest out of memory, unless someone is about
// to use it.
func (e *Engine) leave(a *actor) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(a.inbox) > 0 {
		return false
	}
	if e.actors[a.log] == a {
		delete(e.actors, a.log)
		if a.broken != nil {
			e.failed[a.log] = a.broken
		}
	}
	close(a.left)
	return true
}

// Live returns how many logs are in memory.
func (e *Engine) Live() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.actors)
}

func (e *Engine) crowded() bool { return e.Live() > e.opt.MaxLive }

// Close ends the engine and loses nothing: tools may finish until ctx ends, then
// they are cancelled on the record; model calls are made again next time.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	actors := make([]*actor, 0, len(e.actors))
	for _, a := range e.actors {
		actors = append(actors, a)
	}
	e.mu.Unlock()
	var drained sync.WaitGroup
	for _, a := range actors {
		drained.Go(func() { a.drain(ctx) })
	}
	drained.Wait()
	e.cancel()
	e.jobs.Wait()
	for _, a := range actors {
		a.quit()
	}
	e.loops.Wait()
	return nil
}

func (e *Engine) nowMs() int64 { return e.opt.Now().UnixMilli() }

// load folds a log into the present, from its newest snapshot on.
func load(ctx context.Context, l runelog.Log, log string) (*world.World, runelog.Head, error) {
	w := world.New(log)
	s, ok, err := l.Snapshot(ctx, log, 0)
	if err != nil {
		return nil, runelog.Head{}, fmt.Errorf("reading snapshot of %s: %w", log, err)
	}
	head := runelog.Head{}
	if ok {
		if saved, err := world.Load(log, s.Data); err == nil {
			w, head = saved, runelog.Head{Seq: s.Seq, Hash: s.Hash}
		}
	}
	for r, err := range l.Read(ctx, log, w.Seq()) {
		if err != nil {
			return nil, head, err
		}
		if err := w.Fold(r); err != nil {
			return nil, head, fmt.Errorf("%w: %w", runelog.ErrCorrupt, err)
		}
		head.Seq, head.Hash = r.Seq, r.Hash()
	}
	if w.Seq() == 0 {
		return nil, head, fmt.Errorf("log %s: %w", log, runelog.ErrNotFound)
	}
	return w, head, nil
}
