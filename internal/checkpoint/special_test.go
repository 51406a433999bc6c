package checkpoint

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLinksLeadNowhere shows that Restore writes, removes and changes modes only
// in the directory, whatever its parts have become links to.
func TestLinksLeadNowhere(t *testing.T) {
	for _, target := range []string{"", "../out", "elsewhere"} {
		x := newTree(t)
		if target == "" {
			target = x.outside
		}
		x.put("d/precious", "mine")
		x.put("d/sub/f", "mine")
		x.put("elsewhere/precious", "other")
		x.put("f", "mine")
		x.do(os.Chmod(x.at("d/precious"), 0o600))
		blob := x.keep()
		want, out := picture(t, x.dir), picture(t, x.outside)
		x.do(os.RemoveAll(x.at("d")))
		x.do(os.Symlink(target, x.at("d")))
		x.do(os.Remove(x.at("f")))
		x.do(os.Symlink(target+"/precious", x.at("f")))
		x.do(os.Symlink(target, x.at("new")))
		restored, removed := x.restore(blob)
		if diff := cmp.Diff(want, picture(t, x.dir)); diff != "" {
			t.Errorf("linked to %s (-kept +restored):\n%s", target, diff)
		}
		if diff := cmp.Diff(out, picture(t, x.outside)); diff != "" {
			t.Errorf("linked to %s, outside was changed:\n%s", target, diff)
		}
		if restored != 3 || removed != 2 {
			t.Errorf("restored %d, removed %d", restored, removed)
		}
	}
}

// TestStep shows that no link is entered, not even one that stays inside.
func TestStep(t *testing.T) {
	x := newTree(t)
	x.put("real/f", "")
	x.do(os.Symlink("real", x.at("link")))
	x.do(syscall.Mkfifo(x.at("fifo"), 0o644))
	top, err := os.OpenRoot(x.dir)
	x.do(err)
	defer top.Close()
	info, err := top.Stat(".")
	x.do(err)
	for name, want := range map[string]error{"real": nil, "link": errNoDir, "fifo": errNoDir, "none": os.ErrNotExist} {
		dir, err := step(top, name, stampOf(info).dev)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			dir.Close()
		}
	}
	if _, err := step(top, "real", stampOf(info).dev+1); !errors.Is(err, errOtherDisk) {
		t.Errorf("another file system: %v", err)
	}
	// What step relies on if a FIFO is swapped in: opening it does not wait.
	if _, err := top.OpenRoot("fifo/."); err == nil {
		t.Error("a FIFO was opened as a directory")
	}
}

// TestSwappedDirectory shows that a directory exchanged for a link after Restore
// looked, at the moment of any write, is not followed.
func TestSwappedDirectory(t *testing.T) {
	x := newTree(t)
	x.put("d/one", "one")
	x.put("d/two", "two")
	blob := x.keep()
	out := picture(t, x.outside)
	x.do(os.RemoveAll(x.at("d")))
	x.blobs.opened, x.blobs.onOpen = 0, func(n int, _ string) error {
		if n == 2 { // the list was the first
			x.do(os.Rename(x.at("d"), x.at("gone")))
			x.do(os.Symlink(x.outside, x.at("d")))
		}
		return nil
	}
	_, _, err := x.store.Restore(t.Context(), x.dir, blob)
	if diff := cmp.Diff(out, picture(t, x.outside)); diff != "" {
		t.Fatalf("outside was changed (%v):\n%s", err, diff)
	}
	x.blobs.onOpen = nil
	x.restore(blob)
	if got := picture(t, x.dir); got["d/one"] != "-rw-r--r-- one" || got["gone"] != "" {
		t.Errorf("the next restore left %v", got)
	}
}

// TestSpecialFiles shows that FIFOs are neither opened nor removed, and that one
// in the place of a kept file gives way.
func TestSpecialFiles(t *testing.T) {
	x := newTree(t)
	x.put("a", "a")
	x.do(syscall.Mkfifo(x.at("fifo"), 0o644))
	blob := x.keep()
	if why := x.skippedOf(blob); len(why) != 1 || why["fifo"] != "not a file" {
		t.Errorf("skipped %v", why)
	}
	x.do(os.Remove(x.at("a")))
	x.do(syscall.Mkfifo(x.at("a"), 0o644))
	x.do(syscall.Mkfifo(x.at("new"), 0o644))
	x.restore(blob)
	got := picture(t, x.dir)
	if got["a"] != "-rw-r--r-- a" || !strings.HasPrefix(got["fifo"], "p") || !strings.HasPrefix(got["new"], "p") {
		t.Errorf("%v", got)
	}
}

// TestOtherModeBits shows that permissions come back and other bits stay.
func TestOtherModeBits(t *testing.T) {
	x := newTree(t)
	x.put("d/f", "f")
	blob := x.keep()
	for _, p := range []string{"d/f", "d"} {
		x.do(os.Chmod(x.at(p), os.ModeSetgid|0o700))
	}
	x.restore(blob)
	want := map[string]string{"d": "dgrwxr-xr-x", "d/f": "grw-r--r-- f"}
	if diff := cmp.Diff(want, picture(t, x.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// asNobody runs f without the power of root to read everything. Without that
// power it just runs it.
func asNobody(t *testing.T, f func()) {
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		becomeNobody(t)
		f()
	}()
	<-done
}

// TestUnreadable shows that what cannot be read is skipped and spared, and that
// what became inaccessible since comes back.
func TestUnreadable(t *testing.T) {
	x := newTree(t)
	x.put("open", "open")
	x.put("closed", "closed")
	x.put("dir/f", "f")
	x.put("hidden/f", "f")
	x.do(os.Chmod(x.at("closed"), 0))
	x.do(os.Chmod(x.at("hidden"), 0))
	giveAway(t, x.dir)
	var blob string
	asNobody(t, func() { blob = x.keep() })
	if why := x.skippedOf(blob); len(why) != 2 || why["closed"] == "" || why["hidden"] == "" {
		t.Fatalf("skipped %v", why)
	}
	x.put("dir/ro/new", "new")
	x.put("secret", "new and unreadable")
	giveAway(t, x.dir)
	for p, mode := range map[string]os.FileMode{"dir/ro": 0o500, "dir": 0, "open": 0, "secret": 0} {
		x.do(os.Chmod(x.at(p), mode))
	}
	asNobody(t, func() {
		if restored, removed := x.restore(blob); restored != 1 || removed != 1 {
			t.Errorf("restored %d, removed %d", restored, removed)
		}
	})
	x.do(os.Chmod(x.at("hidden"), 0o755)) // else it cannot be looked at or cleared away
	x.do(os.Chmod(x.at("closed"), 0o644))
	x.do(os.Chmod(x.at("secret"), 0o644))
	want := map[string]string{
		"open": "-rw-r--r-- open", "closed": "-rw-r--r-- closed", "secret": "-rw-r--r-- new and unreadable",
		"dir": "drwxr-xr-x", "dir/f": "-rw-r--r-- f", "hidden": "drwxr-xr-x", "hidden/f": "-rw-r--r-- f",
	}
	if diff := cmp.Diff(want, picture(t, x.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSecretFilesAreSkipped shows that a file with a secret in it is neither
// stored nor touched.
func TestSecretFilesAreSkipped(t *testing.T) {
	x := newTree(t)
	x.store.Secret = func(content string) bool { return strings.Contains(content, "hunter2") }
	x.put("plain", "old")
	x.put("env", "KEY=hunter2")
	kept := x.keep()
	x.put("plain", "new")
	x.put("env", "KEY=hunter2 changed")
	x.restore(kept)
	if got := x.read("plain"); got != "old" {
		t.Errorf("plain is %q", got)
	}
	if got := x.read("env"); got != "KEY=hunter2 changed" {
		t.Errorf("env is %q", got)
	}
}

func (x *tree) read(p string) string {
	x.t.Helper()
	b, err := os.ReadFile(x.at(p))
	x.do(err)
	return string(b)
}
