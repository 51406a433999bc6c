package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/tool"
	"stave/internal/runelog"
	"stave/internal/world"
)

// Inbox returns every open question of every log.
func (e *Engine) Inbox(ctx context.Context) ([]world.Question, error) {
	var open []world.Question
	for m, err := range e.opt.Log.List(ctx) {
		if err != nil {
			return nil, err
		}
		if m.WaitsFor != "person" || m.Archived {
			continue
		}
		v, err := e.Look(ctx, m.Log)
		if err != nil {
			return nil, err
		}
		open = append(open, v.Questions...)
	}
	return open, nil
}

// Answered is the refusal of an answer that came too late; the first one won.
type Answered struct {
	Question string
	Decision runelog.Rune
}

func (a *Answered) Error() string {
	return fmt.Sprintf("question %s is decided already: %s by %s (rune %d of %s)",
		a.Question, a.Decision.Kind, a.Decision.By, a.Decision.Seq, a.Decision.Log)
}

// ErrNoQuestion says that there is no such question.
var ErrNoQuestion = errors.New("no such question")

// Answer takes a person's choice on an open question and returns its log.
func (e *Engine) Answer(ctx context.Context, id, choice, text, by string) (string, error) {
	open, err := e.Inbox(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(open, func(q world.Question) bool { return q.ID == id || q.Log+"/"+q.ID == id })
	if i < 0 {
		return "", e.decided(ctx, id)
	}
	q := open[i]
	cmd, err := answer(q, choice, text)
	if err != nil {
		return "", err
	}
	_, err = e.Tell(ctx, world.Message{Log: q.Log, Path: q.Path, Command: cmd, By: by})
	var refusal *machine.Refusal
	if errors.As(err, &refusal) {
		return "", e.decided(ctx, id)
	}
	return q.Log, err
}

// answer turns a choice into the command it stands for.
func answer(q world.Question, choice, text string) (machine.Command, error) {
	if slices.Contains(q.Choices, choice) {
		switch choice {
		case machine.Verb(tool.Approve{}):
			ask, _ := q.Ask.(tool.MayRun)
			return tool.Approve{Digest: ask.Call.Digest}, nil
		case machine.Verb(tool.Deny{}):
			return tool.Deny{Reason: text}, nil
		case machine.Verb(tool.Happened{}):
			return tool.Happened{Output: text}, nil
		case machine.Verb(tool.NotHappened{}):
			return tool.NotHappened{}, nil
		case machine.Verb(tool.Retry{}):
			return tool.Retry{}, nil
		}
	}
	return nil, fmt.Errorf("%q is not an answer to %s; choose one of %s", choice, q.ID, strings.Join(q.Choices, ", "))
}

// decided finds out what became of a question that is not open.
func (e *Engine) decided(ctx context.Context, id string) error {
	suffix := "/tool:" + id[strings.LastIndexByte(id, '/')+1:]
	for m, err := range e.opt.Log.List(ctx) {
		if err != nil {
			return err
		}
		if m.Archived {
			continue
		}
		if r, ok := e.lastOf(ctx, m.Log, suffix); ok {
			return &Answered{id, r}
		}
	}
	return fmt.Errorf("%w: %s (`stave inbox` lists the open ones)", ErrNoQuestion, id)
}

// lastOf returns the rune that decided the call whose path ends in suffix.
func (e *Engine) lastOf(ctx context.Context, log, suffix string) (found runelog.Rune, ok bool) {
	for r, err := range e.opt.Log.Read(ctx, log, 0) {
		if err != nil {
			return found, ok
		}
		if strings.HasSuffix(r.Path, suffix) && (r.From == "awaiting_approval" || r.From == "outcome_unknown" || !ok) {
			found, ok = r, true
		}
	}
	return found, ok
}
