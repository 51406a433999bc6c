package pebble

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"stave/internal/conformance"
	"stave/internal/runelog"
)

func mustOpen(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func TestConformance(t *testing.T) {
	conformance.Log(t, func(t *testing.T) runelog.Log { return mustOpen(t, t.TempDir()) }, conformance.LogHooks{
		Reopen: func(t *testing.T, l runelog.Log) runelog.Log {
			if err := l.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			return mustOpen(t, l.(*Store).dir)
		},
		DamageBlob: func(t *testing.T, l runelog.Log, sha256 string) {
			path := l.(*Store).blobPath(sha256)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			content[len(content)/2] ^= 1
			if err := os.WriteFile(path, content, filePerm); err != nil {
				t.Fatal(err)
			}
		},
		DamageRune: func(t *testing.T, l runelog.Log, log string, seq uint64) {
			damage(t, l.(*Store), seqKey(runeTable, log, seq), 100)
		},
		DamageSnapshot: func(t *testing.T, l runelog.Log, log string, seq uint64) {
			damage(t, l.(*Store), seqKey(snapshotTable, log, seq), snapshotHeader)
		},
	})
}

// damage changes a value behind the back of the codec, past Pebble's checksums.
func damage(t *testing.T, s *Store, key []byte, at int) {
	t.Helper()
	value, closer, err := s.db.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	changed := append([]byte(nil), value...)
	closer.Close()
	changed[at] ^= 1
	if err := s.db.Set(key, changed, pebble.Sync); err != nil {
		t.Fatal(err)
	}
}

// A log that a later version has written to is readable up to there and is not
// written to.
func TestLaterVersion(t *testing.T) {
	fs := vfs.NewMem()
	s, err := openMem(fs)
	if err != nil {
		t.Fatal(err)
	}
	runes := conformance.NewWriter(t, s, "conv_1").Append(t, conformance.Drafts(3)...)
	later := strings.Replace(string(runes[2].Raw()), `"v":1`, `"new":true,"v":2`, 1)
	future, err := runelog.Decode([]byte(later))
	if !errors.Is(err, runelog.ErrVersion) {
		t.Fatal(err)
	}
	e, err := s.entry("conv_1")
	if err != nil {
		t.Fatal(err)
	}
	e.head.Hash = future.Hash()
	batch, err := s.encodeBatch("conv_1", nil, &e)
	if err == nil {
		err = errors.Join(batch.Set(seqKey(runeTable, "conv_1", 3), future.Raw(), nil),
			s.commits.commit(batch, true, anchorRecord{"conv_1", 3, future.Hash()}))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if s, err = openMem(fs); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Lease(t.Context(), "conv_1"); !errors.Is(err, runelog.ErrReadOnly) || !errors.Is(err, runelog.ErrVersion) {
		t.Errorf("lease: %v", err)
	}
	var last error
	for _, err := range s.Read(t.Context(), "conv_1", 0) {
		last = err
	}
	if !errors.Is(last, runelog.ErrVersion) || errors.Is(last, runelog.ErrCorrupt) {
		t.Errorf("read ends with %v", last)
	}
}

// A store that has seen many logs does not keep them all in memory.
func TestIdleLogsAreForgotten(t *testing.T) {
	s, err := openMem(vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range maxIdle + 100 {
		w, err := newSession(s, fmt.Sprintf("conv_%d", i), newHistory())
		if err == nil {
			err = w.append(false, false, conformance.Draft(1))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Head(t.Context(), "nothing"); !errors.Is(err, runelog.ErrNotFound) {
		t.Errorf("unknown log: %v", err)
	}
	s.mu.Lock()
	kept := len(s.states)
	s.mu.Unlock()
	if kept > maxIdle {
		t.Errorf("%d logs kept in memory", kept)
	}
	if n := len(conformance.ReadAll(t, s, fmt.Sprintf("conv_%d", maxIdle+50), 0)); n != 1 {
		t.Errorf("%d runes of a forgotten log", n)
	}
}
