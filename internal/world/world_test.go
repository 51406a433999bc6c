package world

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/runelog"
)

// change steps once and keeps the change.
func change(t *testing.T, w *World, p Path, c any) *Change {
	t.Helper()
	got, err := w.Step(Message{Path: p, Command: c, By: "user:ann", AtMs: 7})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestStepChangesNothing shows that a step that is never written never happened.
func TestStepChangesNothing(t *testing.T) {
	w := begin(t, asked).World
	before := save(t, w)
	for _, c := range []any{tool.Approve{}, tool.Deny{}} {
		change(t, w, callA, c)
	}
	change(t, w, SessionPath, session.Stop{})
	if after := save(t, w); string(after) != string(before) {
		t.Errorf("the world changed:\n%s\n%s", before, after)
	}
}

// TestSync shows what must be durable before it is acted upon: everything but
// what only passes by.
func TestSync(t *testing.T) {
	for _, c := range []struct {
		name, before string
		path         Path
		command      any
		sync, seal   bool
	}{
		{"a delta", talking, turn1, turn.Delta{Text: "x"}, false, false},
		{"a delta that ends the turn", talking + "session pause", turn1, turn.Delta{Text: "x", ItemDone: true}, true, false},
		{"output", running, callA, tool.Report{Chunk: "x"}, false, false},
		{"an intent", running, callA, tool.Report{Intent: []byte(`{}`)}, true, false},
		{"an approval", asked, callA, tool.Approve{}, true, false},
		{"a message", ready, SessionPath, session.Say{Text: "x"}, true, false},
		{"the end", ready, SessionPath, session.Close{}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := change(t, begin(t, c.before).World, c.path, c.command)
			if got.Sync != c.sync || got.Seal != c.seal {
				t.Errorf("sync %t, seal %t", got.Sync, got.Seal)
			}
		})
	}
}

// TestDrafts shows what a rune says of its origin: who, when, because of what,
// from which job; and that only the rune of the message itself names the job.
func TestDrafts(t *testing.T) {
	w := begin(t, running).World
	job, _ := w.JobAt(callA)
	got, err := w.Step(Message{Path: callA, Command: tool.Succeed{}, By: "tool:bash", Job: job.ID, AtMs: 7})
	if err != nil {
		t.Fatal(err)
	}
	seq := w.seq + 1
	var lines []string
	for _, r := range got.Runes {
		lines = append(lines, fmt.Sprintf("%d %s %s %s %d %q %d", r.Seq-seq, r.Log, r.Kind, r.By, r.TSMs, r.Job, max(r.Cause, seq)-seq))
	}
	want := []string{
		`0 conv_1 tool.result tool:bash 7 "agent:root/turn:1/tool:a#1" 0`,
		`1 conv_1 turn.tools_finished engine 7 "" 0`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Runes[1].Cause != seq {
		t.Errorf("the second is because of %d, not %d", got.Runes[1].Cause, seq)
	}
}

func TestVisibility(t *testing.T) {
	w := begin(t, talking).World
	retried := change(t, w, turn1, turn.Fail{Type: "overloaded", Retryable: true}).Runes[0]
	delta := change(t, w, turn1, turn.Delta{Text: "x"}).Runes[0]
	if retried.Visibility != runelog.Internal || delta.Visibility != runelog.Public {
		t.Errorf("retried is %s, a delta %s", retried.Visibility, delta.Visibility)
	}
}

// TestChangeTells shows what a change lets the engine know before it is made.
func TestChangeTells(t *testing.T) {
	w := begin(t, asked).World
	c := change(t, w, callA, tool.Approve{})
	approved := c.Touched() // the call runs, and is counted for its agent and the session
	slices.Sort(approved)
	if !slices.Equal(approved, []Path{RootPath, callA, SessionPath}) {
		t.Errorf("touched %v", approved)
	}
	if got := c.Meta(1, 2).WaitsFor; got != "work" {
		t.Errorf("then it waits for %q", got)
	}
	if got := w.Meta(1, 2).WaitsFor; got != "person" {
		t.Errorf("now it waits for %q", got)
	}
	ended := change(t, w, callA, tool.Deny{}).Touched()
	slices.Sort(ended)
	if !slices.Equal(ended, []Path{turn1, callA}) {
		t.Errorf("a denial touches %v", ended)
	}
}

// TestNobodySignsForAnother shows that an answer is recorded as its sender's.
func TestNobodySignsForAnother(t *testing.T) {
	r := change(t, begin(t, asked).World, callA, tool.Approve{By: "user:boss"}).Runes[0]
	if r.By != "user:ann" || !strings.Contains(string(r.Payload), `"approver":"user:ann"`) {
		t.Errorf("by %s: %s", r.By, r.Payload)
	}
}

// TestCascadeIsBounded shows that wires which chase each other end in an error,
// not in a program that never answers.
func TestCascadeIsBounded(t *testing.T) {
	w, plain := begin(t, talking).World, wires
	wires = byKind([]wire{on[turn.AssistantDelta, turn.Delta]("itself, for ever", func(_ *World, at Path, _ turn.AssistantDelta) []letter {
		return to(at, turn.Delta{Text: "echo"})
	})})
	t.Cleanup(func() { wires = plain })
	if _, err := w.Step(Message{Path: turn1, Command: turn.Delta{Text: "hello"}}); err == nil || err.Error() != "one message set off more than 10000 others" {
		t.Errorf("got %v", err)
	}
}

func TestNoMachineThere(t *testing.T) {
	if _, err := begin(t, ready).Step(Message{Path: "plan:1", Command: session.Say{}}); err == nil || err.Error() != `there is no machine at "plan:1"` {
		t.Errorf("got %v", err)
	}
}

// TestLoadRefuses shows that a snapshot that is not ours is not believed.
func TestLoadRefuses(t *testing.T) {
	good := string(save(t, begin(t, running).World))
	for _, c := range []struct{ name, old, now, want string }{
		{"torn", good, good[:len(good)/2], "reading snapshot"},
		{"another version", fmt.Sprintf(`"version":%d`, snapshotVersion), `"version":1`, `version 1 of log "conv_1"`},
		{"another log", `"log":"conv_1"`, `"log":"conv_2"`, `of log "conv_2"`},
		{"another machine", `"path":"session"`, `"path":"plan"`, `no machine at "plan"`},
		{"an unknown state", `"state":"executing"`, `"state":"dreaming"`, `restoring tool: no state "dreaming"`},
		{"other data", `"data":{"attempt":1,`, `"data":{"attempt":"one",`, "restoring tool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := strings.Replace(good, c.old, c.now, 1)
			_, err := Load(testLog, []byte(bad))
			if bad == good || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s… (changed: %t)", err, c.want, bad != good)
			}
		})
	}
}

// TestView shows the present as people see it.
func TestView(t *testing.T) {
	w := begin(t, `session create mode=ask
root become_ready
session say text=hi
session say text=later
turn receive_tool_calls calls="a:read b:post"`).World
	v := w.View()
	var places []string
	for _, p := range v.Machines {
		places = append(places, strings.TrimSpace(fmt.Sprintf("%s %s %s %v %s", p.Path, p.State, p.Mode, p.Possible, p.Detail)))
	}
	want := []string{
		`agent:root running_turn await []`,
		`agent:root/turn:1 tool_executing await [interrupt] hi`,
		`agent:root/turn:1/tool:a executing work [] read {"of":"a"}`,
		`agent:root/turn:1/tool:b awaiting_approval ask [approve reply deny defer] post {"of":"b"}`,
		`session active rest [say set_budget switch_model rewind pause close stop]`,
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	got := fmt.Sprintf("%s %s %s %s %v %d %v", v.Log, v.State, v.Title, v.Mode, v.Possible, len(v.Waiting), v.Jobs)
	if want := "conv_1 active a story ask [say set_budget switch_model rewind pause close stop] 1 [{agent:root/turn:1/tool:a#1 agent:root/turn:1/tool:a run_tool}]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(v.Questions) != 1 || v.Questions[0].ID != "b" || v.Questions[0].Kind != "may_run" || v.Questions[0].DeadlineMs != 0 {
		t.Errorf("questions %+v", v.Questions)
	}
	if empty := New(testLog).View(); empty.State != "" || len(empty.Machines) != 0 || empty.Possible != nil {
		t.Errorf("before the first rune: %+v", empty)
	}
}

// TestQuestionsHaveNoJob shows that JobAt and QuestionAt tell apart what a job
// and what a person moves on, and what nobody has to.
func TestQuestionsHaveNoJob(t *testing.T) {
	w := begin(t, asked).World
	_, job := w.JobAt(callA)
	_, question := w.QuestionAt(callA)
	_, resting := w.QuestionAt(SessionPath)
	_, nowhere := w.JobAt("agent:nobody")
	if job || !question || resting || nowhere {
		t.Errorf("job %t, question %t, resting %t, nowhere %t", job, question, resting, nowhere)
	}
}

// TestRecoveryIsSilentAtRest shows that a restart with nothing under way writes
// nothing, and that an open question is no loss while somebody may answer.
func TestRecoveryIsSilentAtRest(t *testing.T) {
	for _, c := range []struct {
		story          string
		attended, bare bool // is there something to record
	}{
		{ready, false, false},
		{talking, true, true},
		{asked, false, true},
		{running, true, true},
		{ready + "session close", false, false},
	} {
		w := begin(t, c.story).World
		_, attended := w.Recovery(false)
		_, bare := w.Recovery(true)
		if attended != c.attended || bare != c.bare {
			t.Errorf("%q: attended %t, headless %t", c.story, attended, bare)
		}
	}
}

func TestAgentOf(t *testing.T) {
	for p, want := range map[Path]Path{RootPath: RootPath, turn1: RootPath, callA: RootPath, SessionPath: "", "": ""} {
		if got := AgentOf(p); got != want {
			t.Errorf("%s belongs to %q", p, got)
		}
	}
}
