package pebble

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stave/internal/conformance"
)

// filesIn counts what lies in a store's directory, of one kind if a suffix is given.
func filesIn(t *testing.T, fs vfs.FS, suffix string) (n int) {
	t.Helper()
	names, err := fs.List(fs.PathJoin(memDir, storeName))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			n++
		}
	}
	return n
}

// short is a short command: it opens the store, writes a little and closes.
func short(t *testing.T, fs vfs.FS, log string, between func(*Store)) {
	t.Helper()
	s, err := openMem(fs)
	if err != nil {
		t.Fatal(err)
	}
	conformance.NewWriter(t, s, log).Append(t, conformance.Drafts(3)...)
	if between != nil {
		between(s)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Short commands leave old files to others, but never more than the bound; one
// that stays open for longer removes them all, and no rune is lost.
func TestOldFilesWait(t *testing.T) {
	const rounds = 2 * maxOld
	// live is more than a store needs: its tables, log, manifest, options, markers.
	const live = 2*compactAfter + 10
	fs := vfs.NewMem()
	most := 0
	for n := range rounds {
		short(t, fs, fmt.Sprintf("conv_%d", n), nil)
		most = max(most, filesIn(t, fs, ".log"))
		if all := filesIn(t, fs, ""); all > maxOld+live {
			t.Fatalf("%d files after %d commands", all, n+1)
		}
	}
	if most < 5 {
		t.Errorf("at most %d logs: nothing waited", most)
	}
	short(t, fs, "conv_long", func(s *Store) {
		if !s.removals.timer.Stop() {
			t.Error("nobody was to remove what waits")
		}
		s.removals.catchUp()
	})
	if logs := filesIn(t, fs, ".log"); logs != 1 {
		t.Errorf("%d logs after a longer command, want 1", logs)
	}
	short(t, fs, "conv_last", func(s *Store) {
		for n := range rounds {
			if got := len(conformance.ReadAll(t, s, fmt.Sprintf("conv_%d", n), 0)); got != 3 {
				t.Errorf("conv_%d has %d runes, want 3", n, got)
			}
		}
	})
}

// What is asked to go waits, then goes, and later goes at once; markers never wait,
// and a broken store keeps everything.
func TestRemovals(t *testing.T) {
	fs := vfs.NewMem()
	there := func(name string) bool {
		_, err := fs.Stat(name)
		return !errors.Is(err, os.ErrNotExist)
	}
	remove := func(r *removals, name string) {
		t.Helper()
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err == nil {
			err = errors.Join(f.Close(), r.remove(name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := newRemovals(fs, newBreaker())
	r.timer.Stop()
	remove(r, "000001.log")
	remove(r, "marker.manifest.1")
	if !there("000001.log") || there("marker.manifest.1") {
		t.Error("the log should wait, the marker should not")
	}
	r.catchUp()
	remove(r, "000002.log")
	if there("000001.log") || there("000002.log") {
		t.Error("old logs are still there")
	}
	stopped := newRemovals(fs, newBreaker())
	remove(stopped, "000004.log")
	stopped.stop()
	stopped.catchUp() // the timer may have been a moment faster
	if !there("000004.log") {
		t.Error("a closed store removed a file")
	}
	broken := newRemovals(fs, newBreaker())
	broken.timer.Stop()
	remove(broken, "000003.log")
	broken.breaker.trip(errInjected)
	broken.catchUp()
	if !there("000003.log") {
		t.Error("a broken store lost a file")
	}
}

// A short log stays as it is at the end, a long one becomes a table.
func TestFlushAtTheEnd(t *testing.T) {
	fs := vfs.NewMem()
	short(t, fs, "conv_1", nil)
	if tables := filesIn(t, fs, ".sst"); tables != 0 {
		t.Errorf("%d tables after a few runes, want 0", tables)
	}
	var batches, runes int
	short(t, fs, "conv_2", func(s *Store) {
		before := filesIn(t, fs, ".sst")
		w := conformance.NewWriter(t, s, "conv_3")
		for s.commits.written < flushFrom {
			runes += len(w.Append(t, conformance.Drafts(50)...))
			batches++
		}
		if filesIn(t, fs, ".sst") != before {
			t.Error("a table before the end")
		}
	})
	if tables := filesIn(t, fs, ".sst"); tables != 2 {
		t.Errorf("%d tables, want one of each command", tables)
	}
	short(t, fs, "conv_4", func(s *Store) {
		if got := len(conformance.ReadAll(t, s, "conv_3", 0)); got != runes || batches < 2 {
			t.Errorf("%d runes, want %d of %d batches", got, runes, batches)
		}
	})
}
