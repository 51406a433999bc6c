package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"stave/internal/runelog"
	"stave/internal/runelog/pebble"
	"stave/internal/toolbox/sandbox"
	"stave/internal/toolbox/supervisor"
)

func TestMain(m *testing.M) {
	// What runs around a command is this program under another name.
	if len(os.Args) > 1 && (os.Args[1] == sandbox.Verb || os.Args[1] == supervisor.Verb) {
		main()
	}
	testscript.Main(m, map[string]func(){"stave": main, "weather": mcpServer, "browse": browse})
}

// nobodyThere is an address where nothing can listen.
const nobodyThere = "http://127.0.0.1:0"

// TestScripts plays what a person types and reads, from testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("STAVE_HOME", filepath.Join(e.WorkDir, "data"))
			e.Setenv("TMPDIR", filepath.Join(e.WorkDir, "tmp"))
			e.Setenv("XDG_RUNTIME_DIR", e.WorkDir)   // what a test leaves goes with it
			e.Setenv("OLLAMA_BASE_URL", nobodyThere) // whatever runs on this machine
			return os.MkdirAll(filepath.Join(e.WorkDir, "tmp"), 0o700)
		},
		Condition: canBuild,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "fields": fields, "keep": keep, "await": await, "forge": forge, "flip": flip,
			"slay": slay, "absent": absent, "wire": serve, "awaitcall": awaitCall, "guard": guard,
		},
	})
}

// canBuild is the condition [sandbox:LEVEL]: this machine can build it.
func canBuild(cond string) (bool, error) {
	level, ok := strings.CutPrefix(cond, "sandbox:")
	if !ok {
		return false, fmt.Errorf("there is no condition %q", cond)
	}
	parsed, err := sandbox.ParseLevel(level)
	return err == nil && detected().Of(parsed).OK, err
}

var detected = sync.OnceValue(sandbox.Detect)

// exits CODE COMMAND... runs a command that must end with exactly this code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// fields NAME... demands that every line of standard output is a JSON object
// with these members, and that there is a line. NAME=VALUE also
// demands a value, of the first line.
func fields(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	for i, line := range lines {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			ts.Fatalf("line %d of stdout is not a JSON object: %q", i+1, line)
		}
		for _, arg := range args {
			name, want, valued := strings.Cut(arg, "=")
			got, ok := object[name]
			if !ok {
				ts.Fatalf("line %d has no member %s: %s", i+1, name, line)
			}
			if text := toText(got); valued && i == 0 && text != want {
				ts.Fatalf("member %s is %q, want %q", name, text, want)
			}
		}
	}
}

func toText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// keep VAR NAME sets a variable to a member of the first JSON line of standard
// output, or without NAME to the output itself.
func keep(ts *testscript.TestScript, _ bool, args []string) {
	out := strings.TrimSpace(ts.ReadFile("stdout"))
	if len(args) == 2 {
		first, _, _ := strings.Cut(out, "\n")
		var object map[string]any
		ts.Check(json.Unmarshal([]byte(first), &object))
		out = toText(object[args[1]])
	}
	ts.Setenv(args[0], out)
}

// await FILE waits until another process has made a file.
func await(ts *testscript.TestScript, _ bool, args []string) {
	const patience, poll = 10 * time.Second, 5 * time.Millisecond
	for waited := time.Duration(0); ; waited += poll {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if waited > patience {
			ts.Fatalf("%s does not come", args[0])
		}
		time.Sleep(poll)
	}
}

// forge DIR LOG appends a rune that is well chained but follows no table.
func forge(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	store, err := pebble.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer store.Close()
	head, err := store.Lease(ctx, args[1])
	ts.Check(err)
	meta, err := store.Meta(ctx, args[1])
	ts.Check(err)
	runes, err := runelog.NewChain(args[1], head).Stamp([]runelog.Rune{{
		Path: "session", Kind: "session.paused", From: "closed", To: "paused", Visibility: runelog.Public,
		By: "user:mallory", Payload: []byte(`{"reason":"forged"}`),
	}}, meta.UpdatedMs)
	ts.Check(err)
	meta.Seq++
	ts.Check(store.Append(ctx, runelog.Batch{
		Log: args[1], After: head.Seq, Epoch: head.Epoch, Runes: runes, Meta: meta, Sync: true,
	}))
}

// flip PATTERN changes a byte in the middle of every file that fits.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("no file fits %s", args[0])
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		ts.Check(err)
		data[len(data)/2] ^= 1
		ts.Check(os.WriteFile(name, data, 0o600))
	}
}

// slay FILE kills the processes whose numbers a command wrote into a file, in
// that order.
func slay(ts *testscript.TestScript, _ bool, args []string) {
	for _, word := range strings.Fields(ts.ReadFile(args[0])) {
		pid, err := strconv.Atoi(word)
		ts.Check(err)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			ts.Fatalf("killing %d: %v", pid, err)
		}
	}
}

// absent TEXT DIR demands that no file below a directory, and neither output of
// the last command, holds a text.
func absent(ts *testscript.TestScript, _ bool, args []string) {
	text := []byte(args[0])
	for _, stream := range []string{"stdout", "stderr"} {
		if strings.Contains(ts.ReadFile(stream), args[0]) {
			ts.Fatalf("%s holds %s", stream, args[0])
		}
	}
	files := 0
	ts.Check(filepath.WalkDir(ts.MkAbs(args[1]), func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		if bytes.Contains(data, text) {
			ts.Fatalf("%s holds %s", name, args[0])
		}
		return nil
	}))
	if files == 0 {
		ts.Fatalf("there is no file in %s", args[1])
	}
}
