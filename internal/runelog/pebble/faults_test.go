package pebble

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/go-json-experiment/json/jsontext"

	"stave/internal/conformance"
	"stave/internal/runelog"
)

const memDir = "/home/data"

// openMem opens a store on a file system in memory.
func openMem(fs vfs.FS) (*Store, error) {
	if err := makeDir(fs, memDir); err != nil {
		return nil, err
	}
	return open(memDir, fs)
}

// history is what a store acknowledged, by log.
type history struct {
	mu      sync.Mutex
	durable map[string][]runelog.Rune // must survive anything
	sent    map[string][]runelog.Rune // may survive
}

func newHistory() *history {
	return &history{durable: map[string][]runelog.Rune{}, sent: map[string][]runelog.Rune{}}
}

func (h *history) send(log string, runes []runelog.Rune) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent[log] = append(h.sent[log], runes...)
}

func (h *history) acknowledge(log string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.durable[log] = append([]runelog.Rune(nil), h.sent[log]...)
}

func (h *history) copy() *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := newHistory()
	for log, runes := range h.durable {
		c.durable[log] = append([]runelog.Rune(nil), runes...)
	}
	for log, runes := range h.sent {
		c.sent[log] = append([]runelog.Rune(nil), runes...)
	}
	return c
}

// check demands that the store holds, of each log, all that is durable, nothing
// that was never sent, and whole batches only (each ends with tag "end").
func (h *history) check(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	for log, want := range h.durable {
		head, err := s.Head(ctx, log)
		if err != nil {
			t.Fatalf("%s: %d acknowledged runes, but head: %v", log, len(want), err)
		}
		if head.Seq < uint64(len(want)) {
			t.Fatalf("%s ends at %d, %d were acknowledged", log, head.Seq, len(want))
		}
	}
	for log, sent := range h.sent {
		head, err := s.Head(ctx, log)
		if errors.Is(err, runelog.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", log, err)
		}
		if meta, err := s.Meta(ctx, log); err != nil || meta.Seq != head.Seq {
			t.Fatalf("%s: meta %+v, %v; head %d", log, meta, err, head.Seq)
		} else if meta.Archived {
			if err := s.Restore(ctx, log); err != nil {
				t.Fatalf("restore %s: %v", log, err)
			}
		}
		got := conformance.ReadAll(t, s, log, 0)
		if uint64(len(got)) != head.Seq || len(got) > len(sent) {
			t.Fatalf("%s: %d runes, head %d, %d sent", log, len(got), head.Seq, len(sent))
		}
		for i := range got {
			if got[i].Hash() != sent[i].Hash() {
				t.Fatalf("%s, seq %d is not what was sent", log, i+1)
			}
		}
		if n := len(got); n > 0 && got[n-1].Tags[0] != "end" {
			t.Fatalf("%s ends inside a batch at seq %d", log, n)
		}
	}
	for _, err := range s.List(ctx) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
	}
}

// session does everything a store can do and stops at the first error.
type session struct {
	store *Store
	log   string
	chain *runelog.Chain
	h     *history
}

func newSession(s *Store, log string, h *history) (*session, error) {
	head, err := s.Lease(context.Background(), log)
	return &session{store: s, log: log, chain: runelog.NewChain(log, head), h: h}, err
}

func (w *session) append(sync, seal bool, drafts ...runelog.Rune) error {
	ctx := context.Background()
	for i := range drafts {
		drafts[i].Tags = []string{"inside"}
	}
	drafts[len(drafts)-1].Tags = []string{"end"}
	ready, err := runelog.Offload(ctx, w.store, drafts)
	if err != nil {
		return err
	}
	head := w.chain.Head()
	runes, err := w.chain.Stamp(ready, 1)
	if err != nil {
		return err
	}
	w.h.send(w.log, runes)
	err = w.store.Append(ctx, runelog.Batch{
		Log: w.log, After: head.Seq, Epoch: head.Epoch, Runes: runes, Sync: sync, Seal: seal, Meta: runelog.Meta{Kind: "session"},
	})
	if err != nil {
		return err
	}
	w.chain.Advance(runes)
	if sync {
		w.h.acknowledge(w.log)
	}
	return nil
}

// flush makes Pebble write a table, as a full memtable would.
func (w *session) flush() error {
	flushed, err := w.store.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-w.store.breaker.broken:
		return w.store.breaker.check()
	}
}

func (w *session) snapshot() error {
	head := w.chain.Head()
	return w.store.SaveSnapshot(context.Background(), w.log, runelog.Snapshot{Seq: head.Seq, Hash: head.Hash, Data: []byte("state")})
}

func largeDraft() runelog.Rune {
	d := conformance.Draft(1)
	d.Payload = jsontext.Value(`{"text":"` + strings.Repeat("x", runelog.MaxInline) + `"}`)
	return d
}

func (w *session) run() error {
	ctx := context.Background()
	steps := []func() error{
		func() error { return w.append(true, false, conformance.Drafts(2)...) },
		func() error { return w.append(false, false, conformance.Drafts(3)...) },
		w.snapshot,
		func() error { return w.append(true, false, largeDraft()) },
		w.flush,
		func() error { return w.append(false, false, conformance.Drafts(1)...) },
		func() error { return w.append(true, false, conformance.Drafts(5)...) },
		w.flush,
		func() error { return w.append(true, true, conformance.Drafts(1)...) },
		func() error { return w.store.Archive(ctx, w.log) },
		func() error { return w.store.Restore(ctx, w.log) },
		w.flush,
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// within fails the test when do hangs.
func within(t *testing.T, limit time.Duration, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s hangs", what)
	}
}

var errInjected = syscall.EIO

// failAt fails the n-th operation of the given kinds, once.
func failAt(n int64, fired *atomic.Bool, kinds ...errorfs.OpKind) errorfs.Injector {
	var count atomic.Int64
	return errorfs.InjectorFunc(func(op errorfs.Op) error {
		for _, kind := range kinds {
			if op.Kind == kind && count.Add(1) == n {
				fired.Store(true)
				return errInjected
			}
		}
		return nil
	})
}

// Each write, sync, rename and create of a session fails once. Whatever was
// acknowledged before is there after a power cut, in whole batches, and after the
// failure nothing hangs.
func TestFailureAtEveryOperation(t *testing.T) {
	for name, kinds := range map[string][]errorfs.OpKind{
		"write":  {errorfs.OpFileWrite, errorfs.OpFileWriteAt},
		"sync":   {errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo},
		"rename": {errorfs.OpRename},
		"create": {errorfs.OpCreate, errorfs.OpReuseForWrite, errorfs.OpOpenDir, errorfs.OpMkdirAll},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := int64(1); ; n++ {
				if !failOnce(t, n, kinds) {
					if n < 3 {
						t.Fatalf("only %d operations", n)
					}
					t.Logf("%d operations", n-1)
					return
				}
			}
		})
	}
}

func failOnce(t *testing.T, n int64, kinds []errorfs.OpKind) (fired bool) {
	disk := vfs.NewCrashableMem()
	var hit atomic.Bool
	h := newHistory()
	within(t, 20*time.Second, fmt.Sprintf("operation %d", n), func() {
		s, err := openMem(errorfs.Wrap(disk, failAt(n, &hit, kinds...)))
		if err != nil {
			return // the failure came early, and there is nothing to lose
		}
		w, err := newSession(s, "conv_1", h)
		if err == nil {
			err = w.run()
		}
		if err == nil && hit.Load() {
			// It hit something harmless, or in the background.
			_ = w.append(true, false, conformance.Drafts(1)...)
		}
		if s.breaker.check() != nil {
			if _, err := s.Lease(context.Background(), "conv_2"); !errors.Is(err, runelog.ErrReadOnly) {
				t.Errorf("operation %d: a broken store took a lease: %v", n, err)
			}
			h.copy().checkReadable(t, s)
		}
		_ = s.Close()
	})
	random := rand.New(rand.NewPCG(uint64(n), 1))
	for _, percent := range []int{0, 50, 100} {
		after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random})
		s, err := openMem(after)
		if err != nil {
			t.Fatalf("operation %d, %d %% of unsynced data kept: reopen: %v", n, percent, err)
		}
		h.check(t, s)
		again, err := newSession(s, "conv_2", h.copy())
		if err == nil {
			err = again.run()
		}
		if err != nil {
			t.Fatalf("operation %d: a new session after reopening: %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("operation %d: close: %v", n, err)
		}
	}
	return hit.Load()
}

// checkReadable demands that a broken store still shows what it acknowledged,
// and nothing else.
func (h *history) checkReadable(t *testing.T, s *Store) {
	t.Helper()
	for log, want := range h.durable {
		if meta, err := s.Meta(context.Background(), log); err != nil || meta.Archived {
			continue
		}
		got := conformance.ReadAll(t, s, log, 0)
		if len(got) < len(want) {
			t.Errorf("%s: %d runes readable of a broken store, %d were acknowledged", log, len(got), len(want))
		}
	}
}

// Many writers meet a failing disk at the same time: all of them hear of it.
func TestFailureUnderLoad(t *testing.T) {
	for n := int64(1); n <= 40; n++ {
		disk := vfs.NewCrashableMem()
		var hit atomic.Bool
		h := newHistory()
		s, err := openMem(disk)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		within(t, 20*time.Second, fmt.Sprintf("write or sync %d", n), func() {
			s, err := openMem(errorfs.Wrap(disk, failAt(8+n, &hit, errorfs.OpFileWrite, errorfs.OpFileSyncData)))
			if err != nil {
				return
			}
			var group sync.WaitGroup
			for i := range 16 {
				group.Go(func() {
					w, err := newSession(s, fmt.Sprintf("conv_%d", i), h)
					for range 10 {
						if err == nil {
							err = w.append(true, false, conformance.Drafts(2)...)
						}
					}
					if err != nil && !errors.Is(err, runelog.ErrReadOnly) {
						t.Errorf("writer: %v, want ErrReadOnly", err)
					}
				})
			}
			group.Wait()
			_ = s.Close()
		})
		if s, err = openMem(disk.CrashClone(vfs.CrashCloneCfg{})); err != nil {
			t.Fatal(err)
		}
		h.check(t, s)
		s.Close()
	}
}

// A full disk is named, with the file and what happened.
func TestDiskFull(t *testing.T) {
	disk := vfs.NewMem()
	var full atomic.Bool
	s, err := openMem(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpFileWrite {
			return syscall.ENOSPC
		}
		return nil
	})))
	if err != nil {
		t.Fatal(err)
	}
	w, err := newSession(s, "conv_1", newHistory())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.append(true, false, conformance.Drafts(1)...); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	err = w.append(true, false, conformance.Drafts(1)...)
	if !errors.Is(err, runelog.ErrReadOnly) || !errors.Is(err, syscall.ENOSPC) ||
		!strings.Contains(err.Error(), "conv_1") || !strings.Contains(err.Error(), memDir+"/store/") {
		t.Errorf("append to a full disk: %v; want the log, the file and the reason", err)
	}
	if _, err := s.PutBlob(context.Background(), strings.NewReader("x")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("blob on a full disk: %v", err)
	}
	full.Store(false)
	if err := w.append(true, false, conformance.Drafts(1)...); !errors.Is(err, runelog.ErrReadOnly) {
		t.Errorf("a failed store took another write: %v", err)
	}
	if n := len(conformance.ReadAll(t, s, "conv_1", 0)); n != 1 {
		t.Errorf("%d runes readable, want the 1 acknowledged", n)
	}
	s.Close()
	if s, err = openMem(disk); err != nil {
		t.Fatalf("reopen: %v", err)
	}
	defer s.Close()
	if w, err = newSession(s, "conv_1", newHistory()); err == nil {
		err = w.append(true, false, conformance.Drafts(1)...)
	}
	if err != nil {
		t.Errorf("append after space came back: %v", err)
	}
}

// Power cuts at any moment of a busy store lose nothing that was acknowledged.
func TestPowerCut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 30 {
		disk := vfs.NewCrashableMem()
		s, err := openMem(disk)
		if err != nil {
			t.Fatal(err)
		}
		h := newHistory()
		stop := make(chan struct{})
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				w, err := newSession(s, fmt.Sprintf("conv_%d", i), h)
				for n := 0; err == nil; n++ {
					select {
					case <-stop:
						return
					default:
					}
					if err = w.append(n%3 != 0, false, conformance.Drafts(n%4+1)...); n%20 == 19 && err == nil {
						err = w.flush()
					}
				}
				t.Errorf("writer: %v", err)
			})
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		acknowledged := h.copy() // before the cut, so it must survive
		after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: round % 3 * 50, RNG: random})
		close(stop)
		group.Wait()
		acknowledged.sent = h.copy().sent
		s.Close()
		if s, err = openMem(after); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		acknowledged.check(t, s)
		s.Close()
	}
}

// A process that is killed loses no more than the last moments of unsynced runes.
func TestLazySync(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s, err := openMem(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := newHistory()
	w, err := newSession(s, "conv_1", h)
	if err == nil {
		err = w.append(false, false, conformance.Drafts(2)...)
	}
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(50 * lazySync); ; {
		after, err := openMem(disk.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatal(err)
		}
		head, err := after.Head(context.Background(), "conv_1")
		after.Close()
		if err == nil && head.Seq == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still not durable: %v", err)
		}
		time.Sleep(lazySync / 10)
	}
}
