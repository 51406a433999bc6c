package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"stave/internal/runelog"
	"stave/internal/runelog/pebble"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stave": main})
}

// TestScripts plays what a person types and reads, from testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("STAVE_HOME", filepath.Join(e.WorkDir, "data"))
			e.Setenv("TMPDIR", filepath.Join(e.WorkDir, "tmp"))
			return os.MkdirAll(filepath.Join(e.WorkDir, "tmp"), 0o700)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "fields": fields, "keep": keep, "await": await, "forge": forge, "flip": flip,
		},
	})
}

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
