package main

import (
	"fmt"
	"strings"

	"stave/internal/machine/session"
	"stave/internal/machine/turn"
	"stave/internal/world"
)

// ending is how a conversation came to its rest.
type ending struct {
	view     world.View
	last     any // the event that ended the last turn
	headless int // calls denied because nobody is there
	stopped  session.Suspended
	cut      bool // a person pressed Ctrl-C, and a turn ended of it
	run      any  // the event that ended the last workflow
	paused   bool // a person typed /pause
	broke    bool // a stage failed because a budget was used up
}

// budgetReason is why a conversation is suspended that used up a limit.
const budgetReason = "budget"

// err words an ending that is not a success, with the error its exit code hangs on.
func (n ending) err(a *app) error {
	log := n.view.Log
	if len(n.view.Questions) > 0 {
		return fmt.Errorf("%w: %s", errPermission, a.howToAnswer(n.view.Questions))
	}
	if n.headless > 0 {
		return fmt.Errorf("%w: %s denied because nobody is there to give permission", errPermission, count(n.headless, "call was", "calls were"))
	}
	if err := n.runErr(a); err != nil {
		return err
	}
	if n.paused && n.view.State == "paused" {
		return fmt.Errorf("%w: the conversation is paused; `%s` goes on", errInterrupted, a.command("resume %s", log))
	}
	if err := a.suspended(n.view, n.reason()); err != nil {
		return err
	}
	switch e := n.last.(type) {
	case turn.Error:
		return fmt.Errorf("%w: %s: %s", errTurnFailed, e.Type, e.Message)
	case turn.Completed:
		if e.Reason == "max_requests" {
			return fmt.Errorf("%w: the turn used all its model requests (--max-turns); `%s` goes on", errBudget, a.command("send %s TEXT", log))
		}
	case turn.Interrupted:
		n.cut = n.cut || strings.HasPrefix(e.Reason, "interrupt")
	}
	if n.cut {
		return fmt.Errorf("%w: what was said so far is kept; `%s` goes on", errInterrupted, a.command("send %s TEXT", log))
	}
	return nil
}

// suspended words that a conversation is suspended, nil if it is not.
func (a *app) suspended(v world.View, why string) error {
	log := v.Log
	if v.State != "suspended" {
		return nil
	}
	if strings.HasPrefix(why, budgetReason) {
		return fmt.Errorf("%w: the conversation is suspended (%s); `%s` shows and raises limits, `%s` then goes on",
			errBudget, why, a.command("budget %s", log), a.command("resume %s", log))
	}
	return fmt.Errorf("%w: the conversation is suspended (%s); `%s` goes on", errTurnFailed, why, a.command("resume %s", log))
}

func (n ending) reason() string {
	if n.stopped.Info != "" {
		return n.stopped.Reason + ": " + n.stopped.Info
	}
	if n.stopped.Reason != "" {
		return n.stopped.Reason
	}
	return n.view.Why
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
