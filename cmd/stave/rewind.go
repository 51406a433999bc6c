package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"stave/internal/checkpoint"
	"stave/internal/engine"
	"stave/internal/runelog"
	"stave/internal/toolbox/sandbox"
	"stave/internal/world"
)

// newCheckpoints keeps how workspaces were. A directory around the store itself or
// around a person's home is none.
func newCheckpoints(store runelog.Log, data string) *checkpoint.Store {
	kept := checkpoint.New(store)
	kept.StandIn, kept.Inner = sandbox.IsStandIn, []string{data}
	if home, err := os.UserHomeDir(); err == nil {
		kept.Inner = append(kept.Inner, home)
	}
	return kept
}

func (a *app) rewindCmd() *cobra.Command {
	var to uint64
	var files bool
	cmd := &cobra.Command{
		Use:   "rewind LOG --to SEQ",
		Short: "Take a conversation back to an earlier rune, and its files too if you want",
		Long: `What was said after that rune no longer counts for the model; nothing is deleted, and the rewind is a rune itself.
With --files the whole workspace goes back to how it was at that rune: whatever was changed, made or removed since, also
by you or by other programs. How it is now is kept first, as a rune behind that of the rewind; to have
the files back, rewind --files to the rune session.rewound itself (` + "`stave log LOG`" + ` shows its number).
A checkpoint is kept before the first change of every turn. It leaves out .git, heaps such as node_modules and what is too
large; none is kept of your home directory, of / and of a directory that holds the data directory. One that takes longer
than 20 seconds is given up, and the turn goes on; what was copied by then stays in the store and serves the next one.`,
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
			if files {
				clearStandIns(v.Dir)
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
	cmd.Flags().BoolVar(&files, "files", false, "put the whole workspace back, too, with what you changed yourself")
	return cmd
}

// putBack says what became of a workspace.
func putBack(done engine.Rewound) string {
	return fmt.Sprintf("%s put back, %s removed", count(done.Restored, "file", "files"), count(done.Removed, "file", "files"))
}
