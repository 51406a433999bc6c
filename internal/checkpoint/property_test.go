package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var names = []string{"a", "b", "c", "d.go", "e f", "é", "-", "\xff\xfe", "node_modules", ".git"}

// grow plants random files, links and directories.
func (x *tree) grow(rng *rand.Rand, dir string, depth int) {
	for range 2 + rng.IntN(5) {
		p := filepath.Join(dir, names[rng.IntN(len(names))])
		if _, err := os.Lstat(p); err == nil {
			continue
		}
		switch n := rng.IntN(10); {
		case n < 3 && depth < 3:
			x.do(os.Mkdir(p, 0o755))
			x.grow(rng, p, depth+1)
		case n < 5:
			x.do(os.Symlink(x.someTarget(rng), p))
		default:
			x.do(os.WriteFile(p, fmt.Append(nil, rng.IntN(50)), 0o600))
			x.do(os.Chmod(p, []fs.FileMode{0o600, 0o644, 0o755, 0o444}[rng.IntN(4)]))
		}
	}
}

func (x *tree) someTarget(rng *rand.Rand) string {
	return []string{x.outside, filepath.Join(x.outside, "precious"), "../../out", "a", "b/c", ".", "nowhere"}[rng.IntN(7)]
}

// edit does to a random path what an agent might do.
func (x *tree) edit(rng *rand.Rand) {
	var paths []string
	x.do(filepath.WalkDir(x.dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && p != x.dir {
			paths = append(paths, p)
		}
		return err
	}))
	if len(paths) == 0 {
		x.grow(rng, x.dir, 0)
		return
	}
	p := paths[rng.IntN(len(paths))]
	info, err := os.Lstat(p)
	x.do(err)
	switch rng.IntN(8) {
	case 0:
		x.do(os.RemoveAll(p))
	case 1: // another kind of thing
		x.do(os.RemoveAll(p))
		x.do(os.Symlink(x.someTarget(rng), p))
	case 2:
		x.do(os.RemoveAll(p))
		x.do(os.Mkdir(p, 0o755))
		x.grow(rng, p, 2)
	case 3:
		x.do(os.RemoveAll(p))
		x.do(os.WriteFile(p, []byte("new"), 0o644))
	case 4: // moved away; it fails where the target is in the way
		_ = os.Rename(p, filepath.Join(x.dir, names[rng.IntN(len(names)-2)]+"2"))
	case 5:
		if info.IsDir() {
			x.grow(rng, p, 2)
		}
	default:
		if info.Mode().IsRegular() {
			x.do(os.WriteFile(p, fmt.Append(nil, rng.IntN(50)), 0o600))
		}
		if info.Mode().Type() != fs.ModeSymlink {
			x.do(os.Chmod(p, []fs.FileMode{0o700, 0o755}[rng.IntN(2)]))
		}
	}
}

// TestRestoreAnything shows that whatever happened to a tree, what is covered
// comes back as it was, and nothing outside is touched.
func TestRestoreAnything(t *testing.T) {
	changed, whole := 0, 0
	for seed := range uint64(70) {
		rng := rand.New(rand.NewPCG(seed, 1))
		x := newTree(t)
		x.grow(rng, x.dir, 0)
		blob := x.keep()
		all, out := picture(t, x.dir), picture(t, x.outside)
		want := covered(all)
		for range 1 + rng.IntN(12) {
			x.edit(rng)
		}
		before := picture(t, x.dir)
		_, _, err := x.store.Restore(t.Context(), x.dir, blob)
		after := picture(t, x.dir)
		if diff := cmp.Diff(out, picture(t, x.outside)); diff != "" {
			t.Fatalf("seed %d changed what is outside:\n%s", seed, diff)
		}
		for p, was := range before { // what is ignored stays, wherever it is now
			if ignored(before, p) && after[p] != was {
				t.Fatalf("seed %d: %q was %q, is %q", seed, p, was, after[p])
			}
		}
		changed += len(cmp.Diff(want, covered(before)))
		if errors.Is(err, errInTheWay) { // an ignored directory moved to where a file was
			continue
		}
		x.do(err)
		whole++
		got := covered(after)
		maps.DeleteFunc(got, func(p, is string) bool {
			_, kept := want[p]
			// A new directory stays if something ignored is in it, and so does what is
			// now where something was ignored.
			return !kept && (is[0] == 'd' && holdsIgnored(t, x.at(p)) || ignored(all, p))
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-kept +restored):\n%s", seed, diff)
		}
		if restored, removed := x.restore(blob); restored+removed != 0 {
			t.Fatalf("seed %d: a second restore did %d and %d more", seed, restored, removed)
		}
	}
	if changed == 0 || whole < 45 {
		t.Errorf("only %d restores show something", whole)
	}
}

func holdsIgnored(t *testing.T, dir string) bool {
	all := picture(t, dir)
	return len(covered(all)) < len(all)
}

// TestRestoreCutOff shows that a restore that ends after any number of files is
// finished by the next one.
func TestRestoreCutOff(t *testing.T) {
	for cut := 1; ; cut++ {
		x := newTree(t)
		for i := range 6 {
			x.put(fmt.Sprintf("d%d/f", i), fmt.Sprint("content ", i))
		}
		x.do(os.Symlink("d1", x.at("link")))
		blob := x.keep()
		want := picture(t, x.dir)
		x.do(os.RemoveAll(x.at("d0")))
		x.do(os.Remove(x.at("link")))
		for i := range 5 {
			x.put(fmt.Sprintf("d%d/f", i+1), "changed")
			x.put(fmt.Sprintf("d%d/new", i+1), "new")
		}
		ctx, stop := context.WithCancel(t.Context())
		x.blobs.opened, x.blobs.onOpen = 0, func(n int, _ string) error {
			if n == cut {
				stop()
				return context.Canceled
			}
			return nil
		}
		_, _, err := x.store.Restore(ctx, x.dir, blob)
		stop()
		if x.blobs.opened < cut {
			x.do(err)
			if cut != 8 { // the list and six files
				t.Errorf("a restore opened %d contents", cut-1)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cut off at %d: %v", cut, err)
		}
		x.put("d3/"+restoreTemp+"HALF", "half") // what a kill leaves behind
		x.blobs.onOpen = nil
		x.restore(blob)
		if diff := cmp.Diff(want, picture(t, x.dir)); diff != "" {
			t.Fatalf("cut off at %d (-kept +restored):\n%s", cut, diff)
		}
	}
}
