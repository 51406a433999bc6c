package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stave/internal/toolbox/sandbox"
)

// way is how walls are built around a command.
type way struct {
	level  sandbox.Level
	thread bool // by a thread of the supervisor and not by a program
}

// ways are those that this machine can go.
func ways() (found []way) {
	for _, w := range []way{{sandbox.Landlock, false}, {sandbox.Landlock, true}, {sandbox.Bwrap, false}} {
		if sandbox.Detect().Of(w.level).OK {
			found = append(found, w)
		}
	}
	return found
}

// walled is a script behind walls in a workspace of its own.
func (w way) walled(t *testing.T, id, script string) (s Spec, workspace string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := sandbox.Command(sandbox.Profile{
		Level: w.level, Workspace: dir, Env: []string{"PATH=/usr/bin:/bin"}, Protected: []string{".git"}, AcceptUnprotected: true,
	}, []string{"/bin/bash", "-c", script}, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	s = Spec{
		ID: id, Argv: l.Argv, Dir: l.Dir, Env: l.Env, Hold: l.Hold, Wrapped: l.Wrapped,
		Deadline: time.Now().Add(longTime),
	}
	for _, f := range l.Files {
		s.Files = append(s.Files, File(f))
	}
	if w.thread {
		s.Walls, s.Inner = l.Walls, l.Inner
		s.Argv = []string{"/bin/false"} // must not be what is started
	}
	return s, dir
}

// TestSandboxed shows that a command behind walls, where no signal to the group
// may arrive, is told to end and can clean up.
func TestSandboxed(t *testing.T) {
	for _, w := range ways() {
		c := newClient(t)
		s, _ := w.walled(t, "x", "trap 'echo bye; exit 6' TERM; sleep 1000 & echo up; wait")
		ctx, cancel := context.WithCancel(context.Background())
		var out strings.Builder
		end, err := c.Run(ctx, s, func(b []byte) {
			out.Write(b)
			cancel()
		})
		cancel()
		if !errors.Is(err, context.Canceled) || end.Code != 6 || out.String() != "up\nbye\n" {
			t.Errorf("%v: output %q, ending %+v, error %v", w, out.String(), end, err)
		}
	}
}

// TestWallsStay shows that walls are around the commands that asked for them and
// around no others: neither the supervisor nor its later commands.
func TestWallsStay(t *testing.T) {
	c := newClient(t)
	outside := t.TempDir()
	for i := range 5 {
		for _, w := range ways() {
			s, _ := w.walled(t, fmt.Sprint(w, i), "touch in; touch "+outside+"/walled && echo broke out; for n in {3..40}; do (: <&$n) 2>/dev/null && echo open $n; done; ls in")
			if out, end := mustRun(t, c, s); end.Code != 0 || !strings.HasPrefix(out, "touch: ") || !strings.HasSuffix(out, "\nin\n") || strings.Count(out, "\n") != 2 {
				t.Fatalf("%v: output %q, ending %+v", w, out, end)
			}
		}
		out, end := mustRun(t, c, shell(fmt.Sprint("bare", i), outside, "touch bare && grep -E 'NoNewPrivs|Seccomp:' /proc/self/status"))
		if end.Code != 0 || out != "NoNewPrivs:\t0\nSeccomp:\t0\n" {
			t.Fatalf("without walls: output %q, ending %+v", out, end)
		}
	}
	if _, err := os.Lstat(filepath.Join(outside, "walled")); err == nil {
		t.Error("a command wrote outside")
	}
}

// TestNobodyBehind shows that no thread of the supervisor is behind the walls of
// a command, where a signal could reach it and with it all of the supervisor.
func TestNobodyBehind(t *testing.T) {
	c := newClient(t)
	for _, w := range ways() {
		// Threads that start a command have numbers just before the command's.
		const script = `for ((n = $$ - 300; n < $$; n++)); do kill -0 $n 2>/dev/null && echo reached $n; done; kill -0 $$ && echo self`
		for i := range 5 {
			s, _ := w.walled(t, fmt.Sprint(w, i), script)
			if out, _ := mustRun(t, c, s); w.level == sandbox.Landlock && out != "self\n" {
				t.Errorf("%v: %q", w, out)
			}
		}
	}
}

// TestThreadsEnd shows that the end of a confined thread harms no command that
// another has started, not even one that asked to die with its parent.
func TestThreadsEnd(t *testing.T) {
	c := newClient(t)
	var waiting sync.WaitGroup
	var gates []string
	ready := make(chan struct{}, 100)
	for _, w := range ways() {
		for i := range 4 {
			s, dir := w.walled(t, fmt.Sprint("waits", w, i), "echo up; read x <gate; echo $x")
			gates = append(gates, fifo(t, dir, "gate"))
			waiting.Go(func() {
				var out strings.Builder
				end, err := c.Run(context.Background(), s, func(b []byte) {
					if out.Write(b); strings.HasPrefix(string(b), "up\n") {
						ready <- struct{}{}
					}
				})
				if err != nil || end.Code != 0 || out.String() != "up\ngo\n" {
					t.Errorf("%v: output %q, ending %+v, error %v", w, out.String(), end, err)
				}
			})
		}
	}
	for range gates {
		<-ready
	}
	var short sync.WaitGroup
	for i := range 40 {
		for _, w := range ways() {
			s, _ := w.walled(t, fmt.Sprint("short", w, i), "exit 3")
			short.Go(func() {
				if end, err := c.Run(context.Background(), s, nil); err != nil || end.Code != 3 {
					t.Errorf("%v: ending %+v, error %v", w, end, err)
				}
			})
		}
		short.Wait()
	}
	for _, gate := range gates {
		open(t, gate)
	}
	waiting.Wait()
}

// TestNoWallsNoCommand shows that a command is not started when its walls, or the
// files for them, are not to be had.
func TestNoWallsNoCommand(t *testing.T) {
	c := newClient(t)
	dir := t.TempDir()
	for name, change := range map[string]func(*Spec){
		"broken walls":  func(s *Spec) { s.Walls, s.Inner = []byte(`{"level":"off"}`), s.Argv },
		"a lost file":   func(s *Spec) { s.Files = []File{{Path: filepath.Join(dir, "none")}} },
		"a lost hold":   func(s *Spec) { s.Hold = []string{filepath.Join(dir, "none")} },
		"another's way": func(s *Spec) { s.Walls, s.Inner = []byte(`{"level":"bwrap","workspace":"/x"}`), s.Argv },
	} {
		s := shell(name, dir, "touch started")
		change(&s)
		if end, err := c.Run(context.Background(), s, nil); err == nil || end.Failure == "" {
			t.Errorf("%s: ending %+v, error %v", name, end, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "started")); err == nil {
		t.Error("a command was started")
	}
}

// TestFiles shows that a command finds its files open, each at its number and
// read from the beginning, and none besides.
func TestFiles(t *testing.T) {
	c := newClient(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		s := shell(fmt.Sprint(i), dir, "cat <&3; cat <&4; cat <&5; ls /proc/self/fd | tr '\\n' ' '")
		s.Files = []File{{Data: []byte("one")}, {Path: path}, {}}
		if out, _ := mustRun(t, c, s); out != "onetwo0 1 2 3 4 5 6 " { // the last is what ls looks at
			t.Errorf("output %q", out)
		}
	}
}

// TestHold shows that a held file is locked as long as its command lives and no
// longer.
func TestHold(t *testing.T) {
	c := newClient(t)
	dir := t.TempDir()
	path, gate := filepath.Join(dir, "held"), fifo(t, dir, "gate")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	alone := func() bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
	s := shell("x", dir, "echo up; read x <"+gate)
	s.Hold = []string{path}
	_, err = c.Run(context.Background(), s, func([]byte) {
		if alone() {
			t.Error("the file is not locked")
		}
		open(t, gate)
	})
	if err != nil || !alone() {
		t.Errorf("error %v, or the lock outlives the command", err)
	}
}

// TestStartingThreads shows that each command with walls is started by a thread
// of its own, which is gone after that.
func TestStartingThreads(t *testing.T) {
	f, err := newFamily(func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		var behind int
		if err := f.behindWalls(nil, func() error { behind = unix.Gettid(); return nil }); err != nil {
			t.Fatal(err)
		}
		if err := unix.Tgkill(os.Getpid(), behind, 0); err != unix.ESRCH {
			t.Fatalf("the thread behind walls is still there: %v", err)
		}
	}
	if err := f.behindWalls(nil, func() error { return os.ErrInvalid }); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}
