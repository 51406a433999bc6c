package main

import (
	"errors"
	"fmt"
	"strings"

	"stave/internal/machine"
	"stave/internal/runelog"
)

// What a command can end with besides success and bad input.
var (
	errTurnFailed  = errors.New("the turn failed")
	errPermission  = errors.New("permission required")
	errBudget      = errors.New("budget exhausted")
	errInterrupted = errors.New("interrupted")
)

// exitBadInput covers whatever has no code of its own: bad input and start-up.
const exitBadInput = 1

// exitCodes is the contract with scripts. The first that fits counts.
var exitCodes = []struct {
	err  error
	code int
}{
	{errInterrupted, 130},
	{errBudget, 4},
	{errPermission, 3},
	{errTurnFailed, 2},
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	for _, c := range exitCodes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return exitBadInput
}

// badInput is an error of the person at the keyboard, told as one sentence.
func badInput(format string, args ...any) error { return fmt.Errorf(format, args...) }

// reported is an error that people have been told about already; it only sets
// the exit code.
type reported struct{ error }

func (r reported) Unwrap() error { return r.error }

// complain tells an error.
func (a *app) complain(err error) {
	var told reported
	if errors.As(err, &told) {
		return
	}
	text := strings.ReplaceAll(strings.TrimSpace(explain(err)), "\n", "\n       ")
	fmt.Fprintf(a.err, "stave: %s\n", a.models.secrets.Redact(safe(text)))
}

// explain words an error for people and adds what can be done about it.
func explain(err error) string {
	var refusal *machine.Refusal
	switch {
	case errors.As(err, &refusal):
		return explainRefusal(refusal)
	case errors.Is(err, runelog.ErrLocked):
		return err.Error() + "; wait until it is done, or name another directory with --data"
	case errors.Is(err, runelog.ErrArchived):
		return err.Error() + "; `stave restore` brings it back"
	}
	return err.Error()
}

func explainRefusal(r *machine.Refusal) string {
	text := fmt.Sprintf("%s cannot %s while it is %s", r.Machine, verb(r.Command), r.State)
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	if len(r.Possible) > 0 {
		text += "; possible: " + strings.Join(verbs(r.Possible), ", ")
	}
	return text
}

// verbs names the commands of the tables as this command line does.
func verbs(possible []string) []string {
	list := make([]string, len(possible))
	for i, v := range possible {
		list[i] = verb(v)
	}
	return list
}

func verb(command string) string {
	switch command {
	case "say":
		return "send"
	case "unsuspend":
		return "resume"
	}
	return command
}
