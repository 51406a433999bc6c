package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"stave/internal/toolbox"
)

// patience is far more than anything here takes, even on a busy machine.
const patience = 2 * time.Minute

// stage is a hub under test and the news it gives.
type stage struct {
	*testing.T
	*Hub
	news chan struct{}
}

func open1(t *testing.T, c Config, opt Options) *stage {
	t.Helper()
	news := make(chan struct{}, 1)
	opt.Changed = func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	if opt.Limits.Grace == 0 {
		opt.Limits.Grace = 200 * time.Millisecond
	}
	if opt.Limits.BackoffFirst == 0 {
		opt.Limits.BackoffFirst, opt.Limits.BackoffMost = time.Millisecond, 10*time.Millisecond
	}
	if opt.Limits.Relist == 0 {
		opt.Limits.Relist = time.Millisecond
	}
	if opt.Limits.Start == 0 {
		opt.Limits.Start = patience
	}
	s := &stage{t, Start(c, opt), news}
	t.Cleanup(func() { s.Close() })
	return s
}

// await waits until the state is as wanted and returns that of the server.
func (s *stage) await(server string, want func(ServerState) bool) ServerState {
	s.Helper()
	deadline := time.After(patience)
	for {
		var last ServerState
		for _, st := range s.State() {
			if st.Name == server {
				last = st
			}
		}
		if want(last) {
			return last
		}
		select {
		case <-s.news:
		case <-deadline:
			text, _ := json.Marshal(last)
			s.Fatalf("server %s did not get there; it is %s", server, text)
		}
	}
}

func is(status Status) func(ServerState) bool {
	return func(s ServerState) bool { return s.Status == status }
}

// approveAll is a person who approves what they are shown.
func (s *stage) approveAll(server string) ServerState {
	s.Helper()
	st := s.await(server, is(NeedsApproval))
	if err := s.ApproveServer(server, st.Review.Digest); err != nil {
		s.Fatal(err)
	}
	st = s.await(server, is(Connected))
	digests := make(map[string]string)
	for _, tool := range st.Tools {
		if tool.Status == NeedsApproval {
			digests[tool.Tool] = tool.Review.Digest
		}
	}
	if err := s.ApproveTools(server, digests); err != nil {
		s.Fatal(err)
	}
	return s.await(server, is(Connected))
}

func (s *stage) tool(name string) toolbox.Tool {
	s.Helper()
	for _, tool := range s.Tools() {
		if tool.Name == name {
			return tool
		}
	}
	s.Fatalf("there is no tool %s", name)
	return toolbox.Tool{}
}

func (s *stage) call(name, args string) (toolbox.Output, error) {
	s.Helper()
	return s.tool(name).Run(s.Context(), &env{}, json.RawMessage(args))
}

// fakeConfig is a server of our own that behaves as mode says.
func fakeConfig(t *testing.T, mode string) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Servers: map[string]Server{"fake": {Type: typeStdio, Command: self, Env: map[string]string{fakeVar: mode, "FAKE_SECRET": "hunter2secret"}}}}
}

func openFake(t *testing.T, mode string, opt Options) *stage {
	t.Helper()
	s := open1(t, fakeConfig(t, mode), opt)
	s.approveAll("fake")
	return s
}

// env is what a call of ours may touch, in memory; all else would panic.
type env struct {
	toolbox.Env
	mu       sync.Mutex
	blobs    map[string][]byte
	progress []string
}

func (e *env) Progress(_, chunk string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.progress = append(e.progress, chunk)
}

func (e *env) PutBlob(_ context.Context, r io.Reader) (string, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.blobs == nil {
		e.blobs = make(map[string][]byte)
	}
	sum := sha256.Sum256(b)
	name := hex.EncodeToString(sum[:])
	e.blobs[name] = b
	return name, nil
}

func TestNothingRunsBeforeApproval(t *testing.T) {
	// An unknown server is not started, its tools are not offered, and each step
	// needs the digest of what was really shown.
	s := open1(t, fakeConfig(t, "echo"), Options{})
	st := s.await("fake", is(NeedsApproval))
	if st.Review == nil || st.Review.Before != nil || len(st.Tools) != 0 {
		t.Fatalf("the review is %+v", st)
	}
	if strings.Contains(string(st.Review.After), "hunter2secret") {
		t.Error("the review shows a configured value")
	}
	if err := s.ApproveServer("fake", "not the digest"); err == nil {
		t.Error("a wrong digest was accepted")
	}
	if err := s.ApproveServer("fake", st.Review.Digest); err != nil {
		t.Fatal(err)
	}
	st = s.await("fake", is(Connected))
	if len(s.Tools()) != 0 {
		t.Error("tools are offered that nobody approved")
	}
	if len(st.Tools) != 2 || st.Tools[0].Status != NeedsApproval {
		t.Fatalf("the tools are %+v", st.Tools)
	}
	if err := s.ApproveTools("fake", map[string]string{"echo": st.Tools[0].Review.Digest}); err == nil {
		t.Error("the digest of another tool was accepted")
	}
	if err := s.ApproveTools("fake", map[string]string{"act": st.Tools[0].Review.Digest}); err != nil {
		t.Fatal(err)
	}
	if tools := s.Tools(); len(tools) != 1 || tools[0].Name != "fake__act" {
		t.Errorf("offered are %v", tools)
	}
	if err := s.Revoke("fake"); err != nil {
		t.Fatal(err)
	}
	s.await("fake", is(NeedsApproval))
	if len(s.Tools()) != 0 {
		t.Error("tools are offered after approval was taken back")
	}
}

func TestToolKeepsWhatItIs(t *testing.T) {
	// The server's hints do not widen anything, and its words are cleaned.
	s := openFake(t, "echo", Options{})
	tool := s.tool("fake__echo")
	if tool.Safety != toolbox.SideEffect || tool.Parallel {
		t.Errorf("safety %s, parallel %v: the server's hints were believed", tool.Safety, tool.Parallel)
	}
	if got := strings.Join(tool.Traits, " "); got != "private untrusted external" {
		t.Errorf("traits are %q", got)
	}
	if !json.Valid(tool.Schema) || strings.ContainsRune(string(tool.Schema), '\u202e') {
		t.Errorf("schema is %s", tool.Schema)
	}
	st := s.State()[0]
	if st.Title != "fa[31mke" || st.Instructions != "be nice" {
		t.Errorf("title %q and instructions %q are not cleaned", st.Title, st.Instructions)
	}
	for args, want := range map[string]string{
		`{"text":"x"}`:            "",
		`{}`:                      `"text" is missing`,
		`{"text":"x","TEXT":"y"}`: `"TEXT" is not a field here`,
		`{"text":"a","text":"b"}`: "twice",
	} {
		err := tool.Check(json.RawMessage(args))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("checking %s: %v, want %q", args, err, want)
		}
	}
}

func TestCanonicalBytesArrive(t *testing.T) {
	// What arrives at the server are the very bytes a person approved.
	s := openFake(t, "echo", Options{})
	const args = "{ \"text\" : \"<a&b> \u2028 \U0001F600 \\u00e9 \\/ \x7f\" }"
	canonical, err := toolbox.Canonical(args)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.call("fake__echo", args)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.Text, `"arguments":`+string(canonical)+`,`) && !strings.Contains(out.Text, `"arguments":`+string(canonical)+`}`) {
		t.Errorf("the server got %q, want the bytes %q in it", out.Text, canonical)
	}
}

func TestRugPull(t *testing.T) {
	// A definition that changes after approval takes the tool away until a person
	// has seen before and after; a tool held from earlier does not run either.
	s := openFake(t, "rugpull", Options{})
	held := s.tool("fake__echo")
	if _, err := s.call("fake__act", `{"text":"now"}`); err != nil {
		t.Fatal(err)
	}
	st := s.await("fake", func(st ServerState) bool {
		return len(st.Tools) == 2 && st.Tools[1].Status == NeedsApproval
	})
	review := st.Tools[1].Review
	if !strings.Contains(string(review.After), "all your files") || strings.Contains(string(review.Before), "all your files") || review.Before == nil {
		t.Errorf("the review is %+v", review)
	}
	if tools := s.Tools(); len(tools) != 1 || tools[0].Name != "fake__act" {
		t.Errorf("offered are %v", tools)
	}
	if _, err := held.Run(t.Context(), &env{}, json.RawMessage(`{"text":"x"}`)); err == nil || !strings.Contains(err.Error(), "changed after it was approved") {
		t.Errorf("the changed tool ran: %v", err)
	}
	if err := s.ApproveTools("fake", map[string]string{"echo": review.Digest}); err != nil {
		t.Fatal(err)
	}
	if len(s.Tools()) != 2 {
		t.Error("the approved tool is not back")
	}
}
