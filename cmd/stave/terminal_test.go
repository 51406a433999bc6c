package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

const ctrlC = "\x03"

// terminal is a person at a terminal in front of one command.
type terminal struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	pty    *os.File
	closed chan struct{}

	mu     sync.Mutex
	screen bytes.Buffer
	read   int // what of the screen has been expected already
}

// atTerminal starts stave with a script for a model, in a directory of its own.
func atTerminal(t *testing.T, script string, args ...string) *terminal {
	t.Helper()
	s := &terminal{t: t, dir: t.TempDir(), closed: make(chan struct{})}
	if err := os.WriteFile(filepath.Join(s.dir, "script.yaml"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cmd = s.command(args...)
	s.start()
	return s
}

func (s *terminal) start() {
	s.t.Helper()
	var err error
	if s.pty, err = pty.Start(s.cmd); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it has ended unless the test failed
		_ = s.pty.Close()
	})
	go func() {
		defer close(s.closed)
		buf := make([]byte, 4096)
		for {
			n, err := s.pty.Read(buf)
			s.mu.Lock()
			s.screen.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return // the other side is gone
			}
		}
	}()
}

func (s *terminal) command(args ...string) *exec.Cmd {
	cmd := exec.Command("stave", args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "STAVE_HOME="+filepath.Join(s.dir, "data"), "NO_COLOR=1", "TERM=xterm")
	return cmd
}

// stave runs another command on the same data and returns what it prints.
func (s *terminal) stave(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...).Output()
	if err != nil {
		s.t.Fatalf("stave %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s *terminal) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

// expect waits until text appears behind what was expected before.
func (s *terminal) expect(text string) {
	s.t.Helper()
	const patience, poll = 10 * time.Second, 2 * time.Millisecond
	for waited := time.Duration(0); waited < patience; waited += poll {
		screen := s.seen()
		if i := strings.Index(screen[s.read:], text); i >= 0 {
			s.read += i + len(text)
			return
		}
		time.Sleep(poll)
	}
	s.t.Fatalf("%q does not appear; on the screen is\n%s", text, s.seen())
}

func (s *terminal) types(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.pty, text); err != nil {
		s.t.Fatal(err)
	}
}

// slay kills the processes whose numbers a command wrote into a file.
func (s *terminal) slay(file string) {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, file))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, word := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			s.t.Fatal(err)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // the first may have taken the others along
	}
}

// ends waits for the command to end with a code.
func (s *terminal) ends(want int) {
	s.t.Helper()
	err := s.cmd.Wait()
	<-s.closed
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if got != want {
		s.t.Errorf("exit code %d, want %d; on the screen is\n%s", got, want, s.seen())
	}
}

// TestTypedAhead shows that what was typed before a question does not answer it.
func TestTypedAhead(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, strings.Replace(writeScript, "text: I write.", "text: I write.\n    delay: 300ms", 1),
		"ask", "--model", "script:script.yaml", "--sandbox", "off", "write it")
	s.types("y\ny\n")
	s.expect("y = yes, n = no, ? = whole arguments > ")
	time.Sleep(100 * time.Millisecond)
	if strings.Contains(s.seen(), "allowed by") {
		t.Fatalf("an old keypress allowed the call\n%s", s.seen())
	}
	s.types("n\n")
	s.expect("As you wish.")
	s.ends(0)
}

// TestEndOfInput shows that a person who leaves leaves the question open.
func TestEndOfInput(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, writeScript, "ask", "--model", "script:script.yaml", "--sandbox", "off", "write it")
	s.expect("? = whole arguments > ")
	s.types("\x04")
	s.expect("stave answer call_")
	s.ends(3)
	if open := s.stave("inbox", "--json"); !strings.Contains(open, `"kind":"may_run"`) {
		t.Errorf("the question is gone: %s", open)
	}
}

// TestLostOutcome shows that a person can say what became of a call whose process died.
func TestLostOutcome(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, `
replies:
  - calls: [{tool: Bash, args: {command: "echo $PPID $$ > watcher; touch started; exec sleep 30"}}]
  - text: Good to know.
`, "ask", "--mode", "yolo", "--model", "script:script.yaml", "--sandbox", "off", "start it")
	for range 1000 {
		if _, err := os.Stat(filepath.Join(s.dir, "started")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ends(-1)
	s.slay("watcher")
	again := &terminal{t: t, dir: s.dir, closed: make(chan struct{})}
	again.cmd = s.command("resume")
	again.start()
	again.expect("What became of Bash?")
	again.expect("h = it happened, n = it did not happen, r = run it again, ? = whole arguments > ")
	again.types("h I saw it start\n")
	again.expect("Good to know.")
	again.ends(0)
	if log := s.stave("log", "last", "--json"); !strings.Contains(log, "I saw it start") {
		t.Error("what the person said is not on record")
	}
}

const talkative = `
replies:
  - deltas: [Once, " upon", " a time", " there", " was", " a", " bug", ".", ".", ".", ".", ".", ".", ".", "."]
    pace: 200ms
  - text: The end.
`

// TestInterruptAnswer shows that Ctrl-C ends the turn and keeps what was said.
func TestInterruptAnswer(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, talkative, "ask", "--model", "script:script.yaml", "--sandbox", "off", "tell me a story")
	s.expect("Once upon")
	s.types(ctrlC)
	s.expect("turn interrupted: interrupt")
	s.expect("stave: interrupted: what was said so far is kept")
	s.ends(130)
	if log := s.stave("log", "last", "--json"); !strings.Contains(log, `"partial_output":"Once upon`) {
		t.Errorf("what was said is not on record:\n%s", log)
	}
	if state := s.stave("ls", "--json"); strings.Contains(state, "waits_for") || !strings.Contains(state, `"state":"active"`) {
		t.Errorf("the conversation does not rest: %s", state)
	}
	if answer := s.stave("ask", "--continue", "go on"); answer != "The end.\n" {
		t.Errorf("it went on with %q", answer)
	}
}

// TestInterruptTool shows that Ctrl-C ends a running command, and what it started.
func TestInterruptTool(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, `
replies:
  - calls: [{tool: Bash, args: {command: "echo $$ > pid; exec sleep 30"}}]
`, "ask", "--mode", "yolo", "--model", "script:script.yaml", "--sandbox", "off", "sleep")
	s.expect("→ Bash")
	var pid []byte
	for range 1000 {
		if pid, _ = os.ReadFile(filepath.Join(s.dir, "pid")); len(pid) > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.types(ctrlC)
	s.expect("✗ Bash cancelled")
	s.ends(130)
	if err := exec.Command("kill", "-0", strings.TrimSpace(string(pid))).Run(); err == nil {
		t.Errorf("process %s is still there", pid)
	}
}

// TestInterruptQuestion shows that Ctrl-C at a question ends the turn: the call
// does not run.
func TestInterruptQuestion(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, writeScript, "ask", "--model", "script:script.yaml", "--sandbox", "off", "write it")
	s.expect("? = whole arguments > ")
	s.types(ctrlC)
	s.expect("✗ Bash cancelled")
	s.ends(130)
	if open := s.stave("inbox", "--json"); open != "" {
		t.Errorf("a question is left: %s", open)
	}
}

// TestLeaveAtOnce shows that a second Ctrl-C does not wait for anything.
func TestLeaveAtOnce(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, `
replies:
  - calls: [{tool: Bash, args: {command: "trap '' TERM; echo $PPID $$ > watcher; touch started; sleep 20 & wait; sleep 20"}}]
`, "ask", "--mode", "yolo", "--model", "script:script.yaml", "--sandbox", "off", "sleep")
	for range 1000 {
		if _, err := os.Stat(filepath.Join(s.dir, "started")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.types(ctrlC)
	s.expect("✗ Bash cancelled")
	began := time.Now()
	s.types(ctrlC)
	s.ends(130)
	if took := time.Since(began); took > time.Second {
		t.Errorf("leaving took %v", took)
	}
	s.slay("watcher") // it would see the command to its end
}

// TestTerminate shows that being told to end leaves the turn to the next process.
func TestTerminate(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, talkative, "ask", "--model", "script:script.yaml", "--sandbox", "off", "tell me a story")
	s.expect("Once upon")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.expect("told to end")
	s.ends(130)
	if state := s.stave("ls", "--json"); !strings.Contains(state, `"waits_for":"work"`) {
		t.Errorf("nothing is left to do: %s", state)
	}
}

// TestHarmlessAnswer shows that what a model says cannot drive the terminal, even
// in pieces.
func TestHarmlessAnswer(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, `
replies:
  - deltas: ["red: \x1b[3", "1mred\x1b[0m title: \x1b]0;", "owned\x07 end\r\u200b."]
    pace: 40ms
`, "ask", "--model", "script:script.yaml", "--sandbox", "off", "paint")
	s.ends(0)
	if screen := s.seen(); !strings.Contains(screen, "red: red title:  end.") || strings.Contains(screen, "\x1b") {
		t.Errorf("on the screen is %q", screen)
	}
}
