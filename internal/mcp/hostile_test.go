package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLostCalls(t *testing.T) {
	// Whatever breaks while a call is under way, the outcome is said to be
	// unknown, with a reason, and the call is not sent again.
	for mode, want := range map[string]string{
		"die":     "out of memory",
		"half":    "middle of a message",
		"doubled": "given twice",
		"badtext": "bad text",
		"deep":    "nests deeper",
		"endless": "longer than allowed",
	} {
		t.Run(mode, func(t *testing.T) {
			s := openFake(t, mode, Options{})
			out, err := s.call("fake__act", `{"text":"x"}`)
			if err != nil || !out.Unknown {
				t.Fatalf("got %+v and %v, want an unknown outcome", out, err)
			}
			if !strings.Contains(out.Text, want) || strings.Contains(out.Text, "hunter2secret") {
				t.Errorf("the outcome says %q, want %q in it and no secret", out.Text, want)
			}
			s.await("fake", is(Connected)) // it comes back by itself
		})
	}
}

func TestReadOnlyLoss(t *testing.T) {
	// The same loss is an ordinary failure where a person said that nothing is
	// changed.
	c := fakeConfig(t, "die")
	config := c.Servers["fake"]
	config.ReadOnly = true
	c.Servers["fake"] = config
	s := open1(t, c, Options{})
	s.approveAll("fake")
	out, err := s.call("fake__act", `{"text":"x"}`)
	if out.Unknown || err == nil || !strings.Contains(err.Error(), "calling it again does no harm") {
		t.Errorf("got %+v and %v", out, err)
	}
}

func TestAnswersThatAreErrors(t *testing.T) {
	for mode, want := range map[string]string{
		"error":  "error -32000: no]0;x luck",
		"failed": "disk full",
		"asks":   "ask something back",
	} {
		t.Run(mode, func(t *testing.T) {
			s := openFake(t, mode, Options{})
			out, err := s.call("fake__act", `{"text":"x"}`)
			if out.Unknown || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %+v and %v, want %q", out, err, want)
			}
		})
	}
}

func TestNoAnswer(t *testing.T) {
	// A call that is not answered ends at its time limit, and one that its caller
	// gives up ends at once. The server stays usable.
	s := openFake(t, "never", Options{Limits: Limits{Call: 50 * time.Millisecond}})
	out, err := s.call("fake__act", `{"text":"x"}`)
	if err != nil || !out.Unknown || !strings.Contains(out.Text, "no answer within 50ms") {
		t.Errorf("got %+v and %v", out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.tool("fake__act").Run(ctx, &env{}, json.RawMessage(`{"text":"x"}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("giving up gave %v", err)
	}
	if st := s.State()[0]; st.Status != Connected {
		t.Errorf("the server is %s: %s", st.Status, st.Why)
	}
}

func TestDeafServer(t *testing.T) {
	// A server that reads no more fills its pipe. The call that does not fit ends
	// at its time limit; if part of it left, its outcome is unknown.
	s := openFake(t, "deaf", Options{Limits: Limits{Call: time.Second}})
	args := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 1<<20))
	out, err := s.call("fake__act", args)
	early := err != nil && strings.Contains(err.Error(), "did not reach") // a busy machine
	if out.Unknown == early || !early && !strings.Contains(out.Text, "no answer within 1s") {
		t.Errorf("got %+v and %v", out, err)
	}
}

func TestBadStarts(t *testing.T) {
	for _, test := range []struct {
		mode, want string
		limits     Limits
	}{
		{"exit", "cannot find the licence; key was [redacted]", Limits{}},
		{"silent", "did not answer within 300ms", Limits{Start: 300 * time.Millisecond}},
		{"pings", "without waiting for answers", Limits{}},
	} {
		t.Run(test.mode, func(t *testing.T) {
			s := open1(t, fakeConfig(t, test.mode), Options{Limits: test.limits})
			st := s.await("fake", is(NeedsApproval))
			if err := s.ApproveServer("fake", st.Review.Digest); err != nil {
				t.Fatal(err)
			}
			st = s.await("fake", is(Failed))
			if !strings.Contains(st.Why, test.want) {
				t.Errorf("it failed with %q, want %q", st.Why, test.want)
			}
		})
	}
}

func TestFloods(t *testing.T) {
	// Too much is cut, said, and does not keep the server from being used.
	for _, test := range []struct {
		mode  string
		tools int
		note  string
	}{
		{"many", 256, "more than 256 tools"},
		{"pages", maxPages, "more than 256 tools"},
		{"notices", 2, ""},
	} {
		t.Run(test.mode, func(t *testing.T) {
			s := openFake(t, test.mode, Options{})
			st := s.State()[0]
			if len(st.Tools) != test.tools || strings.Join(st.Notes, "") != "" != (test.note != "") || !strings.Contains(strings.Join(st.Notes, ""), test.note) {
				t.Errorf("%d tools and notes %v", len(st.Tools), st.Notes)
			}
		})
	}
}

func TestLongDescriptions(t *testing.T) {
	s := openFake(t, "long", Options{})
	st := s.State()[0]
	if st.Tools[0].Status != Refused || !strings.Contains(st.Tools[0].Why, "definition is") {
		t.Errorf("the huge tool is %+v", st.Tools[0].Status)
	}
	if n := len([]rune(s.tool("fake__wordy").Description)); n != 4097 {
		t.Errorf("the description has %d characters", n)
	}
}

func TestShadowing(t *testing.T) {
	s := openFake(t, "shadow", Options{})
	got := make(map[string]Status)
	for _, tool := range s.State()[0].Tools {
		got[tool.Tool] = tool.Status
	}
	for tool, want := range map[string]Status{"echo": Refused, "Echo": Refused, "a.b": Refused, "a/b": Refused, "act": Available} {
		if got[tool] != want {
			t.Errorf("%s is %s, want %s", tool, got[tool], want)
		}
	}
	if tools := s.Tools(); len(tools) != 1 {
		t.Errorf("offered are %v", tools)
	}
}

func TestScrubbedEnvironment(t *testing.T) {
	s := openFake(t, "environment", Options{
		Environ: []string{"PATH=/usr/bin:/bin", "AWS_SECRET_ACCESS_KEY=canary", "HOME=/nowhere", "LD_PRELOAD=x"},
	})
	out, err := s.call("fake__act", `{"text":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := "FAKE_SECRET=[redacted]\nHOME=/nowhere\nPATH=/usr/bin:/bin\n" + fakeVar + "=[redacted]"
	if out.Text != want {
		t.Errorf("the server has the environment\n%s\nwant\n%s", out.Text, want)
	}
}

func TestRichResults(t *testing.T) {
	s := openFake(t, "rich", Options{})
	e := &env{}
	out, err := s.tool("fake__act").Run(t.Context(), e, json.RawMessage(`{"text":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	kept, _ := out.Meta["attachments"].([]attachment)
	if len(kept) != 2 || string(e.blobs[kept[0].SHA256]) != "hello" || string(e.blobs[kept[1].SHA256]) != "pdf" {
		t.Errorf("kept are %+v", kept)
	}
	for _, want := range []string{"look", "[image image/png, 5 bytes, kept as " + kept[0].SHA256, "[resource file:///y]\nplain", "file:///z zed"} {
		if !strings.Contains(out.Text, want) {
			t.Errorf("%q is not in %q", want, out.Text)
		}
	}
	if text, _ := out.Meta["structured"].(json.RawMessage); string(text) != `{"n":1}` {
		t.Errorf("structured content is %s", text)
	}
}

func TestLongResult(t *testing.T) {
	s := openFake(t, "echo", Options{Limits: Limits{ResultBytes: 1000}})
	e := &env{}
	out, err := s.tool("fake__act").Run(t.Context(), e, json.RawMessage(fmt.Sprintf(`{"text":%q}`, strings.Repeat("é", 5000))))
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Text) > 1000 || !strings.HasSuffix(out.Text, cutNote) || len(e.blobs[out.Blob]) < 10_000 {
		t.Errorf("text of %d bytes, blob of %d", len(out.Text), len(e.blobs[out.Blob]))
	}
}

func TestProgress(t *testing.T) {
	s := openFake(t, "progress", Options{})
	e := &env{}
	if _, err := s.tool("fake__act").Run(t.Context(), e, json.RawMessage(`{"text":"x"}`)); err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.progress) == 0 || len(e.progress) > maxProgress || e.progress[0] != "0 of 300: step[2J\n" {
		t.Errorf("%d reports, the first is %q", len(e.progress), e.progress)
	}
}

func TestCloseEndsTheGroup(t *testing.T) {
	// A server that ignores everything, and what it started, do not outlive Close.
	s := openFake(t, "stubborn", Options{Limits: Limits{Grace: 20 * time.Millisecond}})
	out, err := s.call("fake__act", `{"text":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	var leader, child int
	if _, err := fmt.Sscan(out.Text, &leader, &child); err != nil {
		t.Fatal(err)
	}
	s.Close()
	deadline := time.Now().Add(patience)
	for alive(leader) || alive(child) {
		if time.Now().After(deadline) {
			t.Fatalf("of %d and %d some still live", leader, child)
		}
		time.Sleep(time.Millisecond)
	}
}

// alive says that a process runs; one that is dead and not yet collected by
// whoever inherited it does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestOneDeadServerBlocksNobody(t *testing.T) {
	c := fakeConfig(t, "echo")
	silent := c.Servers["fake"]
	silent.Env = map[string]string{fakeVar: "silent"}
	c.Servers["silent"] = silent
	c.Servers["off"] = Server{Type: typeStdio, Command: "x", Disabled: true}
	c.Servers["missing"] = Server{Type: typeStdio, Command: "no-such-program-anywhere"}
	s := open1(t, c, Options{})
	st := s.await("silent", is(NeedsApproval))
	if err := s.ApproveServer("silent", st.Review.Digest); err != nil {
		t.Fatal(err)
	}
	s.approveAll("fake")
	if _, err := s.call("fake__act", `{"text":"x"}`); err != nil {
		t.Error(err)
	}
	s.await("off", is(Disabled))
	if st := s.await("missing", is(Failed)); !strings.Contains(st.Why, "no program") {
		t.Errorf("missing says %q", st.Why)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWrapAndSwappedProgram(t *testing.T) {
	// The program is started through the sandbox, and a program that is not the
	// approved one any more is not started again.
	dir := t.TempDir()
	program := filepath.Join(dir, "server")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec " + self + "\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := Config{Servers: map[string]Server{"fake": {Type: typeStdio, Command: program, Env: map[string]string{fakeVar: "environment"}}}}
	wrap := func(_ string, _ Server, c Command) (Command, error) {
		c.Argv = append([]string{"/usr/bin/env", "WRAPPED=yes-indeed"}, c.Argv...)
		return c, nil
	}
	pins := NewFilePins(filepath.Join(dir, "pins", "pins.json"))
	s := open1(t, c, Options{Wrap: wrap, Pins: pins})
	s.approveAll("fake")
	out, err := s.call("fake__act", `{"text":"x"}`)
	if err != nil || !strings.Contains(out.Text, "WRAPPED=yes-indeed") {
		t.Errorf("got %q and %v", out.Text, err)
	}
	if err := os.WriteFile(program, []byte(script+"# and more\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Reconnect("fake"); err != nil {
		t.Fatal(err)
	}
	st := s.await("fake", is(NeedsApproval))
	if st.Review.Before == nil || string(st.Review.Before) == string(st.Review.After) {
		t.Errorf("the review is %+v", st.Review)
	}
	s.Close()
	// What was approved is remembered by the next program.
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	again := open1(t, c, Options{Pins: NewFilePins(filepath.Join(dir, "pins", "pins.json"))})
	again.await("fake", is(Connected))
	if len(again.Tools()) != 2 {
		t.Errorf("offered are %v", again.Tools())
	}
}
