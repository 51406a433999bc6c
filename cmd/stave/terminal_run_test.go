package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runAt starts a workflow at a terminal, in a directory with these files.
func runAt(t *testing.T, files map[string]string, args ...string) *terminal {
	t.Helper()
	s := &terminal{t: t, dir: t.TempDir(), closed: make(chan struct{})}
	for name, text := range files {
		s.write(name, text)
	}
	s.cmd = s.command(append([]string{"run", "--model", "script:script.yaml", "--sandbox", "off"}, args...)...)
	s.start()
	return s
}

func (s *terminal) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *terminal) text(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// awaits waits until a command has made a file.
func (s *terminal) awaits(name string) {
	s.t.Helper()
	const patience, poll = 10 * time.Second, 5 * time.Millisecond
	for waited := time.Duration(0); waited < patience; waited += poll {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			return
		}
		time.Sleep(poll)
	}
	s.t.Fatalf("%s does not come; on the screen is\n%s", name, s.seen())
}

// again starts another command on the same data at the terminal.
func (s *terminal) again(args ...string) *terminal {
	s.t.Helper()
	next := &terminal{t: s.t, dir: s.dir, closed: make(chan struct{})}
	next.cmd = s.command(args...)
	next.start()
	return next
}

// die is the end of the process by the hand of another.
func (s *terminal) die() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	s.ends(-1)
}

const grantScript = `
scenes:
  - system: You are planning
    replies:
      - calls: [{tool: Edit, args: {path: auth.go, old_string: Login, new_string: Enter}}]
      - calls: [{tool: submit_plan, args: {goal: tidy, steps: [{file: auth.go, change: rename}], risks: []}}]
  - system: You are carrying out
    replies:
      - calls: [{tool: submit_diff, args: {summary: renamed, diff: none, files: [], deviations: []}}]
  - system: You are reviewing
    replies:
      - calls: [{tool: submit_review, args: {verdict: approve, summary: fine, findings: []}}]
`

const grantPrompt = "y = yes, n = no, d = not now, ? = whole arguments > "

// TestGrantAtTerminal shows that a call outside of a stage's tools is put to the
// person in every mode, and that the run goes on whatever they say.
func TestGrantAtTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, shown, file string }{
		{"y\n", "allowed by user:", "func Enter"},
		{"n not while planning\n", "✗ Edit denied: not while planning", "func Login"},
		{"d\n", "✗ Edit denied: ", "func Login"},
	} {
		s := runAt(t, map[string]string{"script.yaml": grantScript, "auth.go": "func Login() {}\n"}, "--mode", "yolo", "codeReview", "refactor auth module")
		s.expect("? Stage Plan, attempt 1, asks for a grant: Edit is not among the tools of stage Plan; it would be for this one call")
		s.expect("+func Enter() {}")
		s.expect(grantPrompt)
		s.types("\n")
		s.expect(grantPrompt)
		s.types(c.typed)
		s.expect(c.shown)
		s.expect("workflow codeReview completed")
		s.expect("verdict: approve")
		s.ends(0)
		if got := s.text("auth.go"); !strings.Contains(got, c.file) {
			t.Errorf("after %q the file is %q", c.typed, got)
		}
	}
}

const oneStage = `
id: one
stages:
  - id: Work
    allowedTools: [Bash]
    completionTool: done
    completionSchema: {type: object, required: [n], properties: {n: {type: integer}}}
    turnCap: 5
    body: WORK
`

// TestInterruptRun shows that Ctrl-C ends a run with the command that runs in it.
func TestInterruptRun(t *testing.T) {
	t.Parallel()
	s := runAt(t, map[string]string{"one.yaml": oneStage, "script.yaml": `
replies:
  - calls: [{tool: Bash, args: {command: "echo $$ > pid; touch started; exec sleep 30"}}]
`}, "one.yaml", "sleep")
	s.awaits("started")
	s.types(ctrlC)
	s.expect("✗ Bash cancelled")
	s.expect("✗ Work cancelled: interrupted")
	s.expect("stave: the workflow one was cancelled: interrupted")
	s.ends(130)
	if err := exec.Command("kill", "-0", strings.TrimSpace(s.text("pid"))).Run(); err == nil {
		t.Errorf("process %s is still there", s.text("pid"))
	}
	if list := s.stave("ls", "--json"); strings.Contains(list, "waits_for") {
		t.Errorf("something still runs: %s", list)
	}
	if view := s.stave("show", "last", "--json"); strings.Contains(view, `"runs"`) {
		t.Errorf("the run is still there: %s", view)
	}
}

// TestKilledWhileActing shows that a run goes on after a kill -9: the command that
// was running is taken up again, not begun again.
func TestKilledWhileActing(t *testing.T) {
	t.Parallel()
	s := runAt(t, map[string]string{"one.yaml": oneStage, "script.yaml": `
replies:
  - calls: [{tool: Bash, args: {command: "echo once >> made; touch started; until [ -e go ]; do sleep 0.02; done; echo went on"}}]
  - when: went on
    calls: [{tool: done, args: {n: 1}}]
`}, "one.yaml", "work")
	s.awaits("started")
	s.die()
	if why := s.stave("why", "last"); !strings.Contains(why, "Work is in act, attempt 1 of 2, 1 of 5 turns") {
		t.Errorf("why: %s", why)
	}
	s.write("go", "")
	next := s.again("resume")
	next.expect("✓ Bash: went on")
	next.expect("workflow one completed")
	next.expect("n: 1")
	next.ends(0)
	if made := s.text("made"); made != "once\n" {
		t.Errorf("the command ran more than once: %q", made)
	}
	s.stave("verify")
}

// TestKilledAtGrant shows that a question outlives the process that asked it, and
// that its answer lets the call run once.
func TestKilledAtGrant(t *testing.T) {
	t.Parallel()
	s := runAt(t, map[string]string{"one.yaml": strings.Replace(oneStage, "[Bash]", "[]", 1), "script.yaml": `
replies:
  - calls: [{tool: Bash, args: {command: "echo once >> made"}}]
  - calls: [{tool: done, args: {n: 1}}]
`}, "--mode", "yolo", "one.yaml", "work")
	s.expect(grantPrompt)
	s.die()
	if open := s.stave("inbox", "--json"); !strings.Contains(open, `"kind":"grant_stage_tool"`) {
		t.Errorf("the question was not kept: %s", open)
	}
	next := s.again("resume", "last")
	next.expect("? Stage Work, attempt 1, asks for a grant: Bash")
	next.expect(grantPrompt)
	if _, err := os.Stat(filepath.Join(s.dir, "made")); err == nil {
		t.Error("it ran before it was granted")
	}
	next.types("y\n")
	next.expect("workflow one completed")
	next.ends(0)
	if made := s.text("made"); made != "once\n" {
		t.Errorf("the command made %q", made)
	}
	s.stave("verify")
}

const sideBySide = `
id: both
stages:
  - id: Plan
    allowedTools: []
    completionTool: submit_plan
    completionSchema: {type: object}
    turnCap: 3
    body: PLAN
    next: {stages: [Slow, Asks], execution: parallel, join: Sum}
  - id: Slow
    allowedTools: [Bash]
    completionTool: submit_slow
    completionSchema: {type: object, required: [n], properties: {n: {type: integer}}}
    turnCap: 3
    retryPolicy: {maxAttempts: 1}
    assert: result.output.n > 0
    body: SLOW
  - id: Asks
    allowedTools: []
    completionTool: submit_asks
    completionSchema: {type: object}
    turnCap: 3
    body: ASKS
  - id: Sum
    allowedTools: []
    completionTool: submit_sum
    completionSchema: {type: object}
    turnCap: 3
    body: SUM
`

const sideBySideScript = `
scenes:
  - system: ^PLAN
    replies: [{calls: [{tool: submit_plan, args: {}}]}]
  - system: ^SLOW
    replies:
      - calls: [{tool: Bash, args: {command: "until [ -e asked ]; do sleep 0.02; done; echo meanwhile; touch said; until [ -e go ]; do sleep 0.02; done"}}]
      - calls: [{tool: submit_slow, args: {n: 1}}]
  - system: ^ASKS
    replies:
      - calls: [{tool: Write, args: {path: made.txt, content: made}}]
      - calls: [{tool: submit_asks, args: {}}]
  - system: ^SUM
    replies: [{calls: [{tool: submit_sum, args: {all: 2}}]}]
`

// TestAskedMeanwhile shows that a question of one stage is put to the person while
// another works, and that nothing is written into what they are reading.
func TestAskedMeanwhile(t *testing.T) {
	t.Parallel()
	s := runAt(t, map[string]string{"both.yaml": sideBySide, "script.yaml": sideBySideScript}, "both.yaml", "work")
	s.expect("Asks     → Write")
	s.expect("? Stage Asks, attempt 1, asks for a grant: Write")
	s.expect(grantPrompt)
	s.write("asked", "")
	s.awaits("said")
	time.Sleep(100 * time.Millisecond) // what was printed is on its way
	if strings.Contains(s.seen(), "│ meanwhile") {
		t.Errorf("it was written into the question:\n%s", s.seen())
	}
	s.types("y\n")
	s.expect("Slow       │ meanwhile")
	s.write("go", "")
	s.expect("workflow both completed")
	s.expect("all: 2")
	s.ends(0)
	if got := s.text("made.txt"); got != "made" {
		t.Errorf("the granted call made %q", got)
	}
}

// TestNoLongerAsked shows that a question goes away with what asked it: the stage
// beside it fails while the person is still reading.
func TestNoLongerAsked(t *testing.T) {
	t.Parallel()
	s := runAt(t, map[string]string{"both.yaml": sideBySide, "script.yaml": strings.Replace(sideBySideScript, "{n: 1}", "{n: 0}", 1)}, "both.yaml", "work")
	s.expect(grantPrompt)
	s.write("asked", "")
	s.write("go", "")
	s.expect("this is no longer asked")
	s.expect("✗ Slow failed in assert")
	s.expect("✗ Asks cancelled")
	s.expect("stave: the workflow both failed: stage Slow failed")
	s.ends(2)
	if _, err := os.Stat(filepath.Join(s.dir, "made.txt")); err == nil {
		t.Error("the call ran")
	}
}

// TestChangedAtTerminal shows that a run whose definition was changed while it was
// cut off asks the person before anything new begins, while what runs goes on.
func TestChangedAtTerminal(t *testing.T) {
	t.Parallel()
	s := runAt(t, map[string]string{"one.yaml": oneStage, "script.yaml": `
replies:
  - calls: [{tool: Bash, args: {command: "touch started; until [ -e go ]; do sleep 0.02; done; echo went on"}}]
  - calls: [{tool: done, args: {n: 1}}]
`}, "one.yaml", "work")
	s.awaits("started")
	s.die()
	s.write("one.yaml", strings.Replace(oneStage, "turnCap: 5", "turnCap: 6", 1))
	next := s.again("resume", "last")
	next.expect("? The definition of workflow one was changed after this run began. May the run go on by the one it began with?")
	next.expect("g = go on by the definition it began with, c = cancel the run > ")
	next.types("y\n")
	next.expect("c = cancel the run > ")
	next.types("g\n")
	next.expect("it goes on by the definition it began with, says user:")
	s.write("go", "")
	next.expect("Work, turn 2 of 5")
	next.expect("workflow one completed")
	next.ends(0)
}
