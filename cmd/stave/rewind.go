package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"stave/internal/engine"
	"stave/internal/world"
)

func (a *app) rewindCmd() *cobra.Command {
	var to uint64
	var files bool
	cmd := &cobra.Command{
		Use:   "rewind LOG --to SEQ",
		Short: "Take a conversation back to an earlier rune, and its files too if you want",
		Long: `What was said after that rune no longer counts for the model; nothing is deleted, and the rewind is a rune itself.
With --files the workspace goes back to the last checkpoint before that rune: files that agents changed or made since
are put back as they were. A checkpoint is kept before the first change of every turn.`,
		Example: "  stave rewind last --to 42\n  stave rewind last --to 42 --files",
		Args:    exactly("LOG"),
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if to == 0 {
			return badInput("rewind: --to is missing; `%s` shows the runes", a.command("log %s", args[0]))
		}
		return a.onLog(args[0], func(ctx context.Context, h *host, v world.View) error {
			if to > v.Seq {
				return badInput("--to %d: rune %d is still to come; the last of %s is %d", to, to, v.Log, v.Seq)
			}
			done, err := h.engine.Rewind(ctx, engine.Rewind{Log: v.Log, To: to, Files: files, By: a.by()})
			if err != nil {
				return err
			}
			switch {
			case a.json:
				return a.printJSON(done)
			case files:
				a.note("%s goes on from rune %d; %s", v.Log, to, putBack(done))
			default:
				a.note("%s goes on from rune %d", v.Log, to)
			}
			return nil
		})
	}
	cmd.Flags().Uint64Var(&to, "to", 0, "the last rune that counts")
	cmd.Flags().BoolVar(&files, "files", false, "put the workspace back, too")
	return cmd
}

// putBack says what became of a workspace.
func putBack(done engine.Rewound) string {
	return fmt.Sprintf("%s put back, %s removed", count(done.Restored, "file", "files"), count(done.Removed, "file", "files"))
}
