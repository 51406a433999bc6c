package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stave/internal/engine"
	"stave/internal/runelog"
	"stave/internal/runelog/memory"
)

var _ engine.Checkpoints = (*Store)(nil)

func (x *tree) manifest(blob string) *manifest {
	x.t.Helper()
	m, err := decodeManifest(x.blobs.content[blob])
	x.do(err)
	return m
}

// skippedOf lists what was skipped, and why.
func (x *tree) skippedOf(blob string) map[string]string {
	found := map[string]string{}
	for _, s := range x.manifest(blob).Skipped {
		found[string(s.Path)] = s.Why
	}
	return found
}

// TestUnchangedIsNotReadAgain shows that a second look costs no content, sees
// a change that keeps size and time, and stores nothing twice.
func TestUnchangedIsNotReadAgain(t *testing.T) {
	x := newTree(t)
	x.store.now = func() time.Time { return time.Now().Add(time.Hour) } // every change is long ago
	x.put("a", "same")
	x.put("b", "same")
	x.put("c", "else")
	first := x.keep()
	if x.blobs.puts != 3 || x.blobs.opened != 3 {
		t.Errorf("stored %d blobs, looked for %d, want two contents and the list", x.blobs.puts, x.blobs.opened)
	}
	x.blobs.opened = 0
	if again := x.keep(); again != first || x.blobs.puts != 3 || x.blobs.opened != 0 {
		t.Errorf("a second look: %s for %s, %d puts, %d looked for", again, first, x.blobs.puts, x.blobs.opened)
	}
	p := x.store.places[x.resolved()]
	known := p.known["a"]
	known.sha = hash([]byte("lie!"))
	p.known["a"] = known
	// Only who does not read the file believes this.
	if m := x.manifest(x.keep()); m.Files[0].SHA != known.sha {
		t.Error("an unchanged file was read again")
	}

	info, err := os.Stat(x.at("c"))
	x.do(err)
	x.put("c", "ELSE")
	x.do(os.Chtimes(x.at("c"), info.ModTime(), info.ModTime()))
	if m := x.manifest(x.keep()); m.Files[2].SHA != hash([]byte("ELSE")) {
		t.Error("a change that kept size and time was missed")
	}
	x.put("c", "else")
	x.do(os.Chtimes(x.at("c"), info.ModTime(), info.ModTime()))
	x.keep()
	x.put("c", "ELSE")
	x.do(os.Chtimes(x.at("c"), info.ModTime(), info.ModTime()))
	if restored, _ := x.restore(first); restored != 1 {
		t.Errorf("restored %d, not the file whose change kept size and time", restored)
	}
}

func (x *tree) resolved() string {
	name, err := resolve(x.dir)
	x.do(err)
	return name
}

// TestRecentChangeIsReadAgain shows that a file changed a moment ago is not
// trusted to show the next change in its times.
func TestRecentChangeIsReadAgain(t *testing.T) {
	x := newTree(t)
	info := func() os.FileInfo { i, err := os.Stat(x.at("a")); x.do(err); return i }
	x.put("a", "one")
	x.store.now = func() time.Time { return info().ModTime().Add(settled / 2) }
	x.keep()
	if n := len(x.store.places[x.resolved()].known); n != 0 {
		t.Errorf("%d files are trusted too early", n)
	}
}

// TestLimits shows that what is over a limit is skipped and then spared, also
// when it was moved, and that everything else is kept.
func TestLimits(t *testing.T) {
	x := newTree(t)
	x.store.limits.fileBytes, x.store.limits.totalBytes, x.store.limits.files, x.store.limits.depth = 10, 25, 4, 2
	x.put("a", "0123456789")
	x.put("b", "0123456789a")
	x.put("c", "0123456789")
	x.put("d", "0123456789")
	x.put("e", "01234")
	x.put("x/y/z/deep", "deep")
	x.do(os.Symlink("a", x.at("f")))
	x.put("g", "")
	blob := x.keep()
	want := map[string]string{"b": "too large", "d": "too much in all", "g": "too many files", "x/y/z": "nested too deep"}
	if diff := cmp.Diff(want, x.skippedOf(blob)); diff != "" {
		t.Fatalf("skipped (-want +got):\n%s", diff)
	}
	x.do(os.Rename(x.at("d"), x.at("moved")))
	x.do(os.Rename(x.at("g"), x.at("c"))) // where a kept file was
	x.put("b", "small")
	x.put("x/y/z/new", "new")
	x.put("large", "0123456789a")
	x.put("small", "new")
	x.put("a", "changed")
	_, _, err := x.store.Restore(t.Context(), x.dir, blob)
	if u, ok := errors.AsType[*Unfinished](err); !ok || len(u.Paths) != 1 || u.Paths[0] != "c" || !errors.Is(err, errInTheWay) {
		t.Errorf("a skipped file in the way of a kept one: %v", err)
	}
	got := picture(t, x.dir)
	for p, content := range map[string]string{
		"moved": "0123456789", "c": "", "b": "small", "x/y/z/new": "new", "large": "0123456789a", "a": "0123456789", "x/y/z/deep": "deep",
	} {
		if got[p] != "-rw-r--r-- "+content {
			t.Errorf("%s is %q, want %q", p, got[p], content)
		}
	}
	if got["small"] != "" {
		t.Error("a new file stayed")
	}
}

// TestUnlisted shows that nothing is removed when some of what was there is not
// known by name.
func TestUnlisted(t *testing.T) {
	for _, limit := range []func(*limits){
		func(l *limits) { l.entries = 3 },
		func(l *limits) { l.nameBytes = 3 },
		func(l *limits) { l.files, l.skipped = 2, 1 },
	} {
		x := newTree(t)
		limit(&x.store.limits)
		for _, p := range []string{"b", "c", "d", "e"} {
			x.put(p, p)
		}
		blob := x.keep()
		if x.manifest(blob).Unlisted == 0 {
			t.Fatal("everything was listed")
		}
		x.do(os.Remove(x.at("b")))
		x.do(os.Rename(x.at("e"), x.at("a")))
		if restored, removed := x.restore(blob); restored != 1 || removed != 0 {
			t.Errorf("restored %d, removed %d", restored, removed)
		}
	}
}

// TestIgnored shows what is left alone: repositories, heaps, caches and what the
// top .gitignore names, also when the rules were changed since.
func TestIgnored(t *testing.T) {
	x := newTree(t)
	x.put(".gitignore", "# comment\n/out/\nbuild/\n!build/\ndist/\n*.log\nlib/gen/\n")
	kept := []string{"src/out/a", "build/a", "a.log", ".env", "lib/a"}
	left := []string{".git/a", "sub/.git", "out/a", "sub/dist/a", "lib/gen/a", "sub/node_modules/a", "target/a", ".stave-HALF"}
	for _, p := range append(kept, left...) {
		x.put(p, "old")
	}
	x.put("target/"+tagName, tagContent+"\n# made by a tool")
	blob := x.keep()
	x.put(".gitignore", "")
	x.do(os.Remove(x.at("target/" + tagName)))
	x.put("build/"+tagName, tagContent) // hides nothing that was kept
	for _, p := range append(kept, left...) {
		x.put(p, "new")
		x.put(filepath.Dir(p)+"/more", "new")
	}
	x.restore(blob)
	got := picture(t, x.dir)
	for _, p := range kept {
		if !strings.HasSuffix(got[p], "old") || got[filepath.Dir(p)+"/more"] != "" {
			t.Errorf("%s did not come back", p)
		}
	}
	for _, p := range left {
		if !strings.HasSuffix(got[p], "new") {
			t.Errorf("%s was touched", p)
		}
	}
	for _, p := range []string{".git/more", "out/more", "target/more", "sub/node_modules/more"} {
		if got[p] == "" {
			t.Errorf("%s was removed", p)
		}
	}
}

// TestOtherDirectory shows that a checkpoint goes to its own directory, by
// whatever name, unless told otherwise; and that a directory that is gone comes back.
func TestOtherDirectory(t *testing.T) {
	x := newTree(t)
	x.put("d/a", "a")
	blob := x.keep()
	want := picture(t, x.dir)
	if _, _, err := x.store.Restore(t.Context(), x.outside, blob); !errors.Is(err, ErrOtherDirectory) {
		t.Errorf("into another directory: %v", err)
	}
	if got := picture(t, x.outside); len(got) != 1 {
		t.Errorf("another directory was changed: %v", got)
	}
	alias := x.dir + "-alias"
	x.do(os.Symlink(x.dir, alias))
	x.do(os.RemoveAll(x.dir))
	x.restore(blob)
	x.put("d/a", "b")
	if _, _, err := x.store.Restore(t.Context(), alias, blob); err != nil {
		t.Errorf("by another name: %v", err)
	}
	if _, _, err := x.store.RestoreInto(t.Context(), x.outside, blob); err != nil {
		t.Errorf("as told: %v", err)
	}
	for _, dir := range []string{x.dir, x.outside} {
		if diff := cmp.Diff(want, picture(t, dir)); diff != "" {
			t.Errorf("%s:\n%s", dir, diff)
		}
	}
}

// TestDamagedBlob shows that a wrong or missing content is not put back, is
// named, and does not keep the others from coming back.
func TestDamagedBlob(t *testing.T) {
	x := newTree(t)
	for _, p := range []string{"a", "b", "c"} {
		x.put(p, "content of "+p)
	}
	blob := x.keep()
	for _, p := range []string{"a", "b", "c"} {
		x.put(p, "changed")
	}
	x.blobs.content[hash([]byte("content of a"))] = []byte("content of A")
	good := x.blobs.content[hash([]byte("content of b"))]
	delete(x.blobs.content, hash([]byte("content of b")))
	restored, _, err := x.store.Restore(t.Context(), x.dir, blob)
	if u, ok := errors.AsType[*Unfinished](err); !ok || restored != 1 || !cmp.Equal(u.Paths, []string{"a", "b"}) {
		t.Errorf("restored %d: %v", restored, err)
	}
	if !errors.Is(err, runelog.ErrCorrupt) || !errors.Is(err, runelog.ErrNotFound) {
		t.Errorf("the reasons are lost: %v", err)
	}
	got := picture(t, x.dir)
	if got["a"] != "-rw-r--r-- changed" || got["c"] != "-rw-r--r-- content of c" || len(got) != 3 {
		t.Errorf("%v", got)
	}
	x.blobs.content[hash(good)] = good
	x.blobs.content[hash([]byte("content of a"))] = []byte("content of a")
	if restored, _ := x.restore(blob); restored != 2 {
		t.Errorf("the next restore put back %d", restored)
	}
}

// TestFullStore shows that a checkpoint whose contents cannot be stored is none.
func TestFullStore(t *testing.T) {
	x := newTree(t)
	for i := range 40 {
		x.put(fmt.Sprint(i), fmt.Sprint(i))
	}
	full := errors.New("disk full")
	left := 20
	x.blobs.onPut = func() error {
		if left--; left < 0 {
			return full
		}
		return nil
	}
	if _, err := x.store.Keep(t.Context(), x.dir); !errors.Is(err, full) {
		t.Errorf("kept on a full disk: %v", err)
	}
	x.blobs.onPut = nil
	blob := x.keep()
	x.do(os.RemoveAll(x.dir))
	if restored, _ := x.restore(blob); restored != 40 {
		t.Errorf("restored %d", restored)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := x.store.Keep(ctx, x.dir); !errors.Is(err, context.Canceled) {
		t.Errorf("kept although told to stop: %v", err)
	}
}

// TestManifest shows that a list that leads outside or contradicts itself is
// refused before anything is touched.
func TestManifest(t *testing.T) {
	x := newTree(t)
	sha := hash(nil)
	file := func(p string) keptFile { return keptFile{Path: name(p), SHA: sha} }
	for _, m := range []manifest{
		{Version: 2},
		{Files: []keptFile{file("../out/precious")}},
		{Files: []keptFile{file("/etc/passwd")}},
		{Files: []keptFile{file(".git/config")}},
		{Files: []keptFile{file(".")}},
		{Files: []keptFile{file("d/../a")}},
		{Files: []keptFile{file("a"), file("a")}},
		{Files: []keptFile{file("d/a")}},
		{Files: []keptFile{{Path: "a", SHA: "../../x"}}},
		{Files: []keptFile{{Path: "a", SHA: sha, Size: -1}}},
		{Links: []keptLink{{Path: "d"}}, Files: []keptFile{file("d/a")}},
		{Dirs: []keptDir{{Path: "../d"}}},
	} {
		m.Dir = name(x.resolved())
		if m.Version == 0 {
			m.Version = manifestVersion
		}
		raw, err := json.Marshal(m)
		x.do(err)
		x.blobs.content[hash(raw)] = raw
		if _, _, err := x.store.Restore(t.Context(), x.dir, hash(raw)); err == nil {
			t.Errorf("%s was taken", raw)
		}
	}
	x.blobs.content[sha] = nil
	if _, _, err := x.store.Restore(t.Context(), x.dir, sha); err == nil {
		t.Error("something that is no list was taken")
	}
}

// TestManyAtOnce shows that one store serves many directories and callers, and
// remembers only some.
func TestManyAtOnce(t *testing.T) {
	blobs := memory.New()
	defer blobs.Close()
	s := New(blobs)
	top := t.TempDir()
	var group sync.WaitGroup
	for i := range 4 * maxRemembered {
		dir := filepath.Join(top, fmt.Sprint(i/2))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			kept, err := s.Keep(t.Context(), dir)
			if err == nil {
				_, _, err = s.Restore(t.Context(), dir, kept.Blob)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if _, err := s.Keep(t.Context(), top); err != nil || len(s.places) > 4*maxRemembered {
		t.Errorf("remembers %d directories: %v", len(s.places), err)
	}
}

func BenchmarkKeepEmpty(b *testing.B) { benchmarkKeep(b, 0) }
func BenchmarkKeep1000(b *testing.B)  { benchmarkKeep(b, 1000) }

func benchmarkKeep(b *testing.B, files int) {
	dir := b.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), fmt.Append(nil, i), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	s := New(&blobs{content: map[string][]byte{}})
	s.now = func() time.Time { return time.Now().Add(time.Hour) }
	for b.Loop() {
		if _, err := s.Keep(b.Context(), dir); err != nil {
			b.Fatal(err)
		}
	}
}
