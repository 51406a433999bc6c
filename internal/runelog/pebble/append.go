package pebble

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"stave/internal/runelog"
)

// Lease implements runelog.Log. The new epoch is durable when it returns.
func (s *Store) Lease(ctx context.Context, log string) (runelog.Head, error) {
	st, err := s.change(ctx, log)
	if err != nil {
		return runelog.Head{}, err
	}
	defer s.done(st)
	head, status, err := st.writable()
	if err != nil {
		return runelog.Head{}, fmt.Errorf("lease %s: %w", log, err)
	}
	var e entry
	if head.Epoch > 0 {
		if e, err = s.entry(log); err != nil {
			return runelog.Head{}, err
		}
	}
	e.head, e.status = head, status
	e.head.Epoch++
	if err := s.putEntry(log, e); err != nil {
		return runelog.Head{}, fmt.Errorf("lease %s: %w", log, err)
	}
	st.set(e.head, status)
	return e.head, nil
}

// writable returns the log's head if the log may change.
func (st *state) writable() (runelog.Head, runelog.Status, error) {
	head, status, fault := st.view()
	switch {
	case fault != nil:
		return head, status, fmt.Errorf("%w: %w", runelog.ErrReadOnly, fault)
	case status.Archived:
		return head, status, runelog.ErrArchived
	}
	return head, status, nil
}

func (s *Store) putEntry(log string, e entry) error {
	batch, err := s.encodeBatch(log, nil, &e)
	if err != nil {
		return err
	}
	return s.commits.commit(batch, true, anchorRecord{})
}

// Append implements runelog.Log. The context is looked at before the write: once
// that is under way, only the disk decides how it ends.
func (s *Store) Append(ctx context.Context, b runelog.Batch) error {
	st, err := s.change(ctx, b.Log)
	if err != nil {
		return err
	}
	defer s.done(st)
	head, status, err := st.writable()
	if err != nil {
		return fmt.Errorf("append to %s: %w", b.Log, err)
	}
	if err := b.Check(head, status); err != nil {
		return err
	}
	if err := s.checkBlobs(b.Runes); err != nil {
		return fmt.Errorf("append to %s: %w", b.Log, err)
	}
	next := entry{head: b.Head(), status: status.After(b)}
	next.meta = b.Listing(next.status)
	batch, err := s.encodeBatch(b.Log, b.Runes, &next)
	if err != nil {
		return fmt.Errorf("append to %s: %w", b.Log, err)
	}
	if err := s.commits.commit(batch, b.Sync, anchorRecord{b.Log, next.head.Seq, next.head.Hash}); err != nil {
		return fmt.Errorf("append to %s: %w", b.Log, err)
	}
	st.append(next.head, next.status, b.Runes)
	return nil
}

// checkBlobs makes sure that no rune names a blob that is not there.
func (s *Store) checkBlobs(runes []runelog.Rune) error {
	for i := range runes {
		blob, ok := runelog.BlobOf(runes[i].Payload)
		if !ok {
			continue
		}
		info, err := s.fs.Stat(s.blobPath(blob.SHA256))
		if err != nil || info.Size() != blob.Size {
			return fmt.Errorf("%w: blob %s is not stored", runelog.ErrInvalid, blob.SHA256)
		}
	}
	return nil
}

// encodeBatch writes runes and, unless nil, the log's record into one batch.
func (s *Store) encodeBatch(log string, runes []runelog.Rune, e *entry) (*pebble.Batch, error) {
	scratch := s.scratch.Get().(*[]byte)
	defer s.scratch.Put(scratch)
	record := (*scratch)[:0]
	if e != nil {
		var err error
		if record, err = e.append(record); err != nil {
			return nil, err
		}
		*scratch = record
	}
	const overhead = 32 // of one entry, besides name and value
	size := overhead + len(log) + len(record)
	for i := range runes {
		size += overhead + len(log) + len(runes[i].Raw())
	}
	batch := s.db.NewBatchWithSize(size)
	for i := range runes {
		raw := runes[i].Raw()
		op := batch.SetDeferred(seqKeyLen(log), len(raw))
		appendSeqKey(op.Key[:0], runeTable, log, runes[i].Seq)
		copy(op.Value, raw)
		if err := op.Finish(); err != nil {
			batch.Close()
			return nil, fmt.Errorf("build batch: %w", err)
		}
	}
	if e != nil {
		op := batch.SetDeferred(1+len(log), len(record))
		appendHeadKey(op.Key[:0], log)
		copy(op.Value, record)
		if err := op.Finish(); err != nil {
			batch.Close()
			return nil, fmt.Errorf("build batch: %w", err)
		}
	}
	return batch, nil
}
