package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTypedWhileRunning shows that commands typed during a stage work at once, that
// nothing else that is typed does anything, and that a paused run goes on later.
func TestTypedWhileRunning(t *testing.T) {
	t.Parallel()
	s := runAt(t, map[string]string{"one.yaml": oneStage, "other.yaml": `
replies:
  - text: nobody hears this
  - calls: [{tool: done, args: {n: 7}}]
`, "script.yaml": `
replies:
  - calls: [{tool: Bash, args: {command: "touch started; until [ -e go ]; do sleep 0.02; done; echo went on"}}]
  - calls: [{tool: done, args: {n: 1}}]
`}, "--mode", "yolo", "one.yaml", "work")
	s.awaits("started")
	s.types("/tools\n")
	s.expect("MultiEdit ")
	s.types("y\n")
	s.types("/model\n")
	s.expect("script.yaml")
	s.types("/model script:other.yaml\n")
	s.expect("goes on with script:")
	s.types("/why\n")
	s.expect("The workflow one is running: Work is in act, attempt 1 of 2, 1 of 5 turns.")
	s.types("/budget --tool-calls 40\n")
	s.expect("of 40")
	s.types("/dance\n")
	s.expect("there is no /dance; known are ")
	s.types("/run one.yaml again\n")
	s.expect("/run works only when conv_")
	s.types("/resume\n")
	s.expect("stave: session cannot resume while it is active")
	s.types("/pause\n")
	s.expect("paused")
	s.write("go", "")
	s.expect("stave: interrupted: the conversation is paused; `stave resume conv_")
	s.ends(130)
	if strings.Contains(s.seen(), "n: 7") {
		t.Errorf("it went on although it was paused:\n%s", s.seen())
	}
	next := s.again("resume", "last")
	next.expect("workflow one completed")
	next.expect("n: 7")
	next.ends(0)
}

// TestStopTyped shows that a run and its conversation can be ended by a typed word.
func TestStopTyped(t *testing.T) {
	t.Parallel()
	for word, state := range map[string]string{"/stop\n": "closed", "/interrupt\n": "active"} {
		s := runAt(t, map[string]string{"one.yaml": oneStage, "script.yaml": `
replies:
  - calls: [{tool: Bash, args: {command: "touch started; exec sleep 30"}}]
`}, "one.yaml", "sleep")
		s.awaits("started")
		s.types(word)
		s.expect("stave: the workflow one was cancelled")
		s.ends(130)
		if view := s.stave("show", "last"); !strings.Contains(view, "state     "+state) {
			t.Errorf("after %q: %s", word, view)
		}
	}
}

// TestTypedBeforeQuestion shows that neither a command nor a letter typed while
// something ran answers the question that comes up then.
func TestTypedBeforeQuestion(t *testing.T) {
	t.Parallel()
	s := runAt(t, map[string]string{"one.yaml": oneStage, "script.yaml": `
replies:
  - calls: [{tool: Bash, args: {command: "touch started; until [ -e go ]; do sleep 0.02; done"}}]
  - calls: [{tool: Write, args: {path: made.txt, content: made}}]
  - calls: [{tool: done, args: {n: 1}}]
`}, "--mode", "yolo", "one.yaml", "work")
	s.awaits("started")
	s.types("y\n/model\ny\n")
	s.expect("script.yaml")
	s.types("y\n")
	s.write("go", "")
	s.expect(grantPrompt)
	s.types("/model\n")
	s.expect(grantPrompt)
	if strings.Contains(s.seen(), "allowed by") {
		t.Fatalf("an old keypress allowed the call\n%s", s.seen())
	}
	s.types("n\n")
	s.expect("✗ Write denied")
	s.expect("workflow one completed")
	s.ends(0)
	if _, err := os.Stat(filepath.Join(s.dir, "made.txt")); err == nil {
		t.Error("the call ran")
	}
}
