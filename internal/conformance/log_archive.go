package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"stave/internal/runelog"
)

// large returns a draft whose payload does not fit into a rune.
func large(n int) runelog.Rune {
	d := Draft(n)
	text := strings.Repeat(string(rune('a'+n%26)), runelog.MaxInline)
	d.Payload = jsontext.Value(`{"text":"` + text + `"}`)
	return d
}

func testBlob(t *testing.T, s suite) {
	l := s.new(t)
	for _, content := range []string{"", "x", strings.Repeat("stave", 100_000)} {
		sum := sha256.Sum256([]byte(content))
		want := runelog.Blob{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))}
		for range 2 { // the second time it is there already
			got, err := l.PutBlob(t.Context(), strings.NewReader(content))
			if err != nil || got != want {
				t.Fatalf("put: %+v, %v; want %+v", got, err, want)
			}
		}
		f, err := l.OpenBlob(t.Context(), want.SHA256)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		if got, err := io.ReadAll(f); err != nil || string(got) != content {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(content))
		}
		if err := f.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := l.OpenBlob(t.Context(), "../../lock"); err == nil {
		t.Error("a path was opened as a blob")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

type failing struct{}

var errFailing = errors.New("the source failed")

func (failing) Read([]byte) (int, error) { return 0, errFailing }

func testBlobLimit(t *testing.T, s suite) {
	l := s.new(t)
	_, err := l.PutBlob(t.Context(), zeros{})
	wantErr(t, "endless blob", err, runelog.ErrTooLarge)
	_, err = l.PutBlob(t.Context(), failing{})
	wantErr(t, "failing source", err, errFailing)
}

// A payload over the limit travels as a blob and nobody notices.
func testLargePayload(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	want := large(1)
	stamped := w.Append(t, Draft(1), want, Draft(2))
	got := ReadAll(t, l, "conv_1", 0)
	if !bytes.Equal(got[1].Payload, want.Payload) {
		t.Errorf("payload of %d bytes, want %d", len(got[1].Payload), len(want.Payload))
	}
	if got[1].Hash() != stamped[1].Hash() || !bytes.Contains(got[1].Raw(), []byte(`"payload":{"$blob":{"sha256":`)) {
		t.Errorf("the stored rune names the blob, got %s", got[1].Raw())
	}
	if got[1].Blob() == nil || got[0].Blob() != nil {
		t.Errorf("blobs %v, %v; want the second only", got[0].Blob(), got[1].Blob())
	}
	forged := Draft(3)
	forged.Payload = jsontext.Value(`{"$blob":{"sha256":"` + strings.Repeat("0", 64) + `","size":1}}`)
	_, err := runelog.Offload(t.Context(), l, []runelog.Rune{forged})
	wantErr(t, "forged reference", err, runelog.ErrReserved)
	runes, err := w.Chain.Stamp([]runelog.Rune{forged}, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := w.Batch(t, Draft(1))
	b.Runes = runes
	wantErr(t, "reference to nothing", l.Append(t.Context(), b), runelog.ErrInvalid)
}

// An archived log is listed but not read until it is restored, unchanged.
func testArchive(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	w.Append(t, Draft(1), large(1), large(2), Draft(2), large(1))
	for range 5 {
		w.Append(t, Drafts(300)...)
	}
	w.Seal(t)
	w.Append(t, runelog.Rune{Path: "session", Kind: runelog.KindArchived, Visibility: runelog.Public})
	all := ReadAll(t, l, "conv_1", 0)
	other := NewWriter(t, l, "conv_2").Append(t, Drafts(3)...)
	for range 2 { // archived, restored, and once more
		if err := l.Archive(t.Context(), "conv_1"); err != nil {
			t.Fatalf("archive: %v", err)
		}
		checkArchived(t, l)
		if s.hooks.Reopen != nil {
			l = s.hooks.Reopen(t, l)
			checkArchived(t, l)
		}
		if err := l.Restore(t.Context(), "conv_1"); err != nil {
			t.Fatalf("restore: %v", err)
		}
		got := ReadAll(t, l, "conv_1", 0)
		wantSame(t, "restored", got, all)
		if !bytes.Equal(got[1].Payload, all[1].Payload) {
			t.Error("a large payload changed")
		}
	}
	wantErr(t, "restore again", l.Restore(t.Context(), "conv_1"), runelog.ErrNotArchived)
	wantSame(t, "another log", ReadAll(t, l, "conv_2", 0), other)
	if meta, err := l.Meta(t.Context(), "conv_1"); err != nil || meta.Archived || !meta.Sealed {
		t.Errorf("meta %+v, %v; want sealed and not archived", meta, err)
	}
	again := NewWriter(t, l, "conv_1")
	wantErr(t, "append to a restored log", l.Append(t.Context(), again.Batch(t, Draft(1))), runelog.ErrSealed)
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// A reader that is under way when the log is archived gets the rest of it or is
// told; the log is not taken for damaged.
func testArchiveWhileReading(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	for range 20 {
		w.Append(t, Drafts(200)...)
	}
	w.Seal(t)
	seen := uint64(0)
	var last error
	for r, err := range l.Read(t.Context(), "conv_1", 0) {
		if last = err; err != nil {
			break
		}
		if seen = r.Seq; seen == 1 {
			if err := l.Archive(t.Context(), "conv_1"); err != nil {
				t.Fatalf("archive: %v", err)
			}
		}
	}
	if last == nil && seen != 4001 || last != nil && !errors.Is(last, runelog.ErrArchived) {
		t.Errorf("read ended at %d with %v", seen, last)
	}
	if err := l.Restore(t.Context(), "conv_1"); err != nil {
		t.Fatalf("restore: %v", err)
	}
	if n := len(ReadAll(t, l, "conv_1", 0)); n != 4001 {
		t.Errorf("%d runes, want 4001", n)
	}
}

func checkArchived(t *testing.T, l runelog.Log) {
	t.Helper()
	ctx := t.Context()
	_, err := readError(l, "conv_1", 0)
	wantErr(t, "read", err, runelog.ErrArchived)
	_, err = l.Lease(ctx, "conv_1")
	wantErr(t, "lease", err, runelog.ErrArchived)
	wantErr(t, "archive again", l.Archive(ctx, "conv_1"), runelog.ErrArchived)
	for _, err := range l.Watch(ctx, "conv_1", 0) {
		wantErr(t, "watch", err, runelog.ErrArchived)
	}
	meta, err := l.Meta(ctx, "conv_1")
	if err != nil || !meta.Archived || !meta.Sealed || meta.Seq != 1507 {
		t.Errorf("meta %+v, %v; want archived with 1507 runes", meta, err)
	}
	if head, err := l.Head(ctx, "conv_1"); err != nil || head.Seq != 1507 {
		t.Errorf("head %+v, %v; want seq 1507", head, err)
	}
	checkOpenArchive(t, l)
	if metas := collect(t, l); len(metas) != 2 {
		t.Errorf("%d logs listed, want 2", len(metas))
	}
}

// checkOpenArchive reads the archive where it lies.
func checkOpenArchive(t *testing.T, l runelog.Log) {
	t.Helper()
	f, err := l.OpenArchive(t.Context(), "conv_1")
	if err != nil {
		t.Fatalf("open archive: %v", err)
	}
	defer f.Close()
	segment, err := runelog.ReadSegment(f)
	if err != nil {
		t.Fatalf("read archive: %v", err)
	}
	defer segment.Close()
	n := 0
	for _, err := range segment.Runes() {
		if err != nil {
			t.Fatalf("read archive: %v", err)
		}
		n++
	}
	if n != 1507 {
		t.Errorf("%d runes in the archive, want 1507", n)
	}
	_, err = l.OpenArchive(t.Context(), "conv_nobody")
	wantErr(t, "open archive of nothing", err, runelog.ErrNotFound)
}

func testArchiveRefused(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	w.Append(t, Draft(1))
	wantErr(t, "open log", l.Archive(t.Context(), "conv_1"), runelog.ErrNotSealed)
	wantErr(t, "restore", l.Restore(t.Context(), "conv_1"), runelog.ErrNotArchived)
	w.Append(t, Draft(1))
}

// A log that was exported comes back in another store, byte for byte.
func testImport(t *testing.T, s suite) {
	from, to := s.new(t), s.new(t)
	w := NewWriter(t, from, "conv_1")
	w.Append(t, Draft(1), large(1), Draft(2))
	w.Append(t, Drafts(500)...)
	var file bytes.Buffer
	if err := runelog.Export(t.Context(), from, "conv_1", &file); err != nil {
		t.Fatalf("export: %v", err)
	}
	name, err := to.Import(t.Context(), bytes.NewReader(file.Bytes()))
	if err != nil || name != "conv_1" {
		t.Fatalf("import: %q, %v", name, err)
	}
	if s.hooks.Reopen != nil {
		to = s.hooks.Reopen(t, to)
	}
	all := ReadAll(t, from, "conv_1", 0)
	got := ReadAll(t, to, "conv_1", 0)
	wantSame(t, "imported", got, all)
	if !bytes.Equal(got[1].Payload, all[1].Payload) {
		t.Error("a large payload changed")
	}
	want, _ := from.Meta(t.Context(), "conv_1")
	if meta, err := to.Meta(t.Context(), "conv_1"); err != nil || meta != want {
		t.Errorf("meta %+v, %v; want %+v", meta, err, want)
	}
	_, err = to.Import(t.Context(), bytes.NewReader(file.Bytes()))
	wantErr(t, "import of a log that is there", err, runelog.ErrExists)
	NewWriter(t, to, "conv_1").Append(t, Draft(3)) // it goes on
	if err := to.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// Nothing of a damaged stream becomes visible, and the log can come again.
func testImportRefused(t *testing.T, s suite) {
	from, to := s.new(t), s.new(t)
	w := NewWriter(t, from, "conv_1")
	w.Append(t, Draft(1), large(1), Draft(2))
	var file bytes.Buffer
	if err := runelog.Export(t.Context(), from, "conv_1", &file); err != nil {
		t.Fatalf("export: %v", err)
	}
	whole := file.Bytes()
	for _, cut := range []int{0, 1, 20, len(whole) / 2, len(whole) - 1} {
		_, err := to.Import(t.Context(), bytes.NewReader(whole[:cut]))
		wantErr(t, "cut stream", err, runelog.ErrCorrupt)
	}
	for _, at := range []int{0, 12, len(whole) / 2, len(whole) - 1} {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 1
		_, err := to.Import(t.Context(), bytes.NewReader(damaged))
		wantErr(t, "flipped bit", err, runelog.ErrCorrupt)
	}
	_, err := to.Import(t.Context(), io.MultiReader(bytes.NewReader(whole[:20]), failing{}))
	wantErr(t, "failing stream", err, errFailing)
	_, err = to.Head(t.Context(), "conv_1")
	wantErr(t, "head after refused imports", err, runelog.ErrNotFound)
	if metas := collect(t, to); len(metas) != 0 {
		t.Errorf("refused imports are listed: %+v", metas)
	}
	if _, err := to.Import(t.Context(), bytes.NewReader(whole)); err != nil {
		t.Errorf("import of the whole stream: %v", err)
	}
}

// What was acknowledged is there after the store was closed and opened again.
func testReopen(t *testing.T, s suite) {
	if s.hooks.Reopen == nil {
		return // nothing is promised
	}
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	var all []runelog.Rune
	for round := range 4 {
		all = append(all, w.Append(t, Drafts(50)...)...)
		all = append(all, w.Append(t, large(round))...)
		lazy := w.Batch(t, Drafts(3)...)
		lazy.Sync = false
		all = append(all, w.Commit(t, lazy)...)
		snap := runelog.Snapshot{Seq: 10, Hash: all[9].Hash(), Data: []byte("state")}
		if err := l.SaveSnapshot(t.Context(), "conv_1", snap); err != nil {
			t.Fatal(err)
		}
		meta, err := l.Meta(t.Context(), "conv_1")
		if err != nil {
			t.Fatal(err)
		}
		stale := w.Batch(t, Draft(1))
		l = s.hooks.Reopen(t, l)
		got := ReadAll(t, l, "conv_1", 0)
		wantSame(t, "reopened", got, all)
		if again, err := l.Meta(t.Context(), "conv_1"); err != nil || again != meta {
			t.Errorf("meta %+v, %v; want %+v", again, err, meta)
		}
		if got, ok, err := l.Snapshot(t.Context(), "conv_1", 0); err != nil || !ok || string(got.Data) != "state" {
			t.Errorf("snapshot %q, %v, %v", got.Data, ok, err)
		}
		epoch := w.Chain.Head().Epoch
		w = NewWriter(t, l, "conv_1")
		if now := w.Chain.Head().Epoch; now <= epoch {
			t.Errorf("epoch %d after %d", now, epoch)
		}
		wantErr(t, "the writer from before", l.Append(t.Context(), stale), runelog.ErrConflict)
	}
	w.Seal(t)
	l = s.hooks.Reopen(t, l)
	w = NewWriter(t, l, "conv_1")
	wantErr(t, "append to a sealed log", l.Append(t.Context(), w.Batch(t, Draft(1))), runelog.ErrSealed)
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
