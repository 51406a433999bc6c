package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"stave/internal/machine"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/policy"
	"stave/internal/runelog"
	"stave/internal/world"
)

// follower runs one conversation on to its next rest: it shows what happens, asks
// the person at the terminal, and passes on Ctrl-C.
type follower struct {
	app  *app
	host *host
	log  string
	seq  uint64 // the last rune shown
	show func(runelog.Rune, any) error
	// decide answers a question and reports whether it did; nil if nobody can.
	decide func(context.Context, world.Question) (bool, error)

	runes   <-chan seen
	held    []seen // what happened while a person was reading a question
	asking  bool   // a question has come up that nobody was asked yet
	stopped bool   // a person pressed Ctrl-C
	unheard bool   // but no turn was there to hear it yet
	deaf    bool   // what is typed is not listened to any more
	mine    string // the run that this command began, "" if it began none
	crew    crew
	broke   map[string]bool // stages whose last attempt ended with its budget
	ending  ending
}

// seen is a rune on its way to the person.
type seen struct {
	r   runelog.Rune
	err error
}

// settled is the answer of Settle.
type settled struct {
	view world.View
	err  error
}

// follow shows what happens in a conversation since a moment, until it rests.
func (a *app) follow(h *host, since world.View) (ending, error) { return a.followRun(h, since, "") }

// followRun is follow for a command that began a run: what others hand in is
// progress, and how they end is not how the command ends.
func (a *app) followRun(h *host, since world.View, run string) (ending, error) {
	f := &follower{
		app: a, host: h, log: since.Log, seq: since.Seq, show: a.shower(since, run), asking: len(since.Questions) > 0,
		mine: run, broke: map[string]bool{},
	}
	var err error
	if f.crew, err = h.crewOf(context.Background(), since); err != nil {
		return ending{}, err
	}
	if a.attended {
		f.decide = f.askPerson
		listening(true)
		defer listening(false)
	}
	return f.run()
}

// shower is how runes are shown: for programs as they are, for people as
// progress and an answer.
func (a *app) shower(v world.View, run string) func(runelog.Rune, any) error {
	if a.json {
		return func(r runelog.Rune, _ any) error {
			_, err := a.out.Write(append(slices.Clone(r.Raw()), '\n'))
			return err
		}
	}
	p := newProgress(&a.console, v)
	p.mine = run
	return func(r runelog.Rune, e any) error { p.show(r, e); return nil }
}

func (f *follower) run() (ending, error) {
	signal.Notify(f.app.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	f.runes = f.watch(ctx)
	for {
		view, rests, err := f.untilRest(ctx, f.settle(ctx))
		if err != nil {
			return f.ending, err
		}
		f.ending.view = view
		switch {
		case len(view.Questions) > 0 && f.decide != nil:
			answered, err := f.decide(ctx, view.Questions[0])
			if err != nil {
				return f.ending, err
			}
			if !answered {
				f.decide = nil // nobody is there any more; what runs comes to its rest
			}
			f.asking = f.asking || len(view.Questions) > 1
		case rests:
			if waits, err := f.waitOut(ctx, view); !waits || err != nil {
				return f.ending, err
			}
		}
	}
}

// untilRest shows runes until nothing of the log runs any more and all of them
// have been shown, or until somebody can be asked something, whatever else runs.
func (f *follower) untilRest(ctx context.Context, rest <-chan settled) (v world.View, rests bool, err error) {
	if err := f.release(ctx); err != nil {
		return v, false, err
	}
	for {
		if f.asking && f.decide != nil {
			f.asking = false
			if v, err = f.host.engine.Look(ctx, f.log); err != nil || len(v.Questions) > 0 {
				return v, false, errors.Join(err, f.catchUp(ctx, v.Seq))
			}
		}
		select {
		case s, ok := <-f.runes:
			if !ok {
				f.runes = nil // sealed, and shown to its end
				continue
			}
			if err := f.take(ctx, s); err != nil {
				return v, false, err
			}
		case r := <-rest:
			if r.err == nil {
				r.err = f.catchUp(ctx, r.view.Seq)
			}
			return r.view, true, r.err
		case s := <-f.app.signals:
			if err := f.heed(ctx, s); err != nil {
				return v, false, err
			}
		case t := <-f.listen():
			f.app.reading = false
			f.hear(ctx, t)
		}
	}
}

// release shows what was held back while a person was reading.
func (f *follower) release(ctx context.Context) error {
	held := f.held
	f.held = nil
	for _, s := range held {
		if err := f.take(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// catchUp shows what is still on its way up to a rune.
func (f *follower) catchUp(ctx context.Context, seq uint64) error {
	if f.runes == nil {
		return nil
	}
	for f.seq < seq {
		s, ok := <-f.runes
		if !ok {
			return nil
		}
		if err := f.take(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) watch(ctx context.Context) <-chan seen {
	const ahead = 256
	runes := make(chan seen, ahead)
	go func() {
		defer close(runes)
		for r, err := range f.host.engine.Watch(ctx, f.log, f.seq) {
			select {
			case runes <- seen{r, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return runes
}

func (f *follower) settle(ctx context.Context) <-chan settled {
	rest := make(chan settled, 1)
	go func() {
		v, err := f.host.engine.Settle(ctx, f.log)
		rest <- settled{v, err}
	}()
	return rest
}

// take shows one rune and remembers what it says about the ending.
func (f *follower) take(ctx context.Context, s seen) error {
	if s.err != nil {
		return s.err
	}
	f.seq = s.r.Seq
	e, err := world.EventOf(s.r)
	if err != nil {
		return fmt.Errorf("rune %d of %s: %w", s.r.Seq, f.log, err)
	}
	f.remember(ctx, s.r.Path, e)
	return f.show(s.r, e)
}

// remember keeps what an event says about the ending.
func (f *follower) remember(ctx context.Context, path string, e any) {
	switch e := e.(type) {
	case turn.Started:
		if f.unheard {
			f.interrupt(ctx)
		}
		if ofRoot(path) {
			f.ending.last = nil
		}
	case turn.Completed, turn.Interrupted, turn.Error:
		if ofRoot(path) {
			f.ending.last = e
		}
	case tool.ApprovalRequested, tool.OutcomeUnknown:
		f.asking = true
	case tool.Denied:
		// A stage goes on without what it was denied.
		if e.By == policy.HeadlessRule && !f.crew.did(path) {
			f.ending.headless++
		}
	case session.Suspended:
		f.ending.stopped = e
	default:
		f.rememberRun(path, e)
	}
}

// heed takes a signal: the first Ctrl-C ends the turns, the second the process.
// Being told to terminate leaves the turn to the next process.
func (f *follower) heed(ctx context.Context, s os.Signal) error {
	if s != os.Interrupt {
		return fmt.Errorf("%w: told to end (%s); `%s` goes on", errInterrupted, s, f.app.command("resume %s", f.log))
	}
	if f.stopped {
		f.app.exit(exitCode(errInterrupted))
	}
	f.stopped = true
	f.interrupt(ctx)
	return nil
}

// interrupt ends the running turns, or the one that is about to start.
func (f *follower) interrupt(ctx context.Context) {
	done, err := f.host.interrupt(ctx, f.log, f.app.by())
	f.unheard = err == nil && !done
	f.ending.cut = f.ending.cut || done
}

// interrupt ends the workflows of a conversation and every running turn, the root
// agent's first so
// that it does not go on with what the others leave behind, and reports whether
// there was one.
func (h *host) interrupt(ctx context.Context, log, by string) (bool, error) {
	v, err := h.engine.Look(ctx, log)
	if err != nil {
		return false, err
	}
	ran, err := h.cancelRuns(ctx, v, by)
	if err != nil {
		return ran, err
	}
	if v, err = h.engine.Look(ctx, log); err != nil {
		return ran, err
	}
	var turns []world.Path
	for _, m := range v.Machines {
		if m.Machine == "turn" && slices.Contains(m.Possible, "interrupt") {
			turns = append(turns, m.Path)
		}
	}
	slices.SortStableFunc(turns, func(a, b world.Path) int {
		return btoi(ofRoot(string(b))) - btoi(ofRoot(string(a)))
	})
	for _, p := range turns {
		_, err := h.engine.Tell(ctx, world.Message{Log: log, Path: p, By: by, Command: turn.Interrupt{}})
		var over *machine.Refusal
		if err != nil && !errors.As(err, &over) { // one that has ended meanwhile is what we want
			return true, err
		}
	}
	return ran || len(turns) > 0, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
