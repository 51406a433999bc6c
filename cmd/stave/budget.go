package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stave/internal/config"
	"stave/internal/machine/session"
	"stave/internal/model"
	"stave/internal/world"
)

// budgetFlags are limits as people give them.
type budgetFlags struct {
	usd                                   string
	tokens, modelCalls, toolCalls, agents int64
	wall                                  time.Duration
}

func (f *budgetFlags) add(fl *pflag.FlagSet, prefix string) {
	fl.StringVar(&f.usd, prefix+"usd", "", "limit on money, in dollars")
	fl.Int64Var(&f.tokens, prefix+"tokens", 0, "limit on tokens, in and out together")
	fl.Int64Var(&f.modelCalls, prefix+"model-calls", 0, "limit on model calls")
	fl.Int64Var(&f.toolCalls, prefix+"tool-calls", 0, "limit on tool calls")
	fl.Int64Var(&f.agents, prefix+"agents", 0, "limit on agents that work for the first one")
	fl.DurationVar(&f.wall, prefix+"wall", 0, "limit on the time turns take, as 10m")
}

// amount returns the limits, 0 where none was given.
func (f *budgetFlags) amount() (model.Amount, error) {
	micro, err := config.MicroUSD(f.usd)
	if err != nil {
		return model.Amount{}, badInput("a limit on money: %w", err)
	}
	if min(f.tokens, f.modelCalls, f.toolCalls, f.agents, int64(f.wall)) < 0 {
		return model.Amount{}, badInput("a limit is not below zero")
	}
	return model.Amount{
		MicroUSD: micro, Tokens: f.tokens, ModelCalls: f.modelCalls, ToolCalls: f.toolCalls,
		Agents: f.agents, WallMs: f.wall.Milliseconds(),
	}, nil
}

func (a *app) budgetCmd() *cobra.Command {
	f := &budgetFlags{}
	var reconcile, none bool
	cmd := &cobra.Command{
		Use:   "budget LOG",
		Short: "What a conversation may use and has used; set new limits",
		Long: `Shows the limits of a conversation and of its agents, what was used, what is set aside for calls under way,
and what was charged without anybody knowing the true figure. With flags it sets those limits; the others stay.
A conversation that a limit had stopped goes on with ` + "`stave resume`" + `.`,
		Example: "  stave budget last\n  stave budget last --usd 5 --tokens 2000000\n  stave budget last --reconcile",
		Args:    exactly("LOG"),
		RunE: func(_ *cobra.Command, args []string) error {
			limit, err := f.amount()
			if err != nil {
				return err
			}
			if none && limit != (model.Amount{}) {
				return badInput("budget: --none takes all limits away, so no other can be set with it; set the limit by itself")
			}
			return a.onLog(args[0], func(ctx context.Context, h *host, v world.View) error {
				if none || reconcile || limit != (model.Amount{}) {
					if v, err = a.setBudget(ctx, h, v, limit, none, reconcile); err != nil {
						return err
					}
				}
				return a.showBudget(v)
			})
		},
	}
	f.add(cmd.Flags(), "")
	cmd.Flags().BoolVar(&reconcile, "reconcile", false, "take back what was charged for calls whose true cost nobody knows")
	cmd.Flags().BoolVar(&none, "none", false, "take all limits away")
	return cmd
}

func (a *app) setBudget(ctx context.Context, h *host, v world.View, limit model.Amount, none, reconcile bool) (world.View, error) {
	next := overlay(v.Accounts[0].Limit, limit)
	if none {
		next = model.Amount{}
	}
	if err := a.tell(ctx, h, v.Log, session.SetBudget{Limit: next, Reconcile: reconcile}); err != nil {
		return v, err
	}
	return h.engine.Look(ctx, v.Log)
}

// overlay returns the old limits with the new ones where there are any.
func overlay(old, given model.Amount) model.Amount {
	pick := func(old, given int64) int64 {
		if given != 0 {
			return given
		}
		return old
	}
	return model.Amount{
		MicroUSD: pick(old.MicroUSD, given.MicroUSD), Tokens: pick(old.Tokens, given.Tokens),
		ModelCalls: pick(old.ModelCalls, given.ModelCalls), ToolCalls: pick(old.ToolCalls, given.ToolCalls),
		Agents: pick(old.Agents, given.Agents), WallMs: pick(old.WallMs, given.WallMs),
	}
}

func (a *app) showBudget(v world.View) error {
	if a.json {
		return a.printJSON(struct {
			Log      string          `json:"log"`
			Priced   bool            `json:"priced"`
			Accounts []world.Account `json:"accounts"`
		}{v.Log, a.models.priced(v.Model), v.Accounts})
	}
	for _, acc := range v.Accounts {
		if acc.Path == world.RootPath {
			continue // the same as the session's
		}
		a.printf("%s\n", acc.Path)
		for _, row := range rowsOf(acc) {
			a.printf("  %s\n", row)
		}
	}
	if !a.models.priced(v.Model) {
		a.printf("%s of %s, so its calls count no money\n", priceUnknown, line(v.Model, shownLine))
	}
	return nil
}

// rowsOf tells an account in lines: one for each thing that is limited or used.
func rowsOf(acc world.Account) []string {
	money := config.USD
	number := func(n int64) string { return fmt.Sprint(n) }
	wall := func(ms int64) string { return (time.Duration(ms) * time.Millisecond).Round(time.Second).String() }
	var rows []string
	for _, r := range []struct {
		name                       string
		limit, spent, held, unsure int64
		show                       func(int64) string
	}{
		{"money", acc.Limit.MicroUSD, acc.Spent.MicroUSD, acc.Held.MicroUSD, acc.Unsure.MicroUSD, money},
		{"tokens", acc.Limit.Tokens, acc.Spent.Tokens, acc.Held.Tokens, acc.Unsure.Tokens, number},
		{"model calls", acc.Limit.ModelCalls, acc.Spent.ModelCalls, acc.Held.ModelCalls, acc.Unsure.ModelCalls, number},
		{"tool calls", acc.Limit.ToolCalls, acc.Spent.ToolCalls, 0, 0, number},
		{"agents", acc.Limit.Agents, acc.Spent.Agents, 0, 0, number},
		{"wall time", acc.Limit.WallMs, acc.Spent.WallMs, 0, 0, wall},
	} {
		if r.limit == 0 && r.spent == 0 {
			continue
		}
		row := []string{fmt.Sprintf("%-12s %s", r.name, r.show(r.spent))}
		if r.limit > 0 {
			row = append(row, "of "+r.show(r.limit))
		}
		if r.held > 0 {
			row = append(row, r.show(r.held)+" set aside")
		}
		if r.unsure > 0 {
			row = append(row, r.show(r.unsure)+" of it charged without a bill")
		}
		rows = append(rows, strings.Join(row, ", "))
	}
	return rows
}
