package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStandInsAreLeftOut shows that files which stand in for missing ones are neither
// kept nor taken away nor put back, and give way to what has to come back.
func TestStandInsAreLeftOut(t *testing.T) {
	x := newTree(t)
	mark := time.Unix(1, 2)
	stand := func(p string) {
		t.Helper()
		x.do(os.WriteFile(x.at(p), nil, 0o400))
		x.do(os.Chtimes(x.at(p), mark, mark))
	}
	x.put("a", "one")
	stand("early")
	old := x.keep() // by one that does not know them
	x.store.StandIn = func(mode fs.FileMode, size int64, changed time.Time) bool {
		return mode == 0o400 && size == 0 && changed.Equal(mark)
	}
	x.put("dir/f", "kept")
	x.put("mine", "")
	blob := x.keep()
	if m := x.manifest(blob); len(m.Files) != 3 || len(m.Skipped) > 0 {
		t.Errorf("kept %+v, skipped %+v", m.Files, m.Skipped)
	}
	x.do(os.RemoveAll(x.at("dir")))
	stand("dir")
	stand("late")
	if restored, removed := x.restore(blob); restored != 1 || removed != 1 || x.read("dir/f") != "kept" {
		t.Errorf("%d put back, %d removed", restored, removed)
	}
	if _, err := os.Lstat(x.at("late")); err != nil {
		t.Errorf("one that is in nobody's way is gone: %v", err)
	}
	x.do(os.Remove(x.at("early")))
	x.restore(old)
	if _, err := os.Lstat(x.at("early")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was put back: %v", err)
	}
}

// TestTooWide shows that nothing is kept of, or put back into, a directory that is no
// workspace, and that one beside it is one.
func TestTooWide(t *testing.T) {
	x := newTree(t)
	x.put("home/data/log", "runes")
	x.put("home/desk/a", "one")
	x.do(os.Symlink("home", x.at("link")))
	x.store.Inner = []string{x.at("home"), x.at("home/data"), x.at("nowhere/at/all")}
	ctx := context.Background()
	good, err := x.store.Keep(ctx, x.at("home/desk"))
	x.do(err)
	puts := x.blobs.puts
	for _, dir := range []string{"/", x.dir, x.at("home"), x.at("link"), x.at("home/data")} {
		if _, err := x.store.Keep(ctx, dir); !errors.Is(err, ErrTooWide) {
			t.Errorf("%s was kept: %v", dir, err)
		}
		if dir == "/" {
			continue // if that went wrong, it would go too far
		}
		if _, _, err := x.store.RestoreInto(ctx, dir, good.Blob); !errors.Is(err, ErrTooWide) {
			t.Errorf("%s was written to: %v", dir, err)
		}
	}
	if x.blobs.puts != puts {
		t.Errorf("%d blobs were stored nevertheless", x.blobs.puts-puts)
	}
	if _, err := os.Lstat(filepath.Join(x.dir, "home/data/log")); err != nil {
		t.Error(err)
	}
}
