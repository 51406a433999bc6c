package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"stave/internal/runelog"
	"stave/internal/world"
)

// Proof is what verification found of a sound log.
type Proof struct {
	Log   string `json:"log"`
	Runes uint64 `json:"runes"`
	Head  string `json:"head"` // hash of the last rune
	State string `json:"state"`
}

// Verify checks a log from its first rune: the hash chain, every arrow, every
// invariant, the head, and that the newest snapshot says the same as the runes.
func (e *Engine) Verify(ctx context.Context, log string) (Proof, error) {
	return Verify(ctx, e.opt.Log, log)
}

// Verify checks a log of a store; see Engine.Verify.
func Verify(ctx context.Context, l runelog.Log, log string) (Proof, error) {
	head, err := l.Head(ctx, log)
	if err != nil {
		return Proof{}, err
	}
	runes, snap, hasSnap, done, err := source(ctx, l, log)
	if err != nil {
		return Proof{}, err
	}
	defer done()
	w := world.New(log)
	var last runelog.Hash
	for r, err := range runes {
		if err != nil {
			return Proof{}, err
		}
		if err := w.Fold(r); err != nil {
			return Proof{}, err
		}
		last = r.Hash()
		if hasSnap && r.Seq == snap.Seq {
			if err := sameSnapshot(w, snap, last); err != nil {
				return Proof{}, fmt.Errorf("log %s, rune %d: %w", log, r.Seq, err)
			}
		}
	}
	if w.Seq() != head.Seq || last != head.Hash {
		return Proof{}, fmt.Errorf("log %s: it ends at rune %d, its head says %d: %w", log, w.Seq(), head.Seq, runelog.ErrCorrupt)
	}
	return Proof{log, w.Seq(), last.String(), string(w.State(world.SessionPath))}, nil
}

// source returns a log's runes, from its archive if it has one, and its newest
// snapshot.
func source(ctx context.Context, l runelog.Log, log string) (runes iter.Seq2[runelog.Rune, error], s runelog.Snapshot, hasSnap bool, done func(), err error) {
	f, err := l.OpenArchive(ctx, log)
	if errors.Is(err, runelog.ErrNotArchived) {
		s, hasSnap, err = l.Snapshot(ctx, log, 0)
		return l.Read(ctx, log, 0), s, hasSnap, func() {}, err
	}
	if err != nil {
		return nil, s, false, nil, err
	}
	segment, err := runelog.ReadSegment(f)
	if err != nil {
		f.Close()
		return nil, s, false, nil, fmt.Errorf("archive of %s: %w", log, err)
	}
	return segment.Runes(), s, false, func() { segment.Close(); f.Close() }, nil
}

func sameSnapshot(w *world.World, s runelog.Snapshot, hash runelog.Hash) error {
	if s.Hash != hash {
		return fmt.Errorf("the snapshot names another rune: %w", runelog.ErrCorrupt)
	}
	saved, err := world.Load(w.Log(), s.Data)
	if err != nil {
		return nil // of another version: it is ignored everywhere
	}
	a, errA := saved.Save()
	b, errB := w.Save()
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		return fmt.Errorf("the snapshot says something else than the runes: %w", runelog.ErrCorrupt)
	}
	return nil
}
