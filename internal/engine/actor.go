package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"stave/internal/machine"
	"stave/internal/machine/tool"
	"stave/internal/runelog"
	"stave/internal/world"
)

// inboxSize bounds how many senders wait for one log without being scheduled.
const inboxSize = 64

// errLeft says that the actor left memory; the sender opens the log anew.
var errLeft = errors.New("the log left memory")

// opening says how a log comes into memory.
type opening struct {
	create   bool // it does not exist yet
	headless bool // nobody is there to answer
}

// actor owns one log while it is in memory. All fields but inbox and left
// belong to its goroutine.
type actor struct {
	e     *Engine
	log   string
	how   opening
	inbox chan func(*actor)
	left  chan struct{} // closed once it takes nothing more

	world       *world.World
	chain       *runelog.Chain
	createdMs   int64
	savedSeq    uint64 // of the newest snapshot
	broken      error  // why nothing can be written any more
	ready       bool   // opened, recovered
	quitting    bool
	draining    bool // start nothing new
	running     map[world.Path]*running
	free        *errand // what the goroutine of a job that ended does next; nil at other times
	deadlines   map[world.Path]*time.Timer
	waiters     []chan<- error // told when nothing goes on by itself
	drained     chan<- error   // told when nothing is running
	transcripts map[world.Path]*world.Transcript
	// survivors are runs that outlived the process before us, until they are taken
	// up or abandoned.
	survivors map[world.Path]tool.RunTool
	// awaiting are told when something became of an agent.
	awaiting map[world.Path][]watcher
	// checkpointed is the turn before whose first effect the workspace was kept.
	checkpointed string
}

func newActor(e *Engine, log string, how opening) *actor {
	return &actor{
		e: e, log: log, how: how, inbox: make(chan func(*actor), inboxSize), left: make(chan struct{}),
		running: map[world.Path]*running{}, deadlines: map[world.Path]*time.Timer{},
		transcripts: map[world.Path]*world.Transcript{}, awaiting: map[world.Path][]watcher{},
	}
}

// do runs f on the actor's goroutine and returns its error.
func (a *actor) do(ctx context.Context, f func(*actor) error) error {
	done := make(chan error, 1)
	select {
	case a.inbox <- func(a *actor) { done <- f(a) }:
	case <-a.left:
		return errLeft
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-a.left:
		select {
		case err := <-done: // it was the last thing the actor did
			return err
		default:
			return errLeft
		}
	}
}

// run is the log's goroutine.
func (a *actor) run() {
	defer a.e.loops.Done()
	a.openLog()
	idle := time.NewTimer(a.e.opt.IdleAfter)
	defer idle.Stop()
	for {
		select {
		case f := <-a.inbox:
			f(a)
		case <-idle.C:
			if a.atRest() && a.goIdle() {
				return
			}
		}
		a.settle()
		if (a.quitting || a.broken != nil || (a.atRest() && a.e.crowded())) && len(a.running) == 0 && a.goIdle() {
			return
		}
		idle.Reset(a.e.opt.IdleAfter)
	}
}

// openLog brings the log into memory. A new log has no runes yet.
func (a *actor) openLog() {
	ctx := a.e.ctx
	meta, err := a.e.opt.Log.Meta(ctx, a.log)
	switch {
	case err != nil && !(a.how.create && errors.Is(err, runelog.ErrNotFound)):
		a.broken = fmt.Errorf("opening log %s: %w", a.log, err)
		return
	case meta.Archived:
		a.broken = fmt.Errorf("opening log %s: %w", a.log, runelog.ErrArchived)
		return
	}
	a.createdMs = meta.CreatedMs
	head, err := a.e.opt.Log.Lease(ctx, a.log)
	if err != nil {
		a.broken = fmt.Errorf("opening log %s: %w", a.log, err)
		return
	}
	a.chain = runelog.NewChain(a.log, head)
	if head.Seq == 0 {
		a.world = world.New(a.log)
		a.transcripts[world.RootPath] = world.NewTranscript(world.RootPath)
		return
	}
	w, seen, err := load(ctx, a.e.opt.Log, a.log)
	switch {
	case err != nil:
		a.broken = fmt.Errorf("opening log %s: %w", a.log, err)
	case seen.Seq != head.Seq || seen.Hash != head.Hash:
		a.broken = fmt.Errorf("opening log %s: it ends at %d, its head says %d: %w", a.log, seen.Seq, head.Seq, runelog.ErrCorrupt)
	default:
		a.world, a.savedSeq = w, w.Seq()
	}
}

// recover lets a log that was cut off go on, with nothing new to say to it.
func (a *actor) recover(headless bool) error {
	if a.broken != nil || a.ready {
		return a.broken
	}
	if err := a.recordLoss(headless); err != nil {
		return err
	}
	a.abandon()
	a.reconcileAll()
	return nil
}

// recordLoss puts on record what happened while nobody was here: a crash, and
// workflows that are others by now.
func (a *actor) recordLoss(headless bool) error {
	a.ready = true
	if err := a.recordCrash(headless); err != nil {
		return err
	}
	return a.drifted()
}

// recordCrash lets the session hear of a crash, and every lost job say what that
// means for it.
func (a *actor) recordCrash(headless bool) error {
	losses := a.world.Losses()
	m, ok := a.world.Recovery(headless)
	if !ok {
		return nil
	}
	a.survivors = a.survived(losses) // before the session hears: it may give them up
	if _, err := a.write(a.e.ctx, m); err != nil {
		return err
	}
	for _, lost := range losses {
		if _, ok := a.survivors[lost.Path]; ok {
			lost.Command = tool.Reattach{}
		}
		if _, err := a.write(a.e.ctx, lost); err != nil && !errors.Is(err, world.ErrStale) {
			return err
		}
	}
	return nil
}

// survived are the lost runs that outlived the process before us.
func (a *actor) survived(losses []world.Message) map[world.Path]tool.RunTool {
	found := map[world.Path]tool.RunTool{}
	for _, lost := range losses {
		j, ok := a.world.JobAt(lost.Path)
		run, isRun := j.Work.(tool.RunTool)
		if ok && isRun && a.e.opt.Survived != nil && a.e.opt.Survived(run.Call, run.Attempt, time.UnixMilli(a.world.Since(lost.Path))) {
			found[lost.Path] = run
		}
	}
	return found
}

// abandon ends the runs that outlived us and that nobody wants any more: what was
// told right after the restart ended their calls before they were taken up.
func (a *actor) abandon() {
	for p, run := range a.survivors {
		if due, ok := a.world.JobAt(p); ok {
			if still, isRun := due.Work.(tool.RunTool); isRun && still.Call.CallID == run.Call.CallID {
				continue
			}
		}
		if a.e.opt.Abandoned != nil {
			a.e.jobs.Go(func() { a.e.opt.Abandoned(run.Call, run.Attempt) })
		}
	}
	a.survivors = nil
}

// handle answers one message.
func (a *actor) handle(ctx context.Context, m world.Message) ([]runelog.Rune, error) {
	if a.broken != nil {
		return nil, a.broken
	}
	if !a.ready {
		// What was cut off is put on record before anything new, but started only
		// after it: a stop or a pause must not be overtaken by the old work.
		if err := a.recordLoss(a.how.headless); err != nil {
			return nil, err
		}
		defer a.reconcileAll()
		defer a.abandon()
	}
	change, err := a.write(ctx, m)
	if err != nil {
		return nil, err
	}
	a.reconcile(change.touched)
	if slices.ContainsFunc(change.runes, func(r runelog.Rune) bool { return released[r.Kind] }) {
		a.reconcileAll()
	}
	return change.runes, nil
}

// released are the runes after which what was held is due.
var released = map[string]bool{"workflow.confirmed": true, "workflow.definition_restored": true}

// written is a change that is durable.
type written struct {
	runes   []runelog.Rune
	touched []world.Path
}

// write steps the world and makes the change durable before it is the present.
func (a *actor) write(ctx context.Context, m world.Message) (written, error) {
	m.Log, m.Command = a.log, a.e.scrub(m.Command)
	if m.AtMs == 0 {
		m.AtMs = a.e.nowMs()
	}
	change, err := a.world.Step(m)
	if err != nil || len(change.Runes) == 0 {
		return written{}, err
	}
	if a.createdMs == 0 {
		a.createdMs = m.AtMs
	}
	stamped, err := a.append(ctx, change, m.AtMs)
	if err != nil {
		return written{}, err
	}
	a.world.Commit(change)
	a.heard(change)
	a.saveSnapshot(a.e.opt.SnapshotEvery)
	return written{stamped, change.Touched()}, nil
}

func (a *actor) append(ctx context.Context, change *world.Change, atMs int64) ([]runelog.Rune, error) {
	drafts, err := runelog.Offload(ctx, a.e.opt.Log, change.Runes)
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", a.log, err)
	}
	stamped, err := a.chain.Stamp(drafts, atMs)
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", a.log, err)
	}
	head := a.chain.Head()
	// A caller who gives up must not leave the batch in doubt.
	err = a.e.opt.Log.Append(context.WithoutCancel(ctx), runelog.Batch{
		Log: a.log, After: head.Seq, Epoch: head.Epoch, Runes: stamped,
		Meta: change.Meta(a.createdMs, atMs), Seal: change.Seal, Sync: change.Sync,
	})
	if err != nil {
		a.broken = fmt.Errorf("writing to log %s: %w", a.log, err)
		a.stopAll()
		return nil, a.broken
	}
	a.chain.Advance(stamped)
	return stamped, nil
}

// saveSnapshot bounds replay. It is an optimisation: a failure is not an error.
func (a *actor) saveSnapshot(every uint64) {
	if a.world == nil || a.world.Seq() < a.savedSeq+every {
		return
	}
	a.savedSeq = a.world.Seq()
	if data, err := a.world.Save(); err == nil {
		head := a.chain.Head()
		_ = a.e.opt.Log.SaveSnapshot(a.e.ctx, a.log, runelog.Snapshot{Seq: head.Seq, Hash: head.Hash, Data: data})
	}
}

func (a *actor) atRest() bool {
	return len(a.running) == 0 && len(a.deadlines) == 0 && len(a.waiters) == 0
}

const idleSnapshotAfter = 500 // runes worth a snapshot when a log leaves memory

// goIdle takes the log out of memory.
func (a *actor) goIdle() bool {
	if a.broken == nil && a.ready {
		a.saveSnapshot(idleSnapshotAfter)
	}
	if !a.e.leave(a) {
		return false
	}
	for _, t := range a.deadlines {
		t.Stop()
	}
	return true
}

// onSettle tells done once nothing goes on by itself.
func (a *actor) onSettle(done chan<- error) { a.waiters = append(a.waiters, done) }

// onIdle tells done once no job is running.
func (a *actor) onIdle(done chan<- error) { a.drained = done }

func (a *actor) settle() {
	if a.drained != nil && len(a.running) == 0 {
		a.drained <- nil
		a.drained = nil
	}
	if len(a.waiters) == 0 || (a.broken == nil && !a.draining && a.busy()) {
		return
	}
	for _, w := range a.waiters {
		w <- a.broken
	}
	a.waiters = nil
}

// busy says that something goes on by itself. Who waits for an agent does not.
func (a *actor) busy() bool {
	for _, r := range a.running {
		if !r.stands {
			return true
		}
	}
	return a.ready && slices.ContainsFunc(a.world.Jobs(), func(j world.Job) bool { return a.running[j.Path] == nil })
}

// quit makes the actor leave once its jobs are gone.
func (a *actor) quit() {
	_ = a.do(context.Background(), func(a *actor) error { a.quitting = true; return nil })
}

// transcript returns the agent's transcript, built from the log if need be.
func (a *actor) transcript(agent world.Path) (*world.Transcript, error) {
	if t := a.transcripts[agent]; t != nil {
		return t, nil
	}
	t := world.NewTranscript(agent)
	for r, err := range a.e.opt.Log.Read(a.e.ctx, a.log, 0) {
		if err != nil {
			return nil, err
		}
		if err := t.Add(r); err != nil {
			return nil, err
		}
	}
	a.transcripts[agent] = t
	return t, nil
}

// late tells an instance that its limit has passed, unless it moved on.
func (a *actor) late(p world.Path, job string) {
	if _, err := a.handle(a.e.ctx, world.Message{Path: p, Command: machine.Late{}, By: "engine", Job: job}); err != nil {
		return // it moved on meanwhile, or the log is broken and says so to everyone
	}
}
