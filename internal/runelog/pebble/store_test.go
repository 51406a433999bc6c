package pebble

import (
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2"

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
