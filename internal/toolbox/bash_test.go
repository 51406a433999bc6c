package toolbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// TestBashText shows what a model reads of a command: both streams in the order
// written, and how it ended.
func TestBashText(t *testing.T) {
	for _, c := range []struct {
		name, command, want string
		code                int
	}{
		{"success", "echo hi", "hi\n", 0},
		{"silence", "true", "(no output)", 0},
		{"failure", "echo no; exit 3", "no\n[exit code 3]", 3},
		{"failure without newline", "printf no; exit 3", "no\n[exit code 3]", 3},
		{"silent failure", "false", "[exit code 1]", 1},
		{"order of streams", "echo a; echo b >&2; echo c; echo d >&2", "a\nb\nc\nd\n", 0},
		{"signal", "kill -9 $$", "[ended by signal SIGKILL]", 137},
		{"not found", "no-such-command-here 2>/dev/null", "[exit code 127]", 127},
		{"leading dash", "-x", "-x: command not found\n[exit code 127]", 127},
		{"empty stdin", "cat; echo end", "end\n", 0},
		{"no terminal", "(: </dev/tty) 2>/dev/null || echo none", "none\n", 0},
		{"group of its own", `read -r _ _ _ _ group _ </proc/$$/stat; [ $group = $$ ] && echo leader`, "leader\n", 0},
		{"dumb terminal", "echo $TERM", "dumb\n", 0},
		{"bad bytes", `printf 'a\xff\xfeb'`, "a\uFFFDb\n", 0},
		{"closed output", "exec >&- 2>&-; sleep 0.05; exit 4", "[exit code 4]", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := newEnv(t).must(Bash(), args{"command": c.command})
			got := out.Text
			if c.name == "leading dash" {
				got = got[strings.Index(got, "-x:"):]
			}
			if got != c.want || out.Meta["exit_code"] != c.code {
				t.Errorf("got %q with exit code %v, want %q with %d", got, out.Meta["exit_code"], c.want, c.code)
			}
		})
	}
}

// TestBashEnvironment shows that a command starts in the workspace and sees
// nothing of our environment that is not on the list.
func TestBashEnvironment(t *testing.T) {
	t.Setenv("STAVE_TEST_SECRET", "canary")
	t.Setenv("BASH_ENV", "/nonexistent")
	env := newEnv(t)
	out := env.must(Bash(), args{"command": "pwd; env"})
	lines := strings.Split(out.Text, "\n")
	if lines[0] != env.dir {
		t.Errorf("started in %s, want %s", lines[0], env.dir)
	}
	for _, secret := range []string{"canary", "BASH_ENV"} {
		if strings.Contains(out.Text, secret) {
			t.Errorf("%s is visible in:\n%s", secret, out.Text)
		}
	}
	if !strings.Contains(out.Text, "\nPATH=") {
		t.Errorf("no PATH in:\n%s", out.Text)
	}
}

// TestBashCut shows that a long output comes as head and tail with the number of
// bytes left out, and whole as a blob.
func TestBashCut(t *testing.T) {
	env := newEnv(t)
	out := env.must(Bash(), args{"command": "for i in $(seq 1 20000); do echo line $i é; done; exit 2"})
	head, rest, ok := strings.Cut(out.Text, "\n[… ")
	number, tail, ok2 := strings.Cut(rest, " bytes left out …]\n")
	if !ok || !ok2 {
		t.Fatalf("no marker in %d bytes", len(out.Text))
	}
	tail, ok = strings.CutSuffix(tail, "[exit code 2]")
	if !ok || !strings.HasPrefix(head, "line 1 é\n") || !strings.HasSuffix(tail, "line 20000 é\n") {
		t.Errorf("head %.20q, end %q", head, out.Text[len(out.Text)-40:])
	}
	left, err := strconv.ParseInt(number, 10, 64)
	if err != nil || left+int64(len(head)+len(tail)) != out.Meta["output_bytes"] {
		t.Errorf("%d head + %s left out + %d tail is not %v", len(head), number, len(tail), out.Meta["output_bytes"])
	}
	if env.blobs[out.Blob] != out.Meta["output_bytes"] {
		t.Errorf("blob %q holds %d bytes of %v", out.Blob, env.blobs[out.Blob], out.Meta["output_bytes"])
	}
	if !utf8.ValidString(out.Text) || len(out.Text) > maxText+200 {
		t.Errorf("text has %d bytes, valid UTF-8: %v", len(out.Text), utf8.ValidString(out.Text))
	}
}

// TestBashWholeWithoutBlob shows that output up to the limit is shown complete.
func TestBashWholeWithoutBlob(t *testing.T) {
	for _, n := range []int{maxHead - 1, maxHead, maxHead + 1, maxText - 1, maxText} {
		out := newEnv(t).must(Bash(), args{"command": fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", n)})
		if want := strings.Repeat("x", n) + "\n"; out.Text != want || out.Blob != "" {
			t.Errorf("%d bytes came back as %d with blob %q", n, len(out.Text), out.Blob)
		}
	}
}

// TestBashProgress shows that people see output while the command runs, in
// valid UTF-8 although a character was written in two pieces.
func TestBashProgress(t *testing.T) {
	env := newEnv(t)
	env.must(Bash(), args{"command": `printf 'one\xc3'; sleep 0.2; printf '\xa9two'; sleep 0.2; printf three`})
	if got := env.streamed(); got != "oneétwothree" {
		t.Errorf("streamed %q", got)
	}
	if len(env.progress) < 3 {
		t.Errorf("streamed in %d chunks: %q", len(env.progress), env.progress)
	}
}

// TestBashQuick shows that output which no chunk was due for is left to the
// result, unless the call is cancelled and has none.
func TestBashQuick(t *testing.T) {
	for cancelled, want := range map[bool]string{false: "", true: "quick"} {
		env := newEnv(t)
		out := capture{env: env}
		out.write([]byte("quick"))
		out.endStream(cancelled)
		if env.streamed() != want || out.text() != "quick" {
			t.Errorf("cancelled %v: streamed %q, text %q", cancelled, env.streamed(), out.text())
		}
	}
}

// TestBashFlood shows that 100 MB of output, and output without end, leave
// memory, the stream and the copy on disk bounded.
func TestBashFlood(t *testing.T) {
	for _, c := range []struct {
		name, command string
		seconds       int
		least         int64
		endless       bool
	}{
		{"100 MB", "head -c 100000000 /dev/zero | tr '\\0' 'a'", 60, 100_000_000, false},
		{"endless", "yes", 1, 1_000_000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newEnv(t)
			peak, stop := watchHeap()
			out := env.must(Bash(), args{"command": c.command, "timeout_seconds": c.seconds})
			stop()
			total := out.Meta["output_bytes"].(int64)
			if total < c.least || out.TimedOut != c.endless {
				t.Fatalf("%d bytes came, timed out: %v", total, out.TimedOut)
			}
			if got := peak.Load(); got > 16<<20 {
				t.Errorf("heap grew by %d bytes", got)
			}
			if n := len(env.streamed()); n > maxProgress+100 {
				t.Errorf("streamed %d bytes", n)
			}
			if n := env.blobs[out.Blob]; n != min(total, maxKept) {
				t.Errorf("kept %d bytes of %d", n, total)
			}
			if said := strings.Contains(out.Text, "only the first 64 MiB were kept"); said != (total > maxKept) {
				t.Errorf("the text says that the copy was cut: %v", said)
			}
		})
	}
}

// watchHeap samples how much the heap grows.
func watchHeap() (peak *atomic.Int64, stop func()) {
	peak = new(atomic.Int64)
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := int64(m.HeapAlloc)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), int64(m.HeapAlloc)-before))
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return peak, func() { close(done); <-ended }
}

// TestBashTimeout shows that a command out of time is told to end, then killed
// with all it started.
func TestBashTimeout(t *testing.T) {
	for _, c := range []struct {
		name, command string
		atLeast       time.Duration
		says          string
	}{
		{"obedient", "echo $$ >pids; sleep 1000 & echo $! >>pids; echo out; wait", time.Second, "out\n"},
		{"cleans up", "echo $$ >pids; trap 'echo bye; exit 0' TERM; sleep 1000 & echo $! >>pids; wait", time.Second, "bye\n"},
		{"in other groups and sessions", "echo $$ >pids; timeout 999 sh -c 'echo $$ >>pids; exec sleep 999' & setsid sleep 999 & echo $! >>pids; set -m; sleep 999 & echo $! >>pids; wait", time.Second, ""},
		{"stubborn in another session", "echo $$ >pids; setsid bash -c 'trap \"\" TERM; echo $$ >>pids; while :; do sleep 0.1; done' & wait", time.Second + killGrace, ""},
		{"stubborn", "trap '' TERM; echo $$ >pids; sleep 1000 & echo $! >>pids; while :; do sleep 0.1; done", time.Second + killGrace, ""},
		{"stubborn without output", "trap '' TERM; exec >&- 2>&-; echo $$ >pids; while :; do sleep 0.1; done", time.Second + killGrace, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t)
			began := time.Now()
			out := env.must(Bash(), args{"command": c.command, "timeout_seconds": 1})
			took := time.Since(began)
			if took < c.atLeast || took > c.atLeast+1900*time.Millisecond {
				t.Errorf("took %v, want about %v", took, c.atLeast)
			}
			if !out.TimedOut || !strings.HasPrefix(out.Text, c.says+"[timed out after 1s;") {
				t.Errorf("timed out %v, text %q", out.TimedOut, out.Text)
			}
			wantDead(t, env)
		})
	}
}

// TestBashCancel shows that a cancelled call returns the context's error only
// when its whole group is dead.
func TestBashCancel(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	began := time.Now()
	out, err := env.runCtx(ctx, Bash(), args{
		"command": "echo $$ >pids; echo begun; (sleep 1000 & echo $! >>pids; wait) & echo $! >>pids; wait",
	})
	if !errors.Is(err, context.Canceled) || out.TimedOut {
		t.Errorf("error %v, timed out %v", err, out.TimedOut)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if !strings.HasPrefix(out.Text, "begun\n") || env.streamed() != "begun\n" {
		t.Errorf("partial output is %q, streamed %q", out.Text, env.streamed())
	}
	wantDead(t, env)
	ctx, cancel = context.WithCancel(context.Background())
	cancel()
	if _, err := env.runCtx(ctx, Bash(), args{"command": "touch started"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v from a context that had ended", err)
	}
	if _, err := os.Stat(filepath.Join(env.dir, "started")); err == nil {
		t.Error("a cancelled call was started")
	}
}

// TestBashBackground shows that what a command leaves in the background neither
// holds up its result nor outlives it.
func TestBashBackground(t *testing.T) {
	for _, c := range []struct{ name, command, want string }{
		{"holds the pipe", "sleep 1000 & echo $! >pids; echo out", "out\n[background processes were ended with the shell]"},
		{"holds the pipe, deaf", "(trap '' TERM HUP; sleep 1000) & echo $! >pids; echo out", "out\n[background processes were ended with the shell]"},
		{"in another session", "setsid sleep 1000 & echo $! >pids; echo out", "out\n[background processes were ended with the shell]"},
		{"redirected", "sleep 1000 >/dev/null 2>&1 & echo $! >pids; echo out", "out\n"},
		{"ends soon", "(sleep 0.1; echo late) & echo $! >pids; echo out", "out\nlate\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t)
			began := time.Now()
			out := env.must(Bash(), args{"command": c.command})
			if took := time.Since(began); took > 1500*time.Millisecond {
				t.Errorf("took %v", took)
			}
			if out.Text != c.want {
				t.Errorf("got %q, want %q", out.Text, c.want)
			}
			wantDead(t, env)
		})
	}
}

// wantDead checks that no process listed in the file pids is alive. One that
// nobody has reaped yet is dead.
func wantDead(t *testing.T, env *fakeEnv) {
	t.Helper()
	for _, pid := range strings.Fields(env.get("pids")) {
		deadline := time.Now().Add(time.Second)
		for alive(t, pid) {
			if time.Now().After(deadline) {
				t.Errorf("process %s is still alive", pid)
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func alive(t *testing.T, pid string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(n, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// BenchmarkBash compares one call of the tool with a bare exec of the same
// shell, by turns so that a busy machine is unfair to both.
func BenchmarkBash(b *testing.B) {
	env, tool := newEnv(b), Bash()
	argv := append(shellArgv(), "true")
	var ours, bare []time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := tool.Run(context.Background(), env, []byte(`{"command":"true"}`)); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if _, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			b.Fatal(err)
		}
		ours, bare = append(ours, middle.Sub(began)), append(bare, time.Since(middle))
	}
	slices.Sort(ours)
	slices.Sort(bare)
	b.ReportMetric(float64(ours[len(ours)/2].Microseconds()), "tool-µs")
	b.ReportMetric(float64(bare[len(bare)/2].Microseconds()), "exec-µs")
}
