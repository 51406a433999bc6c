package toolbox

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// raceRounds bounds the race tests by work, not by time.
const raceRounds = 60

// exchange makes two names stand for what the other stood for, in one step.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// TestSwapRace shows that a directory or a file swapped for a link to the
// outside, at rest or while calls go on, lets none of them write or read there.
func TestSwapRace(t *testing.T) {
	env := newEnv(t)
	env.put("swap/f", "inside")
	env.put("file", "inside")
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	link(t, env, outside, "other")
	link(t, env, filepath.Join(outside, "secret"), "other-file")
	swap := func() error {
		at := func(name string) string { return filepath.Join(env.dir, name) }
		if err := exchange(at("swap"), at("other")); err != nil {
			return err
		}
		return exchange(at("file"), at("other-file"))
	}
	attempt := func(round string) error {
		_, err := env.run(Write(), args{"path": "swap/f", "content": round})
		env.run(Edit(), args{"path": "file", "old_string": "inside", "new_string": "inside " + round})
		env.run(MultiEdit(), args{"edits": []args{oneEdit("file", "inside", "inside!"), oneEdit("swap/secret", "canary", "gone")}})
		env.run(Write(), args{"path": "swap/new/" + round, "content": round})
		for _, path := range []string{"swap/secret", "file", "other-file", "swap/f"} {
			if out, err := env.run(Read(), args{"path": path}); err == nil && strings.Contains(out.Text, "canary") {
				t.Fatalf("read %q from outside", out.Text)
			}
		}
		if out := env.must(Grep(), args{"pattern": "canary", "path": "."}); out.Meta["matches"] != 0 {
			t.Fatalf("found %q outside", out.Text)
		}
		return err
	}

	if err := attempt("before"); err != nil {
		t.Fatal(err)
	}
	if err := swap(); err != nil {
		t.Fatal(err)
	}
	wantError(t, attempt("swapped"), "leads out of the workspace")
	stop := keepDoing(t, swap)
	for round := range raceRounds {
		attempt(strconv.Itoa(round))
	}
	stop()
	secret, err := os.ReadFile(filepath.Join(outside, "secret"))
	if err != nil || string(secret) != "canary" {
		t.Errorf("the file outside is %q, %v", secret, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there is now %v, %v", entries, err)
	}
}

// keepDoing repeats an act beside the test until it is told to stop.
func keepDoing(t *testing.T, act func() error) (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ending:
				return
			default:
			}
			if err := act(); err != nil {
				t.Errorf("exchanging two names: %v", err)
				return
			}
			runtime.Gosched()
		}
	}()
	stop = sync.OnceFunc(func() { close(ending); <-ended })
	t.Cleanup(stop)
	return stop
}

// TestKernelFiles shows that files of the kernel are neither read nor searched,
// even in a workspace that holds them.
func TestKernelFiles(t *testing.T) {
	env := newEnv(t)
	env.dir = "/proc/self"
	_, err := env.run(Read(), args{"path": "environ"})
	wantError(t, err, "belongs to the kernel")
	_, err = env.run(Write(), args{"path": "oom_score_adj", "content": "0"})
	wantError(t, err, "belongs to the kernel")
	if out := env.must(Grep(), args{"pattern": ".", "path": "."}); out.Meta["files_searched"] != 0 {
		t.Errorf("searched %v", out.Meta)
	}
	_, err = env.run(Grep(), args{"pattern": ".", "path": "status"})
	wantError(t, err, "belongs to the kernel")
}
