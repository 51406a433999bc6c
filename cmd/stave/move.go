package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"stave/internal/engine"
	"stave/internal/runelog"
	"stave/internal/world"
)

// forkJSON names a new log and where it comes from.
type forkJSON struct {
	Log    string          `json:"log"`
	Origin string          `json:"origin"`
	At     uint64          `json:"at"`
	Files  *engine.Rewound `json:"files,omitzero"` // what became of the workspace, with --files
}

// nameJSON names a log that was archived or restored.
type nameJSON struct {
	Log   string `json:"log"`
	State string `json:"state"`
}

func (a *app) forkCmd() *cobra.Command {
	var at uint64
	var files bool
	cmd := &cobra.Command{
		Use:   "fork LOG",
		Short: "Begin a new conversation from a point of an old one",
		Long: `Begins a conversation with what was said in another up to a rune, and prints its name. The other stays as it is.
With --files the workspace, which both share, goes back to how it was at that rune, as with ` + "`stave rewind --files`" + `.`,
		Example: "  stave fork last --at 42\n  stave ask --resume \"$(stave fork last --at 42)\" \"Try it without a library\"",
		Args:    exactly("LOG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("at") && at == 0 {
				return badInput("--at 0: the first rune is 1")
			}
			return a.onLog(args[0], func(ctx context.Context, h *host, v world.View) error {
				return a.fork(ctx, h, v, at, files)
			})
		},
	}
	cmd.Flags().Uint64Var(&at, "at", 0, "the last rune that still counts (default: the last there is)")
	cmd.Flags().BoolVar(&files, "files", false, "put the workspace back, too")
	return cmd
}

func (a *app) fork(ctx context.Context, h *host, v world.View, at uint64, files bool) error {
	log, err := h.engine.Fork(ctx, v.Log, at, a.by())
	if err != nil {
		return err
	}
	if _, err := h.engine.Settle(ctx, log); err != nil {
		return err
	}
	if at == 0 {
		at = v.Seq
	}
	told := forkJSON{Log: log, Origin: v.Log, At: at}
	if files {
		done, err := h.engine.RestoreFiles(ctx, v.Log, at)
		if err != nil {
			return fmt.Errorf("%s has begun, but its files are as they were: %w", log, err)
		}
		told.Files = &done
	}
	if a.json {
		return a.printJSON(told)
	}
	a.printf("%s\n", log)
	if files {
		a.note("%s", putBack(*told.Files))
	}
	return nil
}

func (a *app) archiveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "archive LOG",
		Short:   "Move a closed conversation to cold storage; it stays listed",
		Example: "  stave close last && stave archive last",
		Args:    exactly("LOG"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.onMeta(args[0], func(ctx context.Context, h *host, m runelog.Meta) error {
				if m.Archived {
					return badInput("%s is archived already", m.Log)
				}
				if err := h.engine.Archive(ctx, m.Log, a.by()); err != nil {
					return err
				}
				return a.printName(m.Log, "archived")
			})
		},
	}
}

func (a *app) restoreCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "restore LOG|FILE",
		Short:   "Bring an archived conversation back, or take one in from an exported file",
		Example: "  stave restore conv_0198\n  stave restore ./talk.stave",
		Args:    exactly("LOG|FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if isFile(args[0]) {
				return a.importFile(args[0])
			}
			return a.onMeta(args[0], func(ctx context.Context, h *host, m runelog.Meta) error {
				if !m.Archived {
					return badInput("%s is %s, not archived; there is nothing to restore", m.Log, m.State)
				}
				if err := h.log.Restore(ctx, m.Log); err != nil {
					return err
				}
				return a.printName(m.Log, m.State)
			})
		},
	}
}

// isFile reports whether a person means a file: it is there, or looks like a path.
func isFile(name string) bool {
	info, err := os.Stat(name)
	return (err == nil && !info.IsDir()) || strings.ContainsRune(name, filepath.Separator)
}

func (a *app) importFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return badInput("restore %s: %w", name, cause(err))
	}
	defer f.Close()
	return a.hosted(func(h *host) error {
		ctx := context.Background()
		log, err := h.log.Import(ctx, f)
		switch {
		case errors.Is(err, runelog.ErrExists):
			return fmt.Errorf("restore %s: %w; it was not touched", name, err)
		case err != nil:
			return fmt.Errorf("restore %s: %w", name, err)
		}
		m, err := h.log.Meta(ctx, log)
		if err != nil {
			return err
		}
		return a.printName(log, m.State)
	})
}

func (a *app) printName(log, state string) error {
	if a.json {
		return a.printJSON(nameJSON{log, state})
	}
	a.printf("%s %s\n", log, state)
	return nil
}

func (a *app) exportCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "export LOG",
		Short:   "Write a conversation as one portable, checksummed file",
		Example: "  stave export last -o talk.stave",
		Args:    exactly("LOG"),
		RunE: func(_ *cobra.Command, args []string) error {
			if file == "" && a.outTTY {
				return badInput("a segment is not for terminals; name a file with -o FILE")
			}
			return a.onMeta(args[0], func(ctx context.Context, h *host, m runelog.Meta) error {
				if file == "" {
					w := bufio.NewWriter(a.out)
					return errors.Join(runelog.Export(ctx, h.log, m.Log, w), w.Flush())
				}
				return writeFile(file, func(w io.Writer) error { return runelog.Export(ctx, h.log, m.Log, w) })
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "the file to write (default: standard output)")
	return cmd
}

// writeFile writes a whole file or none: it takes its name once it is complete.
func writeFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return badInput("write %s: %w", name, cause(err))
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // it is of no use to anybody
		}
	}()
	w := bufio.NewWriter(f)
	if err = errors.Join(write(w), w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), name); err != nil {
		return badInput("write %s: %w", name, cause(err))
	}
	return nil
}
