package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"stave/internal/runelog"
)

// LogHooks are the parts of the Log suite that only some stores can run.
type LogHooks struct {
	// Reopen closes a store and opens what it left behind.
	Reopen func(t *testing.T, l runelog.Log) runelog.Log
	// DamageBlob changes one byte of a stored blob.
	DamageBlob func(t *testing.T, l runelog.Log, sha256 string)
	// DamageRune changes one byte of a stored rune.
	DamageRune func(t *testing.T, l runelog.Log, log string, seq uint64)
	// DamageSnapshot changes one byte of a stored snapshot.
	DamageSnapshot func(t *testing.T, l runelog.Log, log string, seq uint64)
}

// Log runs the suite of the runelog.Log port. Each test gets a new, empty store
// from open and closes it.
func Log(t *testing.T, open func(t *testing.T) runelog.Log, hooks LogHooks) {
	s := suite{open: open, hooks: hooks}
	for _, c := range []struct {
		name string
		test func(t *testing.T, s suite)
	}{
		{"lease", testLease},
		{"append", testAppend},
		{"append refused", testAppendRefused},
		{"one winner", testOneWinner},
		{"many logs", testManyLogs},
		{"seal", testSeal},
		{"read", testRead},
		{"unknown log", testUnknownLog},
		{"bad name", testBadName},
		{"context", testContext},
		{"close", testClose},
		{"list", testList},
		{"watch", testWatch},
		{"watch ends", testWatchEnds},
		{"slow watcher", testSlowWatcher},
		{"snapshot", testSnapshot},
		{"blob", testBlob},
		{"blob limit", testBlobLimit},
		{"large payload", testLargePayload},
		{"archive", testArchive},
		{"archive while reading", testArchiveWhileReading},
		{"archive refused", testArchiveRefused},
		{"import", testImport},
		{"import refused", testImportRefused},
		{"reopen", testReopen},
		{"damage", testDamage},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

type suite struct {
	open  func(t *testing.T) runelog.Log
	hooks LogHooks
}

func (s suite) new(t *testing.T) runelog.Log {
	t.Helper()
	l := s.open(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// Writer appends to one log as an engine would.
type Writer struct {
	Log   runelog.Log
	Name  string
	Chain *runelog.Chain
}

// NewWriter leases the log.
func NewWriter(t testing.TB, l runelog.Log, name string) *Writer {
	t.Helper()
	head, err := l.Lease(context.Background(), name)
	if err != nil {
		t.Fatalf("lease %s: %v", name, err)
	}
	return &Writer{Log: l, Name: name, Chain: runelog.NewChain(name, head)}
}

// Draft returns a plausible rune whose payload holds n.
func Draft(n int) runelog.Rune {
	return runelog.Rune{
		Path: "agent:root/turn:1", Kind: "turn.assistant_delta", From: "streaming", To: "streaming",
		Visibility: runelog.Public, By: "engine", Cause: uint64(n), Job: "job_1", Tags: []string{"a", "b"},
		Payload: jsontext.Value(fmt.Sprintf(`{"n":%d,"text":"häll, \"wörld\"\n"}`, n)),
	}
}

// Drafts returns n of them.
func Drafts(n int) []runelog.Rune {
	drafts := make([]runelog.Rune, n)
	for i := range drafts {
		drafts[i] = Draft(i + 1)
	}
	return drafts
}

// Batch stamps the drafts as the next batch without appending it.
func (w *Writer) Batch(t testing.TB, drafts ...runelog.Rune) runelog.Batch {
	t.Helper()
	head := w.Chain.Head()
	ready, err := runelog.Offload(context.Background(), w.Log, drafts)
	if err != nil {
		t.Fatalf("offload: %v", err)
	}
	runes, err := w.Chain.Stamp(ready, int64(1000+head.Seq))
	if err != nil {
		t.Fatalf("stamp: %v", err)
	}
	return runelog.Batch{
		Log: w.Name, After: head.Seq, Epoch: head.Epoch, Runes: runes, Sync: true,
		Meta: runelog.Meta{Log: w.Name, Kind: "session", State: "active", UpdatedMs: int64(1000 + head.Seq)},
	}
}

// Append stamps and appends one batch and returns its runes.
func (w *Writer) Append(t testing.TB, drafts ...runelog.Rune) []runelog.Rune {
	t.Helper()
	return w.Commit(t, w.Batch(t, drafts...))
}

// Commit appends a batch made by Batch.
func (w *Writer) Commit(t testing.TB, b runelog.Batch) []runelog.Rune {
	t.Helper()
	if err := w.Log.Append(context.Background(), b); err != nil {
		t.Fatalf("append to %s: %v", w.Name, err)
	}
	w.Chain.Advance(b.Runes)
	return b.Runes
}

// Seal appends the last batch of a log.
func (w *Writer) Seal(t testing.TB) {
	t.Helper()
	b := w.Batch(t, runelog.Rune{Path: "session", Kind: "session.closed", Visibility: runelog.Public})
	b.Seal = true
	w.Commit(t, b)
}

// ReadAll returns the runes after seq.
func ReadAll(t testing.TB, l runelog.Log, log string, after uint64) []runelog.Rune {
	t.Helper()
	var runes []runelog.Rune
	for r, err := range l.Read(context.Background(), log, after) {
		if err != nil {
			t.Fatalf("read %s: %v", log, err)
		}
		runes = append(runes, r)
	}
	return runes
}

// readError returns the runes before the error that ends a read, and the error.
func readError(l runelog.Log, log string, after uint64) (runes []runelog.Rune, err error) {
	for r, err := range l.Read(context.Background(), log, after) {
		if err != nil {
			return runes, err
		}
		runes = append(runes, r)
	}
	return runes, nil
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want one that wraps %q", what, err, want)
	}
}

func wantSame(t testing.TB, what string, got, want []runelog.Rune) {
	t.Helper()
	if diff := cmp.Diff(rawLines(want), rawLines(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func rawLines(runes []runelog.Rune) []string {
	lines := make([]string, len(runes))
	for i, r := range runes {
		lines[i] = string(r.Raw())
	}
	return lines
}

func collect(t testing.TB, l runelog.Log) []runelog.Meta {
	t.Helper()
	var metas []runelog.Meta
	for meta, err := range l.List(context.Background()) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		metas = append(metas, meta)
	}
	return metas
}
