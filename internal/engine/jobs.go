package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/machine/workflow"
	definitions "stave/internal/workflow"
	"stave/internal/world"
)

// running is a job at work.
type running struct {
	job    world.Job
	cancel context.CancelFunc
	limit  *time.Timer
	// stands says that it does nothing itself: it waits for an agent, which works or
	// waits for a person. Only the job knows which agent, so this cannot be derived.
	stands bool
}

// reconcile starts what became due and cancels what no longer is, at the places
// that moved.
func (a *actor) reconcile(paths []world.Path) {
	if a.broken != nil {
		return
	}
	for _, p := range paths {
		due, ok := a.world.JobAt(p)
		if r := a.running[p]; r != nil && (!ok || r.job.ID != due.ID) {
			a.stop(p)
		}
		if ok && a.running[p] == nil && !a.draining {
			a.start(due)
		}
		a.setDeadline(p)
	}
}

func (a *actor) reconcileAll() {
	if a.broken != nil {
		return
	}
	paths := []world.Path{}
	for _, m := range a.world.View().Machines {
		paths = append(paths, m.Path)
	}
	a.reconcile(paths)
}

// setDeadline arms the clock of a question that may not wait for ever.
func (a *actor) setDeadline(p world.Path) {
	if t := a.deadlines[p]; t != nil {
		t.Stop()
		delete(a.deadlines, p)
	}
	if q, ok := a.world.QuestionAt(p); ok && q.DeadlineMs != 0 {
		a.deadlines[p] = a.after(q.DeadlineMs-a.e.nowMs(), func(a *actor) { a.late(p, "") })
		return
	}
	a.setWallClock(p)
}

// after runs f on the actor's goroutine when some milliseconds have passed.
func (a *actor) after(ms int64, f func(*actor)) *time.Timer {
	return time.AfterFunc(time.Duration(ms)*time.Millisecond, func() {
		_ = a.do(a.e.ctx, func(a *actor) error { f(a); return nil })
	})
}

func (a *actor) stop(p world.Path) {
	r := a.running[p]
	r.cancel()
	r.limit.Stop()
	delete(a.running, p)
}

func (a *actor) stopAll() {
	for p := range a.running {
		a.stop(p)
	}
}

// start runs a job on its own goroutine, under supervision: whatever happens in
// there ends as a rune, never as the end of the process.
func (a *actor) start(j world.Job) {
	do, limit, err := a.performer(j)
	if err != nil {
		do = func(context.Context, teller) (machine.Command, error) { return nil, err }
	}
	ctx, cancel := context.WithCancel(a.e.ctx)
	r := &running{job: j, cancel: cancel}
	r.limit = time.AfterFunc(limit, func() {
		_ = a.do(a.e.ctx, func(a *actor) error { a.late(j.Path, j.ID); return nil })
	})
	a.running[j.Path] = r
	tell := teller{a: a, job: j}
	a.e.jobs.Add(1)
	a.send(func() (next errand) {
		defer a.e.jobs.Done()
		defer cancel()
		last, err := supervise(func() (machine.Command, error) { return do(ctx, tell) })
		cut := ctx.Err() != nil
		_ = a.do(context.Background(), func(a *actor) error { next = a.done(r, last, err, cut); return nil })
		return next
	})
}

// errand is a job on its goroutine. It returns what the goroutine does next.
type errand func() errand

// send lets an errand run: on the goroutine that has just ended one, which is
// about to run and whose stack is large enough by now, or on a new one.
func (a *actor) send(f errand) {
	if a.free != nil && *a.free == nil {
		*a.free = f
		return
	}
	go func() {
		for f != nil {
			f = f()
		}
	}()
}

// done takes the last word of a finished job and forgets it. One that was not
// cut off and ended without a result must not leave its machine waiting. It
// returns the first of the jobs that follow, for the same goroutine.
func (a *actor) done(r *running, last machine.Command, err error, cut bool) (next errand) {
	a.free = &next
	defer func() { a.free = nil }()
	r.limit.Stop()
	if last != nil && !cut {
		_, err = a.handle(a.e.ctx, r.message(last))
		if run, ok := r.job.Work.(tool.RunTool); ok && err == nil && a.e.opt.Settled != nil {
			a.e.opt.Settled(run.Call, run.Attempt)
		}
	}
	if run, ok := r.job.Work.(tool.RunTool); ok && cut && a.e.opt.Settled != nil {
		if due, still := a.world.JobAt(r.job.Path); !still || due.ID != r.job.ID {
			a.e.opt.Settled(run.Call, run.Attempt) // its call was ended while it ran
		}
	}
	if a.running[r.job.Path] != r {
		return next
	}
	delete(a.running, r.job.Path)
	if due, ok := a.world.JobAt(r.job.Path); ok && due.ID == r.job.ID && !cut && a.broken == nil {
		if err == nil {
			err = errors.New("the job ended without a result")
		}
		_, _ = a.handle(a.e.ctx, r.message(crash(r.job, err)))
	}
	a.reconcile([]world.Path{r.job.Path})
	return next
}

func (r *running) message(c machine.Command) world.Message {
	return world.Message{Path: r.job.Path, Command: c, By: author(r.job), Job: r.job.ID}
}

// supervise turns a panic into an error.
func supervise[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
		}
	}()
	return f()
}

type panicError struct{ value any }

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// crash is what a machine is told when its job broke.
func crash(j world.Job, err error) machine.Command {
	switch j.Work.(type) {
	case agent.Prepare:
		return agent.FailInit{Error: err.Error()}
	case turn.CallModel:
		return turn.Fail{Type: "crash", Message: err.Error()}
	case stage.Wait:
		return stage.Again{}
	case stage.SetUp, stage.Render, stage.CheckGate, stage.Judge:
		return stage.Break{Error: err.Error()}
	case workflow.ChooseNext:
		return workflow.Break{Error: err.Error()}
	default:
		return tool.Crash{Error: err.Error()}
	}
}

// work is the code of a job. What it returns is the last its machine hears of it.
type work func(context.Context, teller) (machine.Command, error)

// performer returns the code of a job and its time limit.
func (a *actor) performer(j world.Job) (do work, limit time.Duration, err error) {
	switch w := j.Work.(type) {
	case agent.Prepare:
		w.Model = a.world.Agent(j.Path).Model
		return a.e.prepare(w), a.e.opt.ModelLimit, nil
	case turn.CallModel:
		do, err := a.callModel(j, w)
		return do, a.e.opt.ModelLimit, err
	case tool.RunTool:
		return a.runTool(j.Path, w), a.e.opt.ToolLimit, nil
	case stage.SetUp, stage.Render, stage.CheckGate, stage.Judge:
		do, err := a.stagePhase(j)
		return do, phaseLimit, err
	case stage.Wait:
		do, err := a.stagePhase(j)
		return do, definitions.MaxDelay + phaseLimit, err
	case workflow.ChooseNext:
		do, err := a.chooseNext(j)
		return do, phaseLimit, err
	}
	return nil, a.e.opt.ToolLimit, fmt.Errorf("nobody performs %T", j.Work)
}

// teller is a job's way to speak to its machine while it runs. Once the job is no longer due
// it is not heard.
type teller struct {
	a   *actor
	job world.Job
}

func (t teller) do(ctx context.Context, c machine.Command) error {
	return t.a.do(ctx, func(a *actor) error {
		_, err := a.handle(ctx, t.message(c))
		return err
	})
}

func (t teller) message(c machine.Command) world.Message {
	return world.Message{Path: t.job.Path, Command: c, By: author(t.job), Job: t.job.ID}
}

func author(j world.Job) string {
	switch w := j.Work.(type) {
	case tool.RunTool:
		return "tool:" + w.Call.Tool
	case turn.CallModel:
		return "agent:" + w.Agent
	}
	return "engine"
}

// prepare checks that an agent has what it needs.
func (e *Engine) prepare(w agent.Prepare) work {
	return func(ctx context.Context, _ teller) (machine.Command, error) {
		if _, err := e.opt.Provider(ctx, w.Model); err != nil {
			return agent.FailInit{Error: err.Error()}, nil
		}
		return agent.BecomeReady{}, nil
	}
}
