package main

import (
	"context"
	"iter"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stave/internal/machine/tool"
	"stave/internal/policy"
	"stave/internal/runelog"
	"stave/internal/world"
)

func (a *app) policyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "policy",
		Short:   "The rules of the gate: check a file, ask what it would have answered",
		Example: "  stave policy check rules.yaml\n  stave policy test rules.yaml",
		Args:    atMost(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "check FILE", Short: "Check a file of rules, with the examples in it", Args: exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			rules, err := rulesFile(args[0])
			if err != nil {
				return err
			}
			a.note("%s holds %s, and each does what its examples say", args[0], count(len(rules), "rule", "rules"))
			return nil
		},
	}, &cobra.Command{
		Use:   "test FILE [LOG]",
		Short: "What these rules would have answered over your history",
		Long: `Asks the rules in a file, and those that are built in, about every call of the past, or of one conversation, as the gate knew it then,
and shows where the answer would have been another. Nothing runs.`,
		Example: "  stave policy test rules.yaml\n  stave policy test rules.yaml last --json",
		Args:    between(1, "FILE", "LOG"),
		RunE: func(_ *cobra.Command, args []string) error {
			rules, err := rulesFile(args[0])
			if err != nil {
				return err
			}
			usual, err := policy.Default()
			if err != nil {
				return err
			}
			rules = append(rules, usual...) // as in a conversation
			return a.hosted(func(h *host) error { return a.policyTest(context.Background(), h, rules, args[1:]) })
		},
	})
	return cmd
}

func rulesFile(file string) (policy.Rules, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, badInput("%s: %w", file, cause(err))
	}
	rules, err := policy.Load(filepath.Base(file), b)
	if err != nil {
		return nil, badInput("%w", err)
	}
	return rules, nil
}

func (a *app) policyTest(ctx context.Context, h *host, rules policy.Rules, only []string) error {
	var logs []string
	if len(only) > 0 {
		m, err := h.find(ctx, only[0])
		if err != nil {
			return err
		}
		logs = append(logs, m.Log)
	} else {
		for m, err := range h.log.List(ctx) {
			if err != nil {
				return err
			}
			if !m.Archived {
				logs = append(logs, m.Log)
			}
		}
	}
	seen, differs, looser := 0, 0, 0
	for _, log := range logs {
		var failed error
		for c := range policy.Replay(rules, pastCalls(h.log.Read(ctx, log, 0), log, &failed)) {
			seen++
			if !c.Differs && !a.json {
				continue
			}
			if c.Differs {
				differs++
			}
			if c.Loosened {
				looser++
			}
			if a.json {
				if err := a.printJSON(c); err != nil {
					return err
				}
				continue
			}
			a.printf("%s → %s  %s %s%s\n", c.Old.Answer, c.New.Answer, toolName(c.Call.Tool), brief(c.Call.Arguments), because(c.New.Reason))
		}
		if failed != nil {
			return failed
		}
	}
	if !a.json {
		a.note("%s looked at; %d would be answered differently, %d of them more freely", count(seen, "call", "calls"), differs, looser)
	}
	return nil
}

// pastCalls yields the calls of a log with what the gate knew and said.
func pastCalls(runes iter.Seq2[runelog.Rune, error], log string, failed *error) iter.Seq[policy.Past] {
	return func(yield func(policy.Past) bool) {
		w := world.New(log)
		for r, err := range runes {
			if err == nil {
				err = w.Fold(r)
			}
			if err != nil {
				*failed = err
				return
			}
			if r.Kind != "tool.call" {
				continue
			}
			e, err := world.EventOf(r)
			if err != nil {
				*failed = err
				return
			}
			c, _ := e.(tool.Call)
			p, old := w.Judgement(c)
			if c.Invalid == "" && c.Safety != tool.Question && !yield(policy.Past{Posture: p, Call: c, Verdict: old}) {
				return
			}
		}
	}
}
