package conformance

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/runelog"
)

// Each lease takes the log from the writer before.
func testLease(t *testing.T, s suite) {
	l := s.new(t)
	first := NewWriter(t, l, "conv_1")
	if got, want := first.Chain.Head(), (runelog.Head{Epoch: 1}); got != want {
		t.Fatalf("first lease: %+v, want %+v", got, want)
	}
	if metas := collect(t, l); len(metas) != 0 {
		t.Errorf("a log without runes is listed: %+v", metas)
	}
	_, err := l.Head(t.Context(), "conv_1")
	wantErr(t, "head of a log without runes", err, runelog.ErrNotFound)
	first.Append(t, Drafts(3)...)

	second := NewWriter(t, l, "conv_1")
	head := second.Chain.Head()
	if head.Epoch != 2 || head.Seq != 3 || head.Hash != first.Chain.Head().Hash {
		t.Errorf("second lease: %+v, want epoch 2 and the end of the log", head)
	}
	wantErr(t, "append with a stale epoch", l.Append(t.Context(), first.Batch(t, Draft(1))), runelog.ErrConflict)
	second.Append(t, Draft(1))
	if got, err := l.Head(t.Context(), "conv_1"); err != nil || got != second.Chain.Head() {
		t.Errorf("head %+v, %v; want %+v", got, err, second.Chain.Head())
	}
}

// A batch is readable as it was stamped, and moves head and metadata.
func testAppend(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	var want []runelog.Rune
	for i := range 20 {
		b := w.Batch(t, Drafts(i%3+1)...)
		b.Sync = i%2 == 0
		want = append(want, w.Commit(t, b)...)
	}
	got := ReadAll(t, l, "conv_1", 0)
	wantSame(t, "read", got, want)
	for i := range got {
		if got[i].Hash() != want[i].Hash() || got[i].Seq != uint64(i+1) {
			t.Fatalf("rune %d: seq %d, hash %s, want %s", i, got[i].Seq, got[i].Hash(), want[i].Hash())
		}
		if diff := cmp.Diff(want[i], got[i], ignoreInternals); diff != "" {
			t.Fatalf("rune %d (-want +got):\n%s", i, diff)
		}
	}
	head, err := l.Head(t.Context(), "conv_1")
	if err != nil || head != w.Chain.Head() {
		t.Errorf("head %+v, %v; want %+v", head, err, w.Chain.Head())
	}
}

// Whatever does not continue the log is refused and changes nothing.
func testAppendRefused(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	w.Append(t, Drafts(3)...)
	good := func() runelog.Batch { return w.Batch(t, Drafts(2)...) }
	other := runelog.NewChain("conv_1", runelog.Head{Seq: 3, Hash: runelog.Hash{1}, Epoch: 1})
	forged, err := other.Stamp(Drafts(1), 1)
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		change func(*runelog.Batch)
		want   error
	}{
		{"after too low", func(b *runelog.Batch) { b.After-- }, runelog.ErrConflict},
		{"after too high", func(b *runelog.Batch) { b.After++ }, runelog.ErrConflict},
		{"epoch too low", func(b *runelog.Batch) { b.Epoch-- }, runelog.ErrConflict},
		{"epoch never leased", func(b *runelog.Batch) { b.Epoch++ }, runelog.ErrConflict},
		{"another previous hash", func(b *runelog.Batch) { b.Runes = forged }, runelog.ErrConflict},
		{"empty", func(b *runelog.Batch) { b.Runes = nil }, runelog.ErrInvalid},
		{"drafts", func(b *runelog.Batch) { b.Runes = []runelog.Rune{{Kind: "turn.started", Prev: b.Runes[0].Prev}} }, runelog.ErrInvalid},
		{"reordered", func(b *runelog.Batch) { b.Runes[0], b.Runes[1] = b.Runes[1], b.Runes[0] }, runelog.ErrConflict},
		{"repeated", func(b *runelog.Batch) { b.Runes[1] = b.Runes[0] }, runelog.ErrInvalid},
		{"never leased log", func(b *runelog.Batch) { b.Log = "conv_2" }, runelog.ErrConflict},
	}
	for _, c := range cases {
		b := good()
		c.change(&b)
		wantErr(t, c.name, l.Append(t.Context(), b), c.want)
	}
	NewWriter(t, l, "conv_2")
	b := good()
	b.Log, b.After, b.Epoch = "conv_2", 0, 1
	if err := l.Append(t.Context(), b); err == nil {
		t.Error("runes of one log were appended to another")
	}
	if n := len(ReadAll(t, l, "conv_1", 0)); n != 3 {
		t.Errorf("%d runes after refused appends, want 3", n)
	}
	w.Append(t, Draft(1))
}

// Of writers that race for the same seq with the same epoch one wins.
func testOneWinner(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	for round := range 10 {
		var wins atomic.Int32
		var group sync.WaitGroup
		batches := make([]runelog.Batch, 8)
		for i := range batches {
			batches[i] = w.Batch(t, Draft(i+1))
		}
		winner := make(chan []runelog.Rune, len(batches))
		for _, b := range batches {
			group.Go(func() {
				switch err := l.Append(t.Context(), b); {
				case err == nil:
					wins.Add(1)
					winner <- b.Runes
				case !errors.Is(err, runelog.ErrConflict):
					t.Errorf("loser: %v, want ErrConflict", err)
				}
			})
		}
		group.Wait()
		if wins.Load() != 1 {
			t.Fatalf("round %d: %d winners", round, wins.Load())
		}
		w.Chain.Advance(<-winner)
	}
	if n := len(ReadAll(t, l, "conv_1", 0)); n != 10 {
		t.Errorf("%d runes, want 10", n)
	}
}

// Writers of different logs do not disturb each other.
func testManyLogs(t *testing.T, s suite) {
	l := s.new(t)
	const logs, batches = 16, 8
	var group sync.WaitGroup
	for i := range logs {
		w := NewWriter(t, l, fmt.Sprintf("conv_%d", i))
		group.Go(func() {
			for j := range batches {
				b := w.Batch(t, Drafts(2)...)
				b.Sync = j%3 != 0
				if err := l.Append(t.Context(), b); err != nil {
					t.Errorf("append: %v", err)
					return
				}
				w.Chain.Advance(b.Runes)
			}
		})
	}
	group.Wait()
	for i := range logs {
		if n := len(ReadAll(t, l, fmt.Sprintf("conv_%d", i), 0)); n != 2*batches {
			t.Errorf("log %d: %d runes, want %d", i, n, 2*batches)
		}
	}
	if n := len(collect(t, l)); n != logs {
		t.Errorf("%d logs listed, want %d", n, logs)
	}
}

// A sealed log takes one rune more, and only the one that says it is archived.
func testSeal(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	w.Append(t, Drafts(2)...)
	w.Seal(t)
	meta, err := l.Meta(t.Context(), "conv_1")
	if err != nil || !meta.Sealed || meta.Seq != 3 {
		t.Errorf("meta %+v, %v; want sealed at seq 3", meta, err)
	}
	archived := runelog.Rune{Path: "session", Kind: runelog.KindArchived, Visibility: runelog.Public}
	wantErr(t, "another kind", l.Append(t.Context(), w.Batch(t, Draft(1))), runelog.ErrSealed)
	wantErr(t, "two runes", l.Append(t.Context(), w.Batch(t, archived, Draft(1))), runelog.ErrSealed)
	w = NewWriter(t, l, "conv_1")
	w.Append(t, archived)
	wantErr(t, "archived twice", l.Append(t.Context(), w.Batch(t, archived)), runelog.ErrSealed)
	if n := len(ReadAll(t, l, "conv_1", 0)); n != 4 {
		t.Errorf("%d runes, want 4", n)
	}
}
