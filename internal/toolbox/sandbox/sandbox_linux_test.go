//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// walls are the levels this machine can build.
func walls(t testing.TB) []Level {
	t.Helper()
	var found []Level
	for _, f := range Detect() {
		if f.Level != Off && f.OK {
			found = append(found, f.Level)
		}
		if len(f.Holes) > 0 {
			t.Errorf("%s has holes: %v", f.Level, f.Holes)
		}
		t.Logf("%s: %+v", f.Level, f.Needs)
	}
	return found
}

// TestMatrix shows that no level lets a forbidden act through, and that the acts
// are real: without walls all but those that need more than this user can be done.
func TestMatrix(t *testing.T) {
	s, err := newScene()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	bare, err := s.play(Off)
	if err != nil {
		t.Fatal(err)
	}
	privileged := []string{
		"read the password file of the system", "open a packet socket", "mount", "load a kernel program",
		"hold capabilities", "trace the agent", "make a user namespace", "open a virtual machine socket",
		"open a multipath TCP socket", "open a TCP socket for IPv6", "use io_uring", "read the keyring",
	}
	for _, a := range bare {
		if !a.Done && !slices.Contains(privileged, a.Name) {
			t.Errorf("without walls it is not possible to %s (%s), so the probe shows nothing", a.Name, a.Says)
		}
		if !a.Done {
			t.Logf("without walls: cannot %s: %s", a.Name, a.Says)
		}
	}
	for _, level := range walls(t) {
		fresh, err := newScene()
		if err != nil {
			t.Fatal(err)
		}
		results, err := fresh.play(level)
		fresh.close()
		if err != nil {
			t.Fatal(err)
		}
		if len(results) != len(bare) {
			t.Errorf("%s: %d acts were tried of %d", level, len(results), len(bare))
		}
		for _, a := range results {
			if inexpressible := level == Landlock && a.Name == actChangeProtected; a.Done != inexpressible {
				t.Errorf("%s: could %s: %v (%s)", level, a.Name, a.Done, a.Says)
			}
		}
	}
}

// TestMatrixThread shows that a thread that confined itself holds what it starts
// as the helper does, and that no other thread is held.
func TestMatrixThread(t *testing.T) {
	if !slices.Contains(walls(t), Landlock) {
		return
	}
	s, err := newScene()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	launch, err := s.launch(Landlock)
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		results []act
		err     error
	}
	answers := make(chan answer)
	go func() {
		runtime.LockOSThread() // and never unlocked
		if err := Confine(launch.Walls); err != nil {
			answers <- answer{err: err}
			return
		}
		cmd := exec.Command(launch.Inner[0], launch.Inner[1:]...)
		cmd.Env, cmd.Dir = launch.Env, launch.Dir
		results, err := report(cmd)
		answers <- answer{results, err}
	}()
	got := <-answers
	if got.err != nil || len(got.results) != len(forbidden()) {
		t.Fatalf("%d acts were tried, error %v", len(got.results), got.err)
	}
	for _, a := range got.results {
		if a.Done != (a.Name == actChangeProtected) {
			t.Errorf("could %s: %v (%s)", a.Name, a.Done, a.Says)
		}
	}
	if err := write(filepath.Join(s.target.Outside, "free")); err != nil {
		t.Errorf("we are confined too: %v", err)
	}
	if err := Confine([]byte(`{"level":"bwrap","workspace":"/x"}`)); err == nil {
		t.Error("walls that a thread cannot build were accepted")
	}
}

// TestMatrixUnprivileged runs the matrix and the protection as another user,
// because root is special in every one of these walls.
func TestMatrixUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		return // the tests themselves are that user's
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "stave-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "test")
	if err := errors.Join(os.WriteFile(program, self, 0o755), os.Chmod(program, 0o755),
		os.Chmod(dir, 0o755), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run", "^(TestMatrix|TestMatrixThread|TestProtected|TestOrdinary|TestForkBomb|TestReadOnly)$", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"TMPDIR=" + dir, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	for _, name := range []string{"TestMatrix", "TestForkBomb", "TestReadOnly"} {
		if err != nil || !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// workspace is a fresh directory by its real path.
func workspace(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func profile(t testing.TB, level Level) Profile {
	return Profile{
		Level: level, Workspace: workspace(t), TempDir: workspace(t), AcceptUnprotected: true,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "CANARY=sings"},
	}
}

func prepare(t testing.TB, ctx context.Context, p Profile, script string) *exec.Cmd {
	t.Helper()
	launch, err := Command(p, []string{"/bin/bash", "-c", script}, p.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(launch.Release)
	cmd, closeFiles, err := launch.prepare(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeFiles)
	return cmd
}

func run(t testing.TB, p Profile, script string) (string, int) {
	t.Helper()
	launch, err := Command(p, []string{"/bin/bash", "-c", script}, p.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	return runLaunch(t, launch)
}

func runLaunch(t testing.TB, launch Launch) (string, int) {
	t.Helper()
	defer launch.Release()
	launch, err := launch.Limited()
	if err != nil {
		t.Fatal(err)
	}
	cmd, closeFiles, err := launch.prepare(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer closeFiles()
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestOrdinary shows that what commands commonly do still works.
func TestOrdinary(t *testing.T) {
	for _, level := range walls(t) {
		for _, c := range []struct {
			name, script, want string
			code               int
		}{
			{"exit code", "exit 7", "", 7},
			{"both streams in order", "echo a; echo b >&2; echo c", "a\nb\nc\n", 0},
			{"files", "mkdir d e && echo x >d/f && mv d/f e/g && ln e/g h && rm -r d && cat h", "x\n", 0},
			{"temporary files", `f=$(mktemp) && echo y >"$f" && cat "$f"`, "y\n", 0},
			{"process substitution", "cat <(echo z)", "z\n", 0},
			{"pipes and jobs", "seq 3 | tail -1; sleep 0 & wait; echo done", "3\ndone\n", 0},
			{"its environment", "echo $CANARY; env | wc -l", "sings\n", 0},
			{"null", "echo x >/dev/null; head -c 0 /dev/urandom; echo ok", "ok\n", 0},
			{"a pair of sockets", "python3 -c 'import socket; a,b=socket.socketpair(); a.send(b\"hi\"); print(b.recv(2).decode())'", "hi\n", 0},
			{"threads", "python3 -c 'import threading; t=threading.Thread(target=lambda: print(1)); t.start(); t.join()'", "1\n", 0},
			{"not found", "no-such-program 2>/dev/null", "", 127},
			{"no more powers", "grep -c NoNewPrivs:.1 /proc/self/status 2>/dev/null || echo hidden", "", 0},
		} {
			if strings.Contains(c.script, "python3") {
				if _, err := os.Stat("/usr/bin/python3"); err != nil {
					continue
				}
				c.script = strings.ReplaceAll(c.script, "python3", "/usr/bin/python3")
			}
			out, code := run(t, profile(t, level), c.script)
			if !strings.HasPrefix(out, c.want) || code != c.code {
				t.Errorf("%s, %s: got %q with code %d, want %q with %d", level, c.name, out, code, c.want, c.code)
			}
		}
	}
}

// TestNetwork shows that a profile with network opens what one without does not.
func TestNetwork(t *testing.T) {
	for _, level := range walls(t) {
		p := profile(t, level)
		const script = "exec 3<>/dev/udp/127.0.0.1/9 && echo open"
		if out, code := run(t, p, script); code == 0 || strings.Contains(out, "open") {
			t.Errorf("%s without network: %q", level, out)
		}
		p.Network = true
		if out, code := run(t, p, script); code != 0 || out != "open\n" {
			t.Errorf("%s with network: %q, code %d", level, out, code)
		}
	}
}

// TestOrphans shows that nothing a command leaves behind outlives namespaces,
// whether it ends or is killed.
func TestOrphans(t *testing.T) {
	if !slices.Contains(walls(t), Bwrap) {
		return
	}
	for name, tail := range map[string]string{"ended": "", "killed": "echo up; sleep 1000"} {
		p := profile(t, Bwrap)
		ctx, cancel := context.WithCancel(context.Background())
		cmd := prepare(t, ctx, p, "(setsid env -i /bin/sleep 1000 >/dev/null 2>&1 &); "+tail)
		cmd.Cancel = func() error { return cmd.Process.Kill() }
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if tail != "" {
			if _, err := out.Read(make([]byte, 3)); err != nil {
				t.Error(err)
			}
			cancel()
		}
		cmd.Wait() // how it ended is not the question
		cancel()
		if left := holders(t, p.Workspace); left != "" {
			t.Errorf("%s: still alive: %s", name, left)
		}
	}
}

// holders lists processes that work in a directory, once those that are dying
// had their time.
func holders(t *testing.T, dir string) string {
	t.Helper()
	var found []string
	for range 2000 {
		found = nil
		links, err := filepath.Glob("/proc/[0-9]*/cwd")
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links {
			if cwd, err := os.Readlink(link); err == nil && cwd == dir {
				found = append(found, link)
			}
		}
		if found == nil {
			return ""
		}
		time.Sleep(time.Millisecond)
	}
	return strings.Join(found, " ")
}

// BenchmarkSpawn compares a command behind each kind of walls with a bare one,
// by turns so that a busy machine is unfair to all.
func BenchmarkSpawn(b *testing.B) {
	levels := append([]Level{Off}, walls(b)...)
	took := map[Level][]time.Duration{}
	profiles := map[Level]Profile{}
	for _, level := range levels {
		profiles[level] = profile(b, level)
	}
	for b.Loop() {
		for _, level := range levels {
			launch, err := Command(profiles[level], []string{"/bin/true"}, profiles[level].Workspace)
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			cmd, closeFiles, err := launch.prepare(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			closeFiles()
			launch.Release()
			took[level] = append(took[level], time.Since(began))
		}
	}
	for level, all := range took {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), string(level)+"-µs")
		b.ReportMetric(float64(all[len(all)/10].Microseconds()), string(level)+"-fast-µs")
	}
}
