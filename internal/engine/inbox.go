package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/tool"
	"stave/internal/machine/workflow"
	"stave/internal/policy"
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

// Choice is a person's answer to an open question.
type Choice struct {
	Question string // its id
	Choice   string // one of the question's choices
	Text     string // the words of a reply, the reason of a denial, the output of a lost call
	Remember string // how long an approval holds: "" for this call only, see policy.Scopes
	By       string
}

// Answer takes a person's choice on an open question and returns its log.
func (e *Engine) Answer(ctx context.Context, c Choice) (string, error) {
	id := c.Question
	open, err := e.Inbox(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(open, func(q world.Question) bool { return q.ID == id || q.Log+"/"+q.ID == id })
	if i < 0 {
		return "", e.decided(ctx, id)
	}
	q := open[i]
	cmd, err := answer(q, c)
	if err != nil {
		return "", err
	}
	_, err = e.Tell(ctx, world.Message{Log: q.Log, Path: q.Path, Command: cmd, By: c.By})
	var refusal *machine.Refusal
	if errors.As(err, &refusal) && refusal.Reason == "" { // it is not asked any more
		return "", e.decided(ctx, id)
	}
	return q.Log, err
}

// answer turns a choice into the command it stands for.
func answer(q world.Question, c Choice) (machine.Command, error) {
	if slices.Contains(q.Choices, c.Choice) {
		switch c.Choice {
		case machine.Verb(tool.Approve{}):
			return approval(q, c)
		case machine.Verb(tool.Reply{}):
			return tool.Reply{Text: c.Text}, nil
		case machine.Verb(tool.Deny{}):
			return tool.Deny{Reason: c.Text}, nil
		case machine.Verb(tool.Happened{}):
			return tool.Happened{Output: c.Text}, nil
		case machine.Verb(tool.NotHappened{}):
			return tool.NotHappened{}, nil
		case machine.Verb(tool.Retry{}):
			return tool.Retry{}, nil
		case machine.Verb(tool.Defer{}):
			return tool.Defer{}, nil
		case machine.Verb(workflow.GoOn{}):
			return workflow.GoOn{}, nil
		case machine.Verb(workflow.Cancel{}):
			return workflow.Cancel{Reason: c.Text}, nil
		}
	}
	return nil, fmt.Errorf("%q is not an answer to %s; choose one of %s", c.Choice, q.ID, strings.Join(q.Choices, ", "))
}

func approval(q world.Question, c Choice) (machine.Command, error) {
	if grant, ok := q.Ask.(tool.GrantStageTool); ok {
		return tool.Approve{Digest: grant.Call.Digest, Remember: c.Remember}, nil // which it refuses to
	}
	ask, _ := q.Ask.(tool.MayRun)
	memory, remember, err := policy.Remember(c.Remember, ask.Call)
	if err != nil {
		return nil, err
	}
	a := tool.Approve{Digest: ask.Call.Digest}
	if remember {
		a.Remember = memory.Scope
	}
	return a, nil
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
