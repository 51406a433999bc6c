package main

import (
	"context"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"stave/internal/machine/session"
	"stave/internal/world"
)

// meanwhile are the commands of this program that can be typed while a
// conversation runs: they look at it, or settle something for what is to come.
var meanwhile = []string{"model", "budget", "why", "show"}

// listen is where the lines come that a person types while a conversation runs.
func (f *follower) listen() <-chan typed {
	if f.deaf || f.decide == nil {
		return nil
	}
	return f.app.readLine()
}

// hear does what was typed, if it is a command; everything else is typed ahead.
func (f *follower) hear(ctx context.Context, t typed) {
	if t.end {
		f.deaf = true
		return
	}
	name, rest, ok := slash(t.line)
	if !ok {
		return
	}
	if err := f.obey(ctx, name, rest, t.line); err != nil {
		f.app.complain(err)
	}
}

// obey does a command through the host that is open. What it prints is no part of
// the answer.
func (f *follower) obey(ctx context.Context, name, rest, line string) error {
	beside := *f.app
	beside.out, beside.width, beside.open = f.app.err, 0, f.host
	switch {
	case name == "help":
		return beside.slashHelp()
	case name == "tools":
		return beside.listTools(f.host)
	case slices.Contains(meanwhile, name):
		return beside.about(f.log, name, rest)
	case name == "pause":
		err := beside.tell(ctx, f.host, f.log, session.Pause{Reason: rest})
		f.ending.paused = f.ending.paused || err == nil
		return err
	case name == "resume":
		err := beside.tell(ctx, f.host, f.log, session.Resume{})
		f.ending.paused = f.ending.paused && err != nil
		return err
	case name == "stop":
		err := beside.tell(ctx, f.host, f.log, session.Stop{Reason: rest})
		f.ending.cut = f.ending.cut || err == nil
		return err
	case name == "interrupt":
		f.interrupt(ctx)
		return nil
	}
	if _, known := slashes[name]; !known {
		return checkSlash(line)
	}
	return badInput("/%s works only when %s rests; while it runs there are /%s", name, f.log,
		strings.Join(slices.Sorted(slices.Values(append([]string{"help", "tools", "pause", "resume", "stop", "interrupt"}, meanwhile...))), ", /"))
}

// listening says whether we read what is typed although nothing is asked. Then to
// read without being in the foreground fails; else it would stop the whole program.
func listening(yes bool) {
	if yes {
		signal.Ignore(syscall.SIGTTIN)
		return
	}
	signal.Reset(syscall.SIGTTIN)
}

const (
	// shortWait is how long a question may still wait for us to stay until it has
	// answered itself; answerSlack is for that to happen.
	shortWait   = time.Minute
	answerSlack = 5 * time.Second
)

// waitOut waits for the next thing to happen if nobody is here to answer, but what
// is asked answers itself soon. It reports whether something happened.
func (f *follower) waitOut(ctx context.Context, v world.View) (bool, error) {
	var first int64
	for _, q := range v.Questions {
		if q.DeadlineMs != 0 && (first == 0 || q.DeadlineMs < first) {
			first = q.DeadlineMs
		}
	}
	left := time.UnixMilli(first).Sub(f.app.now())
	if first == 0 || left > shortWait || f.runes == nil {
		return false, nil
	}
	over := time.NewTimer(max(left, 0) + answerSlack)
	defer over.Stop()
	select {
	case s, ok := <-f.runes:
		if !ok {
			f.runes = nil
			return false, nil
		}
		return true, f.take(ctx, s)
	case s := <-f.app.signals:
		return true, f.heed(ctx, s)
	case <-over.C:
		return false, nil
	}
}
