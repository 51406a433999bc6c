package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"stave/internal/runelog"
)

const (
	shownPayload = 100
	// followPoll is how often log --follow looks whether somebody has been there.
	followPoll = 200 * time.Millisecond
)

func (a *app) logCmd() *cobra.Command {
	var after uint64
	var follow, whole bool
	cmd := &cobra.Command{
		Use:   "log LOG",
		Short: "Read the runes of a conversation",
		Long: `Prints one rune a line: number, time, path, kind, from and to, by whom, and the beginning of what it says.
With --json each line is the canonical rune: the SHA-256 of a line is the "prev" of the next. A rune that says more
than 64 KiB only names where that is kept; --whole puts it back in its place.`,
		Example: "  stave log last\n  stave log last --after 40 --json\n  stave log last --follow",
		Args:    exactly("LOG"),
		RunE: func(_ *cobra.Command, args []string) error {
			show := a.printRune
			if a.json && whole {
				show = func(r runelog.Rune) error { return a.printJSON(r) }
			}
			return a.readLog(args[0], after, follow, show)
		},
	}
	cmd.Flags().Uint64Var(&after, "after", 0, "begin behind this rune")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with runes as they come, until the log is sealed")
	cmd.Flags().BoolVar(&whole, "whole", false, "with --json: large payloads in their place instead of their hash")
	return cmd
}

func (a *app) readLog(name string, after uint64, follow bool, show func(runelog.Rune) error) error {
	var meta runelog.Meta
	var signed time.Time
	read := func() error {
		return a.onMeta(name, func(ctx context.Context, h *host, m runelog.Meta) error {
			meta, signed = m, a.lockTime()
			for r, err := range h.log.Read(ctx, m.Log, after) {
				if err != nil {
					return err
				}
				after = r.Seq
				if err := show(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := read(); err != nil || !follow {
		return err
	}
	name = meta.Log // what "last" or a prefix means must not change on the way
	for !meta.Sealed {
		for a.lockTime().Equal(signed) {
			time.Sleep(followPoll)
		}
		// Whoever is there may stay for a while; its runes can be read when it left.
		if err := read(); err != nil && !errors.Is(err, runelog.ErrLocked) {
			return err
		}
	}
	return nil
}

// lockTime is when the data directory was last opened: every process that does
// signs the lock. While there is no host to ask, that is how a reader learns that
// somebody has been there without keeping anybody out.
func (a *app) lockTime() time.Time {
	dir, err := a.dataDir()
	if err != nil {
		return time.Time{}
	}
	info, err := os.Stat(filepath.Join(dir, "lock"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (a *app) printRune(r runelog.Rune) error {
	if a.json {
		_, err := a.out.Write(append(slices.Clone(r.Raw()), '\n'))
		return err
	}
	at := time.UnixMilli(r.TSMs).Local().Format("15:04:05.000")
	text := fmt.Sprintf("%5d  %s  %-34s  %-24s  %s→%s  %s  %s", r.Seq, at, shortIDs(r.Path), r.Kind,
		or(r.From, "·"), r.To, shortIDs(r.By), cut(visible(string(r.Payload)), shownPayload))
	if a.width > 0 {
		text = cut(text, a.width)
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// longID is the tail of an id; its last letters tell it from the others of its log.
var longID = regexp.MustCompile(`_[0-9a-f]{26}([0-9a-f]{6})`)

// shortIDs makes a path or a name short enough to read.
func shortIDs(s string) string { return longID.ReplaceAllString(visible(s), "_…$1") }
