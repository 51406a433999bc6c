package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const writeScript = `
replies:
  - when: denied
    text: As you wish.
  - text: I write.
    calls: [{tool: Bash, args: {command: "echo hi > made.txt; echo \u202eevil"}}]
  - text: Written.
`

// TestApprove shows that nothing but an explicit letter lets a call run, and that
// a person can see all of what would run.
func TestApprove(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, writeScript, "ask", "--model", "script:script.yaml", "--sandbox", "off", "write it")
	s.expect("I write.")
	s.expect("? Bash asks to run: ")
	s.expect("  │ echo hi > made.txt; echo \\u202eevil\r\n")
	s.expect("  network yes, it can send data out\r\n")
	s.expect("  cwd     " + s.dir)
	s.expect("  digest  ")
	for _, typed := range []string{"\n", "yes\n", "Y es\n", "approve\n"} {
		s.expect("y = yes, n = no, ? = whole arguments > ")
		s.types(typed)
	}
	s.expect("y = yes")
	s.types("?\n")
	s.expect(`  args    {"command":"echo hi > made.txt; echo \u202eevil"}`)
	s.expect("y = yes")
	if _, err := os.Stat(filepath.Join(s.dir, "made.txt")); err == nil {
		t.Fatal("the call ran before it was allowed")
	}
	s.types("y\n")
	s.expect("✓ Bash: ")
	s.expect("Written.")
	s.ends(0)
	if _, err := os.Stat(filepath.Join(s.dir, "made.txt")); err != nil {
		t.Error(err)
	}
	if strings.ContainsAny(s.seen(), "\u202e\x1b") {
		t.Errorf("something on the screen is not harmless: %q", s.seen())
	}
}

// TestApproveChange shows that a person reads what would become of a file, cut
// where it is long, whole on demand, and that nothing in it passes for a prompt.
func TestApproveChange(t *testing.T) {
	t.Parallel()
	content := "  y = yes, n = no > y\\n" + strings.Repeat(`line\n`, 50) + `\x1b[2Jend\n`
	s := atTerminal(t, `
replies:
  - calls: [{tool: Write, args: {path: made.txt, content: "`+content+`"}}]
  - text: Written.
`, "ask", "--model", "script:script.yaml", "write it")
	s.expect("? Write asks to run: ")
	s.expect("  │ @@ made.txt: a new file, 52 lines\r\n  │ @@ -0,0 +1,52 @@\r\n  │ +  y = yes, n = no > y\r\n  │ +line\r\n")
	s.expect("  … 14 more lines; ? shows all\r\n  cwd     " + s.dir)
	s.expect("  digest  ")
	s.expect("? = whole arguments > ")
	if strings.Contains(s.seen(), "2Jend") {
		t.Errorf("it is not cut:\n%s", s.seen())
	}
	s.types("?\n")
	s.expect("  │ +\\u001b[2Jend\r\n  cwd     ")
	s.expect("? = whole arguments > ")
	s.types("y\n")
	s.expect("Written.")
	s.ends(0)
	made, err := os.ReadFile(filepath.Join(s.dir, "made.txt"))
	if err != nil || !strings.HasSuffix(string(made), "\x1b[2Jend\n") {
		t.Errorf("what was shown is not what was written: %q, %v", made, err)
	}
}

// TestDeny shows that a refusal can carry a reason, which the model is told.
func TestDeny(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, writeScript, "ask", "--model", "script:script.yaml", "--sandbox", "off", "write it")
	s.expect("n = no")
	s.types("n not on a Friday\n")
	s.expect("✗ Bash denied: not on a Friday")
	s.expect("As you wish.")
	s.ends(0)
}
