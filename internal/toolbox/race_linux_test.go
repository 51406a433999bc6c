package toolbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWriteRace shows that a directory swapped for a link to the outside while
// calls go on lets none of them write or read there.
func TestWriteRace(t *testing.T) {
	const shortest, longest = 500 * time.Millisecond, 10 * time.Second
	env := newEnv(t)
	env.put("swap/f", "inside")
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	link(t, env, outside, "other")
	stop := keepSwapping(t, filepath.Join(env.dir, "swap"), filepath.Join(env.dir, "other"))
	written, refused := 0, 0
	for began := time.Now(); time.Since(began) < shortest || (written == 0 || refused == 0) && time.Since(began) < longest; {
		switch _, err := env.run(Write(), args{"path": "swap/f", "content": time.Now().String()}); {
		case err == nil:
			written++
		case strings.Contains(err.Error(), "leads out of the workspace"):
			refused++
		}
		if out, err := env.run(Read(), args{"path": "swap/secret"}); err == nil {
			t.Fatalf("read %q from outside", out.Text)
		}
		if out := env.must(Grep(), args{"pattern": "canary", "path": "."}); out.Meta["matches"] != 0 {
			t.Fatalf("found %q outside", out.Text)
		}
	}
	stop()
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there is now %v, %v", entries, err)
	}
	if written == 0 || refused == 0 {
		t.Errorf("%d writes came through and %d were refused, so little was shown", written, refused)
	}
}

// keepSwapping exchanges what two names stand for, again and again.
func keepSwapping(t *testing.T, a, b string) (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ending:
				return
			case <-time.After(50 * time.Microsecond):
			}
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				t.Errorf("exchanging two names: %v", err)
				return
			}
		}
	}()
	return func() { close(ending); <-ended }
}
