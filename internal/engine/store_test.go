package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/runelog"
	"stave/internal/runelog/memory"
	"stave/internal/world"
)

// failing is a store whose n-th append fails.
type failing struct {
	runelog.Log
	left atomic.Int64
	err  error
}

func (f *failing) Append(ctx context.Context, b runelog.Batch) error {
	if f.left.Add(-1) == 0 {
		return f.err
	}
	return f.Log.Append(ctx, b)
}

func TestFailedWriteAtEveryAppend(t *testing.T) {
	// Whichever append fails, what was acknowledged stays, nothing half-happens, and the next engine goes on.
	full := errors.New("no space left on device")
	for n := int64(1); ; n++ {
		inner := memory.New()
		store := &failing{Log: inner, err: full}
		store.left.Store(n)
		r := newRig(t, store, twoTools)
		log, err := r.Begin(t.Context(), engine.Begin{Text: "hello", By: "user:t", Config: session.Config{Mode: "yolo", Dir: r.dir, Model: "script"}})
		if err == nil {
			_, err = r.Settle(t.Context(), log)
		}
		if store.left.Load() > 0 {
			if err != nil {
				t.Fatalf("without a fault: %v", err)
			}
			return
		}
		if err != nil && !errors.Is(err, full) {
			t.Fatalf("append %d: %v", n, err)
		}
		r.shutDown(time.Millisecond)
		if log == "" {
			continue // it never began
		}
		again := newRig(t, inner, twoTools)
		again.dir = r.dir
		if err := again.Resume(t.Context(), log, true); err != nil {
			t.Fatalf("append %d: resuming: %v", n, err)
		}
		again.settle(log)
		if kinds := again.kinds(log); count(kinds, "turn.completed") != count(kinds, "session.message_received") {
			t.Errorf("append %d: %v", n, kinds)
		}
		if runs := strings.Count(again.ledger(), "hi"); runs > 1 {
			t.Errorf("append %d: a side effect ran %d times", n, runs)
		}
	}
}

func TestForeignWriterIsFenced(t *testing.T) {
	// Once another engine holds the lease, the first can write nothing more.
	store := memory.New()
	first := newRig(t, store, `{replies: [{text: "a"}, {text: "b"}, {text: "c"}]}`)
	log := first.begin("one", "yolo")
	first.settle(log)
	second := newRig(t, store, `{replies: [{text: "a"}, {text: "b"}, {text: "c"}]}`)
	if err := second.Say(t.Context(), log, session.Say{Text: "two"}, "user:t"); err != nil {
		t.Fatal(err)
	}
	second.settle(log)
	if err := first.Say(t.Context(), log, session.Say{Text: "stale"}, "user:t"); !errors.Is(err, runelog.ErrConflict) {
		t.Errorf("the stale writer got %v", err)
	}
	for range 100 { // the broken actor leaves; then the log opens anew
		if err := first.Say(t.Context(), log, session.Say{Text: "three"}, "user:t"); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	first.settle(log)
	if got := count(first.kinds(log), "turn.completed"); got != 3 {
		t.Errorf("%d turns completed", got)
	}
}

func TestUnknownKindIsReadOnly(t *testing.T) {
	store := memory.New()
	r := newRig(t, store, twoTools)
	log := r.begin("one", "yolo")
	r.settle(log)
	r.shutDown(patience)
	head, err := store.Lease(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	chain := runelog.NewChain(log, head)
	stamped, err := chain.Stamp([]runelog.Rune{{Path: "session", Kind: "session.teleported", From: "active", To: "mars", Visibility: runelog.Public, By: "x", Payload: []byte("{}")}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := store.Meta(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Append(t.Context(), runelog.Batch{Log: log, After: head.Seq, Epoch: head.Epoch, Runes: stamped, Meta: meta, Sync: true}); err != nil {
		t.Fatal(err)
	}
	again := newRig(t, store, twoTools)
	err = again.Say(t.Context(), log, session.Say{Text: "two"}, "user:t")
	if !errors.Is(err, world.ErrUnknownKind) || !strings.Contains(err.Error(), "session.teleported") {
		t.Errorf("err = %v", err)
	}
	if after, _ := store.Head(t.Context(), log); after.Seq != head.Seq+1 {
		t.Error("something was written after an unknown kind")
	}
}

func TestIdleLogsLeaveMemory(t *testing.T) {
	// Many conversations, few in memory, no goroutine for those at rest; each comes back on demand.
	conversations := 300
	if testing.Short() {
		conversations = 50
	}
	store := memory.New()
	r := newRig(t, store, `{replies: [{text: "a"}, {text: "b"}]}`, func(o *engine.Options) {
		o.MaxLive, o.IdleAfter = 8, 20*time.Millisecond
	})
	before := runtime.NumGoroutine()
	logs := make([]string, conversations)
	for i := range logs {
		logs[i] = r.begin(fmt.Sprintf("number %d", i), "yolo")
		r.settle(logs[i])
	}
	deadline := time.Now().Add(patience)
	for r.Live() > 0 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if live, grown := r.Live(), runtime.NumGoroutine()-before; live > 0 || grown > 4 {
		t.Errorf("%d logs in memory, %d more goroutines", live, grown)
	}
	if err := r.Say(t.Context(), logs[7], session.Say{Text: "again"}, "user:t"); err != nil {
		t.Fatal(err)
	}
	if v := r.settle(logs[7]); v.Stats.Turns != 2 {
		t.Errorf("turns = %d", v.Stats.Turns)
	}
}

func TestSnapshotsBoundReplay(t *testing.T) {
	// A log with snapshots opens from the newest, a damaged world in it is ignored, and verify compares both.
	store := memory.New()
	text := "replies:\n- {text: a, times: 50}\n"
	r := newRig(t, store, text, func(o *engine.Options) { o.SnapshotEvery = 10 })
	log := r.begin("one", "yolo")
	r.settle(log)
	for range 5 {
		if err := r.Say(t.Context(), log, session.Say{Text: "more"}, "user:t"); err != nil {
			t.Fatal(err)
		}
		r.settle(log)
	}
	r.kinds(log)
	snap, ok, err := store.Snapshot(t.Context(), log, 0)
	if err != nil || !ok || snap.Seq < 10 {
		t.Fatalf("snapshot = %+v %v %v", snap.Seq, ok, err)
	}
	r.shutDown(patience)
	snap.Data = []byte(strings.Replace(string(snap.Data), `"turns":`, `"turns":9`, 1))
	if err := store.SaveSnapshot(t.Context(), log, snap); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Verify(t.Context(), store, log); !errors.Is(err, runelog.ErrCorrupt) {
		t.Errorf("verify of a lying snapshot = %v", err)
	}
}

func TestManyWritersOneLog(t *testing.T) {
	// Messages from many senders are each taken exactly once, in some order.
	r := newRig(t, memory.New(), "replies:\n- {text: a, times: 200}\n")
	log := r.begin("first", "yolo")
	const senders, each = 8, 10
	errs := make(chan error, senders*each)
	for range senders {
		go func() {
			for range each {
				errs <- r.Say(t.Context(), log, session.Say{Text: "x"}, "user:t")
			}
		}()
	}
	for range senders * each {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if v := r.settle(log); v.Stats.Turns != senders*each+1 {
		t.Errorf("turns = %d", v.Stats.Turns)
	}
	r.kinds(log)
}

func TestSettleAfterFailedWrite(t *testing.T) {
	full := errors.New("no space left on device")
	inner := memory.New()
	store := &failing{Log: inner, err: full}
	store.left.Store(4)
	r := newRig(t, store, twoTools)
	log, err := r.Begin(t.Context(), engine.Begin{Text: "hello", By: "user:t", Config: session.Config{Mode: "yolo", Dir: r.dir, Model: "script"}})
	if err != nil {
		t.Fatal(err)
	}
	for r.Live() > 0 { // the failing write is in a job, and its actor leaves
		time.Sleep(time.Millisecond)
	}
	v, err := r.Settle(t.Context(), log)
	t.Logf("jobs due %v, err %v", v.Jobs, err)
	if !errors.Is(err, full) {
		t.Error("a failed write was not told")
	}
}
