package supervisor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

// TestRun shows how commands end and that their output comes whole, in order,
// and is kept.
func TestRun(t *testing.T) {
	c, dir := newClient(t), t.TempDir()
	for _, k := range []struct {
		script, out string
		want        Ending
	}{
		{"true", "", Ending{}},
		{"echo a; echo b >&2; echo c; exit 3", "a\nb\nc\n", Ending{Code: 3}},
		{"kill -9 $$", "", Ending{Code: 137, Signal: "SIGKILL"}},
		{"cat; pwd", dir + "\n", Ending{}},
		{"exec >&- 2>&-; exit 4", "", Ending{Code: 4}},
		{"trap '' TERM; kill -TERM $$; echo alive", "alive\n", Ending{}},
		{"yes | head -2; echo ${PIPESTATUS[0]}", "y\ny\n141\n", Ending{}},
		{"sleep 1000 & echo out", "out\n", Ending{Orphans: true}},
		{"sleep 1000 >/dev/null 2>&1 & echo out", "out\n", Ending{}},
	} {
		out, end := mustRun(t, c, shell(k.script, dir, k.script))
		k.want.OutputBytes, k.want.KeptBytes = int64(len(k.out)), int64(len(k.out))
		if diff := cmp.Diff(k.want, end, cmpopts.IgnoreFields(Ending{}, "Output")); out != k.out || diff != "" {
			t.Errorf("%s: output %q\n%s", k.script, out, diff)
		}
		if kept, err := os.ReadFile(end.Output); string(kept) != k.out || (err != nil) != (k.out == "") {
			t.Errorf("%s: kept %q, %v", k.script, kept, err)
		}
		known, err := Recover(c.dir, k.script)
		if err != nil || known.State != Ended || !cmp.Equal(known.Ending, end) {
			t.Errorf("%s: known %+v, %v", k.script, known, err)
		}
		if err := c.Collect(k.script); err != nil {
			t.Error(err)
		}
		if known, err := Recover(c.dir, k.script); err != nil || known.State != Absent {
			t.Errorf("%s: after collecting %+v, %v", k.script, known, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(c.dir, "*[^k]")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFailures shows that what cannot be started says so, and is not started.
func TestFailures(t *testing.T) {
	c := newClient(t)
	sound := shell("x", "/", "true")
	for name, change := range map[string]func(*Spec){
		"no such program":   func(s *Spec) { s.Argv = []string{"/no/such/program"} },
		"no such directory": func(s *Spec) { s.Dir = "/no/such/directory" },
		"no id":             func(s *Spec) { s.ID = "" },
		"long id":           func(s *Spec) { s.ID = strings.Repeat("x", maxID+1) },
		"no deadline":       func(s *Spec) { s.Deadline = time.Time{} },
		"relative program":  func(s *Spec) { s.Argv = []string{"true"} },
		"relative dir":      func(s *Spec) { s.Dir = "." },
		"NUL":               func(s *Spec) { s.Env = []string{"A=\x00"} },
		"too large":         func(s *Spec) { s.Argv = append(s.Argv, strings.Repeat("x", maxFrame)) },
	} {
		s := sound
		s.ID = name
		change(&s)
		if _, err := c.Run(context.Background(), s, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Run(ctx, sound, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v from a context that had ended", err)
	}
	if known, err := Recover(c.dir, "x"); err != nil || known.State != Absent {
		t.Errorf("a cancelled command was started: %+v, %v", known, err)
	}
	for _, err := range []error{c.Cancel("nobody"), c.Collect("nobody")} {
		if !errors.Is(err, ErrUnknown) {
			t.Errorf("error %v", err)
		}
	}
	mustRun(t, c, sound) // the supervisor is well
}

// TestEnds shows that a command out of time or cancelled is ended with all it
// started, gently first.
func TestEnds(t *testing.T) {
	for _, k := range []struct {
		name, script, out string
		code              int
	}{
		{"obedient", "sleep 1000 & echo $! >>pids; echo; wait", "\n", 143},
		{"cleans up", "trap 'echo bye; exit 5' TERM; sleep 1000 & echo $! >>pids; echo; wait", "\nbye\n", 5},
		{"stubborn", "trap '' TERM; echo; while :; do sleep 0.1; done", "\n", 137},
		{"stubborn without output", "trap '' TERM; echo; exec >&- 2>&-; while :; do sleep 0.1; done", "\n", 137},
		{"left the group", "setsid sleep 1000 & echo $! >>pids; echo; wait", "\n", 143},
		{"left it, stubborn", "setsid bash -c 'trap \"\" TERM; echo $$ >>pids; echo; while :; do sleep 0.1; done' & wait", "\n", 143},
		{"hid", "(env -i setsid -f bash -c 'echo $$ >>pids; echo; exec >/dev/null 2>&1; sleep 1000'); while :; do sleep 0.1; done", "\n", 143},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c, dir := newClient(t), t.TempDir()
			for _, late := range []bool{false, true} {
				s := shell(k.name+strconv.FormatBool(late), dir, "echo $$ >>pids; "+k.script)
				ctx, cancel := context.WithCancel(context.Background())
				if late {
					s.Deadline = time.Now().Add(700 * time.Millisecond)
				}
				var out strings.Builder
				end, err := c.Run(ctx, s, func(b []byte) {
					out.Write(b)
					if !late {
						cancel() // its first line says that all is in place
					}
				})
				cancel()
				if late && (err != nil || !end.TimedOut || end.Cancelled) || !late && (!errors.Is(err, context.Canceled) || !end.Cancelled || end.TimedOut) {
					t.Errorf("ending %+v, error %v", end, err)
				}
				// A machine too busy to get going in time has nothing to show.
				if ready := out.Len() > 0; ready && (out.String() != k.out || end.Code != k.code) {
					t.Errorf("output %q, code %d, want %q and %d", out.String(), end.Code, k.out, k.code)
				}
				wantDead(t, filepath.Join(dir, "pids"))
			}
		})
	}
}

// wantDead checks that no process listed in a file is alive.
func wantDead(t *testing.T, list string) {
	t.Helper()
	data, err := os.ReadFile(list)
	if err != nil {
		return // nothing got so far
	}
	for _, field := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the death of "+field, func() bool {
			_, living, err := processInfo(pid)
			return err != nil || !living
		})
	}
}

// TestStraysAfterEnd shows that what a command hides from us does not outlive it.
func TestStraysAfterEnd(t *testing.T) {
	c, dir := newClient(t), t.TempDir()
	for i, script := range []string{
		"(setsid sleep 1000 >/dev/null 2>&1 & echo $! >>pids)",
		"(env -i setsid bash -c 'echo $$ >>pids; exec sleep 1000' >/dev/null 2>&1 &); while [ ! -s pids ]; do sleep 0.01; done",
	} {
		os.Remove(filepath.Join(dir, "pids"))
		mustRun(t, c, shell(strconv.Itoa(i), dir, script))
		wantDead(t, filepath.Join(dir, "pids"))
	}
}

// TestFlood shows that a long output is kept up to its bound, with its end, and
// that the supervisor stays small.
func TestFlood(t *testing.T) {
	c := newClient(t)
	const size = 100_000_000
	var came int64
	end, err := c.Run(context.Background(), shell("flood", "/", "head -c 99999996 /dev/zero | tr '\\0' a; echo end"), func(b []byte) { came += int64(len(b)) })
	if err != nil {
		t.Fatal(err)
	}
	if end.OutputBytes != size || end.KeptBytes != MaxKept || came != MaxKept || len(end.Tail) != MaxTail {
		t.Errorf("%d bytes, %d kept, %d came, %d of the end", end.OutputBytes, end.KeptBytes, came, len(end.Tail))
	}
	if !strings.HasSuffix(string(end.Tail), "aend\n") {
		t.Errorf("the end is %q", lastBytes(end.Tail, 10))
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(supervisorPID(t, c.dir, "flood")) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); fields[0] == "VmHWM:" {
			if kb, err := strconv.Atoi(fields[1]); err != nil || kb > 80<<10 {
				t.Errorf("the supervisor grew to %s kB, %v", fields[1], err)
			}
		}
	}
}

// BenchmarkRun compares a supervised command with a bare exec, by turns so that
// a busy machine is unfair to both: on a disk, and in memory where syncs are free.
func BenchmarkRun(b *testing.B) {
	for _, place := range []string{"", "/dev/shm"} {
		name := "disk"
		if place != "" {
			name = "memory"
		}
		b.Run(name, func(b *testing.B) {
			dir, err := os.MkdirTemp(place, "stave-bench-")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			c, err := New(filepath.Join(dir, "sup"), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close(true)
			mustRun(b, c, shell("warm", "/", "true"))
			var ours, bare []time.Duration
			n := 0
			for b.Loop() {
				n++
				s := shell(strconv.Itoa(n), "/", "true")
				began := time.Now()
				mustRun(b, c, s)
				ours = append(ours, time.Since(began))
				if err := c.Collect(s.ID); err != nil {
					b.Fatal(err)
				}
				began = time.Now()
				cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
				cmd.Env = s.Env
				if _, err := cmd.CombinedOutput(); err != nil {
					b.Fatal(err)
				}
				bare = append(bare, time.Since(began))
			}
			slices.Sort(ours)
			slices.Sort(bare)
			b.ReportMetric(float64(ours[len(ours)/2].Microseconds()), "supervised-µs")
			b.ReportMetric(float64(bare[len(bare)/2].Microseconds()), "exec-µs")
			b.ReportMetric(float64(ours[len(ours)/10].Microseconds()), "supervised-fast-µs")
			b.ReportMetric(float64(bare[len(bare)/10].Microseconds()), "exec-fast-µs")
		})
	}
}

// TestCancelOvertakes shows that a command is ended also when the order to end it
// is there before the one that starts it.
func TestCancelOvertakes(t *testing.T) {
	c := newClient(t)
	mustRun(t, c, shell("first", "/", "true"))
	ended := make(chan struct{})
	defer close(ended)
	if err := c.Cancel("late"); !errors.Is(err, ErrUnknown) {
		t.Fatalf("it is known already: %v", err)
	}
	go c.cancelSurely(nil, "late", ended)
	if end, err := c.Run(context.Background(), shell("late", "/", "exec sleep 1000"), nil); err != nil || !end.Cancelled {
		t.Errorf("%+v, %v", end, err)
	}
}

// TestVacates shows that the last to leave takes the directory away, unless
// somebody holds it, and that one who stays can start another supervisor.
func TestVacates(t *testing.T) {
	c := newClient(t)
	use := func(id string) {
		t.Helper()
		mustRun(t, c, shell(id, "/", "true"))
		if err := c.Collect(id); err != nil {
			t.Fatal(err)
		}
		if err := c.simple(askStop, nil); err != nil {
			t.Fatal(err)
		}
	}
	gone := func() bool { _, err := os.Lstat(c.dir); return errors.Is(err, os.ErrNotExist) }
	use("a")
	c.hold.Close() // else the supervisor waits for us
	c.dropIdle()
	eventually(t, "the directory goes", gone)
	use("b")
	held, err := os.Open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	c.hold.Close()
	c.dropIdle()
	eventually(t, "the supervisor goes", func() bool {
		left, err := os.ReadDir(c.dir)
		return err == nil && len(left) == 0
	})
	Vacate(c.dir)
	if gone() {
		t.Error("what somebody holds was taken away")
	}
	c.hold = nil // nobody is there to be stopped
}
