package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"stave/internal/toolbox/sandbox"
)

// stand-ins for our program in other roles
const roleClient = "client"

// TestMain lets the test program play the parts of ours.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Verb:
			os.Exit(MainWith(os.Args[2:], sandbox.Confine, sandbox.Bound))
		case sandbox.Verb:
			os.Exit(sandbox.Main(os.Args[2:]))
		case roleClient:
			os.Exit(beClient(os.Args[2], os.Args[3], os.Args[4]))
		}
	}
	runtime.LockOSThread() // as a supervisor does: threads that start commands end, and the first cannot
	os.Exit(m.Run())
}

// beClient runs a command and copies its output, as a Stave that will be killed.
func beClient(dir, id, script string) int {
	c, err := New(dir, Options{})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	if _, err := c.Run(context.Background(), shell(id, "/", script), func(b []byte) { os.Stdout.Write(b) }); err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

// longTime is more than any test takes.
const longTime = 10 * time.Minute

func shell(id, dir, script string) Spec {
	return Spec{
		ID: id, Argv: []string{"/bin/bash", "-c", script}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"},
		Deadline: time.Now().Add(longTime),
	}
}

// newClient has a directory and a supervisor of its own, which ends with the test.
func newClient(t testing.TB) *Client {
	t.Helper()
	c, err := New(filepath.Join(t.TempDir(), "sup"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(true); err != nil {
			t.Error(err)
		}
	})
	return c
}

func mustRun(t testing.TB, c *Client, s Spec) (string, Ending) {
	t.Helper()
	var out strings.Builder
	end, err := c.Run(context.Background(), s, func(b []byte) { out.Write(b) })
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), end
}

// fifo is a file on which a command waits for a test, or a test for a command.
func fifo(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// open lets go a command that reads the fifo.
func open(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what other processes bring about.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func supervisorPID(t testing.TB, dir, id string) int {
	t.Helper()
	_, begun, err := recoverRecord(dir, id)
	if err != nil || begun.Supervisor.PID == 0 {
		t.Fatalf("no supervisor of %s: %v", id, err)
	}
	return begun.Supervisor.PID
}
