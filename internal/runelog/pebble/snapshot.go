package pebble

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"stave/internal/runelog"
)

const (
	keepSnapshots = 2
	maxSnapshot   = 64 << 20
)

// A snapshot is stored as the SHA-256 of what follows, the hash of the rune it
// covers last, and its data.
const snapshotHeader = sha256.Size + len(runelog.Hash{})

// SaveSnapshot implements runelog.Log. It is not synced: losing it is harmless.
func (s *Store) SaveSnapshot(ctx context.Context, log string, snap runelog.Snapshot) error {
	if len(snap.Data) > maxSnapshot {
		return fmt.Errorf("%w: snapshot of %d bytes, at most %d", runelog.ErrTooLarge, len(snap.Data), maxSnapshot)
	}
	st, err := s.change(ctx, log)
	if err != nil {
		return err
	}
	defer s.done(st)
	if err := st.present(); err != nil {
		return err
	}
	if _, _, err := st.writable(); err != nil {
		return fmt.Errorf("save snapshot of %s: %w", log, err)
	}
	value := make([]byte, sha256.Size, snapshotHeader+len(snap.Data))
	value = append(append(value, snap.Hash[:]...), snap.Data...)
	sum := sha256.Sum256(value[sha256.Size:])
	copy(value, sum[:])

	seqs, err := s.snapshotSeqs(log)
	if err != nil {
		return err
	}
	batch := s.db.NewBatch()
	err = batch.Set(seqKey(snapshotTable, log, snap.Seq), value, nil)
	for _, old := range outdated(seqs, snap.Seq) {
		if err == nil {
			err = batch.Delete(seqKey(snapshotTable, log, old), nil)
		}
	}
	if err != nil {
		batch.Close()
		return fmt.Errorf("save snapshot of %s: %w", log, err)
	}
	if err := s.commits.commit(batch, false, anchorRecord{}); err != nil {
		return fmt.Errorf("save snapshot of %s: %w", log, err)
	}
	return nil
}

// outdated returns which of the ascending seqs go when added comes.
func outdated(seqs []uint64, added uint64) []uint64 {
	if i, found := slices.BinarySearch(seqs, added); !found {
		seqs = slices.Insert(seqs, i, added)
	}
	return seqs[:max(0, len(seqs)-keepSnapshots)]
}

// snapshotSeqs returns the seqs of the log's snapshots, ascending.
func (s *Store) snapshotSeqs(log string) ([]uint64, error) {
	start, end := span(snapshotTable, log)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return nil, fmt.Errorf("list snapshots of %s: %w", log, err)
	}
	var seqs []uint64
	for ok := it.First(); ok; ok = it.Next() {
		seqs = append(seqs, binary.BigEndian.Uint64(it.Key()[len(start):]))
	}
	if err := it.Close(); err != nil {
		return nil, fmt.Errorf("list snapshots of %s: %w", log, err)
	}
	return seqs, nil
}

// Snapshot implements runelog.Log. One that cannot be read or does not fit the
// log is passed over, since replay does without.
func (s *Store) Snapshot(ctx context.Context, log string, max uint64) (runelog.Snapshot, bool, error) {
	st, err := s.existing(ctx, log)
	if err != nil {
		return runelog.Snapshot{}, false, err
	}
	defer s.release(st)
	if err := s.enter(ctx); err != nil {
		return runelog.Snapshot{}, false, err
	}
	defer s.leave()
	seqs, err := s.snapshotSeqs(log)
	if err != nil {
		return runelog.Snapshot{}, false, nil
	}
	head, _, _ := st.view()
	for i := len(seqs) - 1; i >= 0; i-- {
		if seq := seqs[i]; seq <= head.Seq && (max == 0 || seq <= max) {
			if snap, ok := s.snapshot(log, seq); ok {
				return snap, true, nil
			}
		}
	}
	return runelog.Snapshot{}, false, nil
}

func (s *Store) snapshot(log string, seq uint64) (runelog.Snapshot, bool) {
	value, closer, err := s.db.Get(seqKey(snapshotTable, log, seq))
	if err != nil {
		return runelog.Snapshot{}, false
	}
	defer closer.Close()
	if len(value) < snapshotHeader {
		return runelog.Snapshot{}, false
	}
	sum := sha256.Sum256(value[sha256.Size:])
	if !bytes.Equal(sum[:], value[:sha256.Size]) {
		return runelog.Snapshot{}, false
	}
	snap := runelog.Snapshot{Seq: seq, Hash: runelog.Hash(value[sha256.Size:snapshotHeader])}
	raw, err := s.raw(log, seq)
	if err != nil || runelog.Hash(sha256.Sum256(raw)) != snap.Hash {
		return runelog.Snapshot{}, false
	}
	snap.Data = bytes.Clone(value[snapshotHeader:])
	return snap, true
}
