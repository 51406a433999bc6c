package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	run "stave/internal/machine/workflow"
	"stave/internal/runelog"
	"stave/internal/runelog/memory"
	"stave/internal/workflow"
	"stave/internal/world"
)

var errDead = errors.New("the process is dead")

// mortal is a store whose process dies at one of its batches: nothing is written
// from then on. Behind means that the batch itself is still durable, but nobody
// lived to hear so and to act on it.
type mortal struct {
	runelog.Log
	at     int64
	behind bool
	count  atomic.Int64
	ends   []int64 // batches with the result of a call
}

func (m *mortal) Append(ctx context.Context, b runelog.Batch) error {
	n := m.count.Add(1)
	if slices.ContainsFunc(b.Runes, func(r runelog.Rune) bool { return r.Kind == "tool.result" }) {
		m.ends = append(m.ends, n)
	}
	if n < m.at || n == m.at && m.behind {
		if err := m.Log.Append(ctx, b); err != nil || n < m.at {
			return err
		}
	}
	return errDead
}

// SaveSnapshot is a write of the same process.
func (m *mortal) SaveSnapshot(ctx context.Context, log string, s runelog.Snapshot) error {
	if m.count.Load() >= m.at {
		return errDead
	}
	return m.Log.SaveSnapshot(ctx, log, s)
}

// play is a workflow, how the model plays it, and what it must come to.
type play struct {
	name    string
	def     workflow.Definition
	script  string
	files   map[string]string // before it
	effects string            // lines of the ledger after it, in any order
	after   map[string]string // files after it
}

const retryFlow = `
id: again
stages:
  - id: Try
    allowedTools: [Bash, Edit]
    completionTool: tried
    completionSchema: {type: object, required: [good], properties: {good: {type: boolean}}}
    turnCap: 9
    retryPolicy: {maxAttempts: 3, backoff: fixed, delay: 1ms}
    assert: result.output.good
    body: "TRY number {{ctx.attempt}} because {{ctx.reason}}"
    next: Tell
  - id: Tell
    allowedTools: []
    completionTool: told
    completionSchema: {type: object}
    turnCap: 9
    body: "TELL {{ctx.upstream}}"
`

const retryScript = `
scenes:
  - system: TRY number 1
    replies:
      - calls: [{tool: Bash, args: {command: "echo first >> ledger"}}]
      - calls: [{tool: tried, args: {good: false}}]
  - system: TRY number 2
    replies:
      - calls: [{tool: Edit, args: {path: a.txt, old_string: o, new_string: oo, replace_all: true}}]
      - text: I forgot to hand in.
      - calls: [{tool: tried, args: {good: many}}]
      - calls: [{tool: tried, args: {good: false}}]
  - system: TRY number 3
    replies:
      - calls: [{tool: Bash, args: {command: "echo third >> ledger"}}, {tool: tried, args: {good: true}}]
  - system: TELL
    replies:
      - calls: [{tool: told, args: {done: true}}]
`

func plays(t *testing.T) []play {
	t.Helper()
	return []play{
		{
			name: "seed", def: codeReview(t), script: seedScript,
			files: map[string]string{"auth.go": "func Login() {}\n"}, after: map[string]string{"auth.go": "func SignIn() {}\n"},
		},
		{
			name: "parallel", def: define(t, strings.Replace(fan, "id: Lint\n    allowedTools: []", "id: Lint\n    allowedTools: [Bash]", 1)),
			script: `
scenes:
  - {system: SPLIT, replies: [{calls: [{tool: split, args: {}}]}]}
  - system: TEST
    replies:
      - calls: [{tool: Bash, args: {command: "echo test >> ledger"}}]
      - calls: [{tool: tested, args: {passed: 7}}]
  - system: LINT
    replies:
      - calls: [{tool: Bash, args: {command: "echo lint >> ledger"}}]
      - calls: [{tool: linted, args: {ok: true}}]
  - {system: REVIEW, replies: [{calls: [{tool: reviewed, args: {good: true}}]}]}
`,
			effects: "lint test",
		},
		{
			name: "retry", def: define(t, retryFlow), script: retryScript,
			files: map[string]string{"a.txt": "o\n"}, after: map[string]string{"a.txt": "oo\n"}, effects: "first third",
		},
	}
}

// TestRunDiesAtEveryBatch shows that a run whose process dies right behind any of
// its batches, or right before the result of a call is durable, comes to the same
// end with the same results, and that what its stages did is done once.
func TestRunDiesAtEveryBatch(t *testing.T) {
	for _, p := range plays(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			whole := p.live(t, 0, false)
			same := func(at int64, behind bool) bool {
				got := p.live(t, at, behind)
				if diff := cmp.Diff(whole.results, got.results); diff != "" {
					t.Fatalf("died at batch %d, behind it: %t: the results are others (-whole +died):\n%s", at, behind, diff)
				}
				return got.died
			}
			for _, at := range whole.ends {
				same(at, false)
			}
			n := int64(1)
			for same(n, true) {
				n++
			}
			if n < 30 || len(whole.ends) < 4 {
				t.Errorf("the run has only %d batches, %d of them with results", n, len(whole.ends))
			}
		})
	}
}

// life is what became of one run.
type life struct {
	died    bool
	ends    []int64 // batches of the first process with the result of a call
	results map[string]run.Result
}

// live plays a run whose process dies at a batch, and the one that recovers early
// on as well, lets a third go on, and checks what is left. Batch 0 is never.
func (p play) live(t *testing.T, at int64, behind bool) life {
	t.Helper()
	const early = 4
	inner := memory.New()
	deaths := []*mortal{{Log: inner, at: at, behind: behind}, {Log: inner, at: 1 + at%early, behind: at/early%2 == 0}, {Log: inner}}
	var r *rig
	log, died := "", false
	for i, store := range deaths {
		if store.at == 0 {
			store.at = math.MaxInt64
		}
		next := newRig(t, store, p.script)
		if r != nil {
			next.dir = r.dir
		}
		r = next
		if i == 0 {
			for name, text := range p.files {
				r.write(name, text)
			}
		}
		err := p.goOn(r, &log)
		dead := store.count.Load() >= store.at
		if err != nil && (!dead || !errors.Is(err, errDead)) {
			t.Fatalf("batch %d, behind it: %t, process %d: %v", at, behind, i+1, err)
		}
		r.shutDown(time.Millisecond)
		if died = died || dead; !dead {
			break
		}
	}
	l := life{died, deaths[0].ends, p.outcome(t, r, log)}
	if t.Failed() {
		t.Fatalf("died at batch %d, behind it: %t\n%s", at, behind, strings.Join(r.kinds(log), "\n"))
	}
	return l
}

// goOn does what a person does, at first and after a crash: begin a conversation,
// start the run, or resume it.
func (p play) goOn(r *rig, log *string) error {
	for m, err := range r.log.List(r.t.Context()) {
		if err != nil || *log != "" && m.Log != *log {
			return fmt.Errorf("there is the log %s, and the conversation is %s: %w", m.Log, *log, err)
		}
		*log = m.Log
	}
	var err error
	if *log == "" {
		*log, err = r.Begin(r.t.Context(), engine.Begin{By: "user:t", Config: session.Config{Mode: "yolo", Dir: r.dir, Model: "script"}})
		if err != nil {
			*log = ""
			return err
		}
	}
	if r.payload(*log, "workflow.started") == "" {
		_, err = r.StartRun(r.t.Context(), *log, engine.Run{Definition: p.def, Task: "x", By: "user:t"})
	} else {
		err = r.Resume(r.t.Context(), *log, false)
	}
	if err != nil {
		return err
	}
	return r.seeThrough(*log)
}

// seeThrough answers what a run asks until it rests: no call outside of a stage
// is allowed, and about a lost one the ledger tells.
func (r *rig) seeThrough(log string) error {
	const most = 20
	for range most {
		ctx, cancel := context.WithTimeout(r.t.Context(), patience)
		v, err := r.Settle(ctx, log)
		cancel()
		if err != nil || len(v.Questions) == 0 {
			return err
		}
		if err := r.decide(v.Questions[0]); err != nil {
			return err
		}
	}
	return fmt.Errorf("it asks more than %d times", most)
}

func (r *rig) decide(q world.Question) error {
	c := engine.Choice{Question: q.ID, Choice: "deny", By: "user:t"}
	if lost, ok := q.Ask.(tool.WhatHappened); ok {
		c.Choice = "retry"
		line := between(string(lost.Call.Arguments), "echo ", " ")
		if line != "" && strings.Contains(r.ledger(), line) {
			c.Choice = "happened"
		}
	}
	_, err := r.Answer(r.t.Context(), c)
	return err
}

// outcome checks what a run left behind and returns its results.
func (p play) outcome(t *testing.T, r *rig, log string) map[string]run.Result {
	t.Helper()
	kinds := r.kinds(log) // which verifies
	for _, kind := range []string{"workflow.started", "workflow.completed", "session.run_ended"} {
		if n := count(kinds, kind); n != 1 {
			t.Errorf("%d × %s", n, kind)
		}
	}
	if begun, done := count(kinds, "stage.begun"), count(kinds, "stage.exited"); begun != done || begun != len(p.def.Stages) {
		t.Errorf("%d stages began, %d ended", begun, done)
	}
	if got := strings.Join(slices.Sorted(slices.Values(strings.Fields(r.ledger()))), " "); got != p.effects {
		t.Errorf("the ledger has %q, want %q", got, p.effects)
	}
	for name, want := range p.after {
		if got, err := os.ReadFile(filepath.Join(r.dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
	var end run.Completed
	if err := json.Unmarshal([]byte(r.payload(log, "workflow.completed")), &end); err != nil {
		t.Error(err)
	}
	results := map[string]run.Result{} // stages side by side end in any order
	for _, s := range end.Results {
		results[s.Stage] = s
	}
	return results
}
