package pebble

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json/jsontext"

	"stave/internal/conformance"
	"stave/internal/runelog"
)

const memDir = "/disk/data"

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
