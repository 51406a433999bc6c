package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"stave/internal/engine"
	"stave/internal/runelog"
)

// faultJSON is a log that does not hold.
type faultJSON struct {
	Log   string `json:"log"`
	Fault string `json:"fault"`
}

func (a *app) verifyCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [LOG...]",
		Short: "Check the hash chain, every arrow and every invariant",
		Long: `Reads whole logs, all of them unless some are named, and checks the hash chain, every arrow, every invariant, the head
and the newest snapshot. On a fault it names the exact rune, and the exit code is 1.`,
		Example: "  stave verify\n  stave verify last",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.hosted(func(h *host) error { return a.verify(context.Background(), h, args) })
		},
	}
}

func (a *app) verify(ctx context.Context, h *host, names []string) error {
	metas, err := h.named(ctx, names)
	faults := 0
	for _, m := range metas {
		proof, err := engine.Verify(ctx, h.log, m.Log)
		if err != nil {
			faults++
		}
		if err := a.printProof(m.Log, proof, err); err != nil {
			return err
		}
	}
	switch {
	case err != nil:
		return err
	case faults > 0:
		return reported{fmt.Errorf("%w: %s", runelog.ErrCorrupt, count(faults, "log", "logs"))}
	case len(metas) == 0 && !a.json:
		a.note("there is no conversation to verify")
	}
	return nil
}

func (a *app) printProof(log string, proof engine.Proof, fault error) error {
	switch {
	case a.json && fault != nil:
		return a.printJSON(faultJSON{log, fault.Error()})
	case a.json:
		return a.printJSON(proof)
	case fault != nil:
		a.complain(fault)
	default:
		a.printf("%s holds: %d runes, %s, head %s\n", log, proof.Runes, proof.State, cut(proof.Head, digestShown+1))
	}
	return nil
}

// named returns the logs people mean, all of them if none is named, and an error
// if that is not all there should be.
func (h *host) named(ctx context.Context, names []string) ([]runelog.Meta, error) {
	if len(names) == 0 {
		return h.metas(ctx)
	}
	metas := make([]runelog.Meta, len(names))
	for i, name := range names {
		var err error
		if metas[i], err = h.find(ctx, name); err != nil {
			return nil, err
		}
	}
	return metas, nil
}
