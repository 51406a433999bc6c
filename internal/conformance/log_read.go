package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"stave/internal/runelog"
)

var ignoreInternals = cmpopts.IgnoreUnexported(runelog.Rune{})

// A read starts after any seq and may be left at any rune.
func testRead(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	var all []runelog.Rune
	for range 5 {
		all = append(all, w.Append(t, Drafts(200)...)...)
	}
	NewWriter(t, l, "conv_10").Append(t, Draft(1)) // a neighbour whose name has the same start
	for _, after := range []uint64{0, 1, 199, 200, 999} {
		wantSame(t, fmt.Sprintf("after %d", after), ReadAll(t, l, "conv_1", after), all[after:])
	}
	for _, after := range []uint64{1000, 5000} {
		if got := ReadAll(t, l, "conv_1", after); len(got) != 0 {
			t.Errorf("after %d: %d runes, want none", after, len(got))
		}
	}
	seen := 0
	for range l.Read(t.Context(), "conv_1", 0) {
		if seen++; seen == 7 {
			break
		}
	}
	for r, err := range l.Read(t.Context(), "conv_1", 0) {
		if err != nil {
			t.Fatalf("append while reading: %v", err)
		}
		if r.Seq == 10 {
			w.Append(t, Draft(1))
		}
	}
}

func testUnknownLog(t *testing.T, s suite) {
	l := s.new(t)
	ctx := t.Context()
	_, err := l.Head(ctx, "conv_1")
	wantErr(t, "head", err, runelog.ErrNotFound)
	_, err = l.Meta(ctx, "conv_1")
	wantErr(t, "meta", err, runelog.ErrNotFound)
	_, err = readError(l, "conv_1", 0)
	wantErr(t, "read", err, runelog.ErrNotFound)
	for _, err := range l.Watch(ctx, "conv_1", 0) {
		wantErr(t, "watch", err, runelog.ErrNotFound)
	}
	_, _, err = l.Snapshot(ctx, "conv_1", 0)
	wantErr(t, "snapshot", err, runelog.ErrNotFound)
	wantErr(t, "save snapshot", l.SaveSnapshot(ctx, "conv_1", runelog.Snapshot{}), runelog.ErrNotFound)
	wantErr(t, "archive", l.Archive(ctx, "conv_1"), runelog.ErrNotFound)
	wantErr(t, "restore", l.Restore(ctx, "conv_1"), runelog.ErrNotFound)
	wantErr(t, "export", runelog.Export(ctx, l, "conv_1", &strings.Builder{}), runelog.ErrNotFound)
	_, err = l.OpenBlob(ctx, strings.Repeat("0", 64))
	wantErr(t, "blob", err, runelog.ErrNotFound)
}

func testBadName(t *testing.T, s suite) {
	l := s.new(t)
	for _, name := range []string{"", ".", "..", "a/b", "a\x00b", "ä", strings.Repeat("x", runelog.MaxName+1)} {
		_, err := l.Lease(t.Context(), name)
		wantErr(t, fmt.Sprintf("lease of %q", name), err, runelog.ErrInvalid)
	}
	NewWriter(t, l, strings.Repeat("x", runelog.MaxName)).Append(t, Draft(1))
}

// A cancelled context is obeyed before anything is written.
func testContext(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	w.Append(t, Drafts(3)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "append", l.Append(ctx, w.Batch(t, Draft(1))), context.Canceled)
	_, err := l.Lease(ctx, "conv_1")
	wantErr(t, "lease", err, context.Canceled)
	for _, err := range l.Read(ctx, "conv_1", 0) {
		wantErr(t, "read", err, context.Canceled)
	}
	for _, err := range l.List(ctx) {
		wantErr(t, "list", err, context.Canceled)
	}
	if n := len(ReadAll(t, l, "conv_1", 0)); n != 3 {
		t.Errorf("%d runes, want 3", n)
	}
}

// A closed store refuses everything and says why.
func testClose(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	w.Append(t, Draft(1))
	b := w.Batch(t, Draft(2))
	watched := make(chan error, 1)
	entered := make(chan struct{})
	go func() {
		var last error
		for r, err := range l.Watch(t.Context(), "conv_1", 0) {
			if r.Seq == 1 {
				close(entered)
			}
			last = err
		}
		watched <- last
	}()
	<-entered
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	wantErr(t, "watch", <-watched, runelog.ErrClosed)
	if err := l.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	wantErr(t, "append", l.Append(t.Context(), b), runelog.ErrClosed)
	_, err := l.Lease(t.Context(), "conv_1")
	wantErr(t, "lease", err, runelog.ErrClosed)
	_, err = readError(l, "conv_1", 0)
	wantErr(t, "read", err, runelog.ErrClosed)
	_, err = l.Meta(t.Context(), "conv_1")
	wantErr(t, "meta", err, runelog.ErrClosed)
	for _, err := range l.List(t.Context()) {
		wantErr(t, "list", err, runelog.ErrClosed)
	}
	_, err = l.PutBlob(t.Context(), strings.NewReader("x"))
	wantErr(t, "put blob", err, runelog.ErrClosed)
	_, err = l.Import(t.Context(), strings.NewReader(""))
	if err == nil {
		t.Error("import into a closed store")
	}
}

// Listing shows the metadata of the last batch, newest update first, with what
// the store knows itself put right.
func testList(t *testing.T, s suite) {
	l := s.new(t)
	updated := map[string]int64{"conv_1": 10, "conv_2": 30, "th_3": 20, "prj_4": 20}
	for name, at := range updated {
		w := NewWriter(t, l, name)
		b := w.Batch(t, Drafts(2)...)
		b.Meta = runelog.Meta{Title: "old"}
		w.Commit(t, b)
		b = w.Batch(t, Draft(1))
		b.Meta = runelog.Meta{
			Log: "wrong", Kind: "session", State: "idle", Title: "t " + name, CreatedMs: 5, UpdatedMs: at,
			WaitsFor: "person", CostUSD: 1.25, Seq: 99, Sealed: true, Archived: true,
		}
		w.Commit(t, b)
	}
	var want []runelog.Meta
	for _, name := range []string{"conv_2", "prj_4", "th_3", "conv_1"} {
		want = append(want, runelog.Meta{
			Log: name, Kind: "session", State: "idle", Title: "t " + name, CreatedMs: 5, UpdatedMs: updated[name],
			WaitsFor: "person", CostUSD: 1.25, Seq: 3,
		})
	}
	if diff := cmp.Diff(want, collect(t, l)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	meta, err := l.Meta(t.Context(), "th_3")
	if diff := cmp.Diff(want[2], meta); diff != "" || err != nil {
		t.Errorf("meta: %v (-want +got):\n%s", err, diff)
	}
	for range l.List(t.Context()) {
		break
	}
}

// A snapshot bounds replay and is never needed.
func testSnapshot(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	runes := w.Append(t, Drafts(10)...)
	ctx := t.Context()
	if _, ok, err := l.Snapshot(ctx, "conv_1", 0); ok || err != nil {
		t.Fatalf("snapshot of a log without one: %v, %v", ok, err)
	}
	save := func(seq uint64, hash runelog.Hash, data string) {
		t.Helper()
		if err := l.SaveSnapshot(ctx, "conv_1", runelog.Snapshot{Seq: seq, Hash: hash, Data: []byte(data)}); err != nil {
			t.Fatalf("save snapshot at %d: %v", seq, err)
		}
	}
	expect := func(max uint64, want string) {
		t.Helper()
		snap, ok, err := l.Snapshot(ctx, "conv_1", max)
		if err != nil || string(snap.Data) != want || ok != (want != "") {
			t.Errorf("snapshot at or below %d: %q, %v, %v; want %q", max, snap.Data, ok, err, want)
		}
		if ok && snap.Hash != runes[snap.Seq-1].Hash() {
			t.Errorf("snapshot at %d has the wrong hash", snap.Seq)
		}
	}
	for _, seq := range []uint64{2, 4, 6} {
		save(seq, runes[seq-1].Hash(), fmt.Sprintf("state %d", seq))
	}
	expect(0, "state 6")
	expect(6, "state 6")
	expect(5, "state 4")
	expect(3, "") // only the latest two are kept
	save(6, runes[5].Hash(), "state 6 again")
	expect(0, "state 6 again")
	expect(5, "state 4")
	save(8, runelog.Hash{1}, "of another log")
	expect(0, "state 6 again")
	save(11, runelog.Hash{1}, "beyond the end")
	if _, ok, err := l.Snapshot(ctx, "conv_1", 0); err != nil {
		t.Errorf("snapshot: %v, %v", ok, err)
	}
}

// A damaged store never hands out a changed rune, blob or snapshot.
func testDamage(t *testing.T, s suite) {
	if s.hooks.DamageRune != nil {
		l := s.new(t)
		w := NewWriter(t, l, "conv_1")
		all := w.Append(t, Drafts(10)...)
		s.hooks.DamageRune(t, l, "conv_1", 5)
		runes, err := readError(l, "conv_1", 0)
		wantErr(t, "damaged rune", err, runelog.ErrCorrupt)
		if len(runes) > 4 || err != nil && !strings.Contains(err.Error(), "conv_1") {
			t.Errorf("%d runes before the error %v, want at most 4 and the log's name", len(runes), err)
		}
		wantSame(t, "runes before the damage", runes, all[:len(runes)])
	}
	if s.hooks.DamageBlob != nil {
		l := s.new(t)
		w := NewWriter(t, l, "conv_1")
		w.Append(t, Draft(1), large(1))
		runes := ReadAll(t, l, "conv_1", 0)
		s.hooks.DamageBlob(t, l, runes[1].Blob().SHA256)
		got, err := readError(l, "conv_1", 0)
		if !errors.Is(err, runelog.ErrCorrupt) || len(got) != 1 {
			t.Errorf("damaged blob: %d runes, %v; want 1 and ErrCorrupt", len(got), err)
		}
	}
	if s.hooks.DamageSnapshot != nil {
		l := s.new(t)
		runes := NewWriter(t, l, "conv_1").Append(t, Drafts(5)...)
		for _, seq := range []uint64{2, 4} {
			snap := runelog.Snapshot{Seq: seq, Hash: runes[seq-1].Hash(), Data: fmt.Appendf(nil, "state %d", seq)}
			if err := l.SaveSnapshot(t.Context(), "conv_1", snap); err != nil {
				t.Fatal(err)
			}
		}
		s.hooks.DamageSnapshot(t, l, "conv_1", 4)
		if snap, ok, err := l.Snapshot(t.Context(), "conv_1", 0); !ok || err != nil || snap.Seq != 2 {
			t.Errorf("after damage: snapshot at %d, %v, %v; want the older one at 2", snap.Seq, ok, err)
		}
	}
}
