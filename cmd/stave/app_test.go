package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stave/internal/machine"
	"stave/internal/runelog"
)

// testApp is the program with nobody around it.
func testApp(t *testing.T) (a *app, out, errs *bytes.Buffer) {
	t.Helper()
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	a = newApp()
	a.console = console{in: strings.NewReader(""), out: out, err: errs}
	a.getenv = func(string) string { return "" }
	a.now = func() time.Time { return time.UnixMilli(1_000_000_000_000) }
	return a, out, errs
}

// TestCommands shows that every command says what it does, with an example, and
// takes the common flags.
func TestCommands(t *testing.T) {
	a, _, _ := testApp(t)
	root := a.root()
	want := "answer archive ask budget close demo doctor export fork inbox interrupt log ls machines memory model pause policy queue " +
		"replay restore resume rewind run send servers show stop trust verify version why workflow"
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
		if c.Short == "" || !strings.Contains(c.Example, "stave "+c.Name()) {
			t.Errorf("%s has no description or no example of itself", c.Name())
		}
		for _, flag := range []string{"data", "json"} {
			if c.InheritedFlags().Lookup(flag) == nil {
				t.Errorf("%s does not take --%s", c.Name(), flag)
			}
		}
	}
	if diff := cmp.Diff(want, strings.Join(names, " ")); diff != "" {
		t.Errorf("the commands of the contract (-want +got):\n%s", diff)
	}
}

// TestHelp shows that help goes to standard output, with the example in it, and
// is a success.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"ask", "--help"}, {"help", "log"}} {
		a, out, errs := testApp(t)
		if code := a.run(args); code != 0 || errs.Len() > 0 || !strings.Contains(out.String(), "Examples:") {
			t.Errorf("stave %v: code %d\n%s%s", args, code, out, errs)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{runelog.ErrLocked, 1},
		{&machine.Refusal{}, 1},
		{fmt.Errorf("%w: reason", errTurnFailed), 2},
		{fmt.Errorf("%w: reason", errPermission), 3},
		{fmt.Errorf("%w: reason", errBudget), 4},
		{fmt.Errorf("%w: reason", errInterrupted), 130},
		{errors.Join(errTurnFailed, errPermission), 3},
		{reported{errors.New("told")}, 1},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exit code of %v is %d, want %d", c.err, got, c.want)
		}
	}
}

// TestComplain shows that an error is told once, as harmless text, with what can
// be done about it.
func TestComplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("a\x1b[31mb"), "stave: ab\n"},
		{errors.Join(errors.New("one"), errors.New("two")), "stave: one\n       two\n"},
		{reported{errors.New("told")}, ""},
		{
			&machine.Refusal{Machine: "session", State: "closed", Command: "say", Possible: []string{"archive"}},
			"stave: session cannot send while it is closed; possible: archive\n",
		},
		{
			fmt.Errorf("opening: %w", &machine.Refusal{Machine: "session", State: "active", Command: "say", Reason: "too long"}),
			"stave: session cannot send while it is active: too long\n",
		},
	} {
		a, _, errs := testApp(t)
		a.complain(c.err)
		if diff := cmp.Diff(c.want, errs.String()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestShortest(t *testing.T) {
	got := shortest([]string{"conv_aab", "conv_aac", "conv_b", "conv_bb"}, 6)
	want := map[string]string{"conv_aab": "conv_aab", "conv_aac": "conv_aac", "conv_b": "conv_b", "conv_bb": "conv_bb"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := shortest([]string{"conv_1234", "conv_5678"}, 7)["conv_1234"]; got != "conv_12" {
		t.Errorf("got %s", got)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"/tmp/a-b_c.d": "/tmp/a-b_c.d", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'", "~/x": "'~/x'",
	} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	a, _, _ := testApp(t)
	now := a.now().UnixMilli()
	for ago, want := range map[time.Duration]string{
		-time.Minute: "now", 0: "now", 59 * time.Second: "59s ago", time.Minute: "1m ago", 119 * time.Minute: "1h ago", 50 * time.Hour: "2d ago",
	} {
		if got := a.age(now - ago.Milliseconds()); got != want {
			t.Errorf("%v is %q, want %q", ago, got, want)
		}
	}
}

// TestPipedTooLong shows that a prompt is bounded.
func TestPipedTooLong(t *testing.T) {
	a, _, errs := testApp(t)
	a.in, a.piped = strings.NewReader(strings.Repeat("x", maxPiped+1)), true
	a.getenv = func(string) string { return t.TempDir() }
	if code := a.run([]string{"send", "last"}); code != 1 || !strings.Contains(errs.String(), "more than the 1048576 bytes") {
		t.Errorf("code %d: %s", code, errs)
	}
}
