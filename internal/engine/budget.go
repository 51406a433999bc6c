package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"stave/internal/machine/session"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/world"
)

// ModelInfo is what is known of a model; the zero value knows nothing.
type ModelInfo struct {
	Window    int64 // tokens of a request and its answer together
	MaxOutput int64
	// Cost is what a call cost in millionths of a dollar, nil where no price is known.
	Cost func(model.Usage) int64
	// Worst is the most a call can cost, nil where no price is known.
	Worst func(input, output int64) int64
	// NoImages and NoTools say what the model cannot take.
	NoImages bool
	NoTools  bool
}

const (
	usualOutput = 8192 // tokens of an answer where the model's own limit is not known
	leastOutput = 256  // an answer shorter than this is not worth asking for
)

// errExhausted ends a job whose turn a limit has ended.
var errExhausted = errors.New("the budget is used up")

// countBytes is the estimate that needs no knowledge: a token is at least a byte.
func countBytes(r model.Request) int64 {
	n := int64(len(r.System))
	for _, part := range []any{r.Messages, r.Tools} {
		if b, err := json.Marshal(part); err == nil {
			n += int64(len(b))
		}
	}
	return n
}

// reserve sets aside the most a call can cost, if anything limits that, and caps
// the answer to what there is room for. Without room it ends the turn.
func (t teller) reserve(ctx context.Context, r *model.Request) error {
	return t.a.do(ctx, func(a *actor) error {
		limit := a.world.Limit(t.job.Path)
		if limit.MicroUSD == 0 && limit.Tokens == 0 && limit.ModelCalls == 0 {
			return nil
		}
		info := a.e.opt.Info(r.Model)
		if limit.MicroUSD > 0 && info.Worst == nil {
			return &model.Error{Kind: model.ErrBadRequest, Message: fmt.Sprintf(
				"no price is known for %s, so a limit on money cannot be kept: limit tokens instead, or add its price", r.Model)}
		}
		input, short := a.e.opt.Tokens(*r), ""
		for output := outputOf(*r, info); output >= leastOutput; output /= 2 {
			amount := model.Amount{Tokens: input + output, ModelCalls: 1}
			if info.Worst != nil {
				amount.MicroUSD = info.Worst(input, output)
			}
			if short = a.world.Short(t.job.Path, amount); short == "" {
				r.MaxTokens = output
				_, err := a.handle(ctx, t.message(turn.Reserve{Amount: amount}))
				return err
			}
		}
		if _, err := a.handle(ctx, t.message(turn.Interrupt{Reason: session.BudgetReason + short})); err != nil {
			return err
		}
		return errExhausted
	})
}

func outputOf(r model.Request, info ModelInfo) int64 {
	switch {
	case r.MaxTokens > 0:
		return r.MaxTokens
	case info.MaxOutput > 0:
		return min(info.MaxOutput, 4*usualOutput)
	}
	return usualOutput
}

// bill is what a finished call cost, as far as anybody knows.
func (e *Engine) bill(name string, r model.Response) turn.Bill {
	b := turn.Bill{Usage: r.Usage, Unsure: !r.UsageReported}
	if cost := e.opt.Info(name).Cost; cost != nil && r.UsageReported {
		b.MicroUSD = cost(r.Usage)
	}
	return b
}

// free says that a failed attempt surely cost nothing: the provider refused it.
func free(k model.ErrorKind) bool {
	switch k {
	case model.ErrRateLimited, model.ErrOverloaded, model.ErrAuth, model.ErrBadRequest, model.ErrTooLong, model.ErrQuota, model.ErrUnreachable:
		return true
	case model.ErrStream, model.ErrTimeout, model.ErrLimit, model.ErrInternal:
	}
	return false
}

// setWallClock ends a turn when the time it was given is over.
func (a *actor) setWallClock(p world.Path) {
	left, limited := a.world.WallLeft(p, a.e.nowMs())
	if !limited {
		return
	}
	a.deadlines[p] = a.after(left, func(a *actor) {
		_, _ = a.handle(a.e.ctx, world.Message{Path: p, Command: turn.Interrupt{Reason: session.BudgetReason + "wall time"}, By: "engine"})
	})
}
