package main

import (
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"stave/internal/toolbox"
)

// noteJSON is a note as programs read it.
type noteJSON struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	Waiting bool   `json:"waiting"`
}

func (a *app) memoryCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "The notes agents keep between conversations",
		Long: `Lists the notes that agents have kept, where ` + "`memory: true`" + ` in config.yaml lets them. A note from a conversation that
had read what strangers wrote waits: no agent is shown it before you have cleared it.`,
		Example: "  stave memory\n  stave memory clear 3f2a\n  stave memory remove 3f2a",
		Args:    atMost(0),
		RunE:    func(*cobra.Command, []string) error { return a.onNotes(a.showNotes) },
	}
	cmd.AddCommand(
		&cobra.Command{Use: "clear NOTE", Short: "Let agents read a note that waits", Args: exactly("NOTE"), RunE: func(_ *cobra.Command, args []string) error {
			return a.onNotes(func(n toolbox.Notes) error {
				if err := n.Clear(args[0]); err != nil {
					return badInput("%w; `%s` lists them", err, a.command("memory"))
				}
				a.note("agents may read %s", args[0])
				return nil
			})
		}},
		&cobra.Command{Use: "remove NOTE", Short: "Forget a note", Args: exactly("NOTE"), RunE: func(_ *cobra.Command, args []string) error {
			return a.onNotes(func(n toolbox.Notes) error {
				removed, err := n.Remove(args[0])
				switch {
				case err != nil:
					return err
				case !removed:
					return badInput("there is no note %q; `%s` lists them", args[0], a.command("memory"))
				}
				a.note("%s is forgotten", args[0])
				return nil
			})
		}},
	)
	return cmd
}

func (a *app) onNotes(f func(toolbox.Notes) error) error {
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	return f(toolbox.NotesIn(filepath.Join(dir, notesName)))
}

func (a *app) showNotes(n toolbox.Notes) error {
	notes, err := n.List()
	if err != nil {
		return err
	}
	// Those that wait for a person come first.
	slices.SortStableFunc(notes, func(x, y toolbox.Note) int { return btoi(y.Waiting) - btoi(x.Waiting) })
	for _, note := range notes {
		if a.json {
			if err := a.printJSON(noteJSON{note.ID, note.Text, note.Waiting}); err != nil {
				return err
			}
			continue
		}
		state := ""
		if note.Waiting {
			state = " (waits)"
		}
		a.printf("%s%s  %s\n", note.ID, state, visible(note.Text))
	}
	if len(notes) == 0 && !a.json {
		a.note("there are no notes")
	}
	return nil
}
