package runelog

import "fmt"

// Bounds of one batch.
const (
	MaxBatchRunes = 1 << 16
	MaxBatchBytes = 16 << 20
)

// Status is what a store remembers of a log besides its head.
type Status struct {
	Sealed   bool
	Closed   bool // the one KindArchived rune after the seal is written
	Archived bool // runes are in the archive file
}

// StatusOf returns the status of a log that is in the store with that metadata
// and last rune.
func StatusOf(meta Meta, last *Rune) Status {
	return Status{Sealed: meta.Sealed, Closed: meta.Sealed && last.Kind == KindArchived}
}

// After returns the status once b is stored.
func (s Status) After(b Batch) Status {
	s.Closed = s.Closed || s.Sealed
	s.Sealed = s.Sealed || b.Seal
	return s
}

// Check reports why b may not be appended to a log with that head and status:
// the rules are the same in every store.
func (b Batch) Check(head Head, status Status) error {
	switch {
	case status.Archived:
		return fmt.Errorf("%w: %s", ErrArchived, b.Log)
	case b.Epoch != head.Epoch:
		return fmt.Errorf("%w: %s is leased with epoch %d, this writer has %d", ErrConflict, b.Log, head.Epoch, b.Epoch)
	case b.After != head.Seq:
		return fmt.Errorf("%w: %s ends at seq %d, this writer expects %d", ErrConflict, b.Log, head.Seq, b.After)
	case len(b.Runes) == 0:
		return fmt.Errorf("%w: empty batch", ErrInvalid)
	case len(b.Runes) > MaxBatchRunes:
		return fmt.Errorf("%w: batch of %d runes, at most %d", ErrTooLarge, len(b.Runes), MaxBatchRunes)
	case status.Sealed && (status.Closed || len(b.Runes) != 1 || b.Runes[0].Kind != KindArchived):
		return fmt.Errorf("%w: %s", ErrSealed, b.Log)
	case b.Runes[0].raw == nil:
		return fmt.Errorf("%w: %s is not stamped", ErrInvalid, b.Runes[0].Kind)
	case !isHex(b.Runes[0].Prev, head.Hash):
		return fmt.Errorf("%w: %s ends with another hash than this writer's", ErrConflict, b.Log)
	}
	return b.checkRunes(head)
}

func (b Batch) checkRunes(head Head) error {
	check, size := NewChecker(b.Log, head), 0
	for i := range b.Runes {
		r := &b.Runes[i]
		if r.raw == nil {
			return fmt.Errorf("%w: %s is not stamped", ErrInvalid, r.Kind)
		}
		if err := check.Check(r); err != nil {
			return fmt.Errorf("%w: batch is no chain: %w", ErrInvalid, err)
		}
		size += len(r.raw)
	}
	if size > MaxBatchBytes {
		return fmt.Errorf("%w: batch of %d bytes, at most %d", ErrTooLarge, size, MaxBatchBytes)
	}
	return nil
}

// Head returns the head of the log once b is stored.
func (b Batch) Head() Head {
	last := &b.Runes[len(b.Runes)-1]
	return Head{Seq: last.Seq, Hash: last.hash, Epoch: b.Epoch}
}

// Listing returns the batch's metadata with the fields a store knows better.
func (b Batch) Listing(status Status) Meta {
	meta := b.Meta
	meta.Log, meta.Seq = b.Log, b.Runes[len(b.Runes)-1].Seq
	meta.Sealed, meta.Archived = status.Sealed, status.Archived
	return meta
}
