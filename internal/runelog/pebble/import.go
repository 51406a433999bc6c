package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stave/internal/runelog"
)

// Import implements runelog.Log. The stream is checked while it is spooled; then
// the log exists as an archived one, which is restored.
func (s *Store) Import(ctx context.Context, r io.Reader) (string, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	defer s.leave()
	if err := s.breaker.check(); err != nil {
		return "", fmt.Errorf("import: %w", err)
	}
	temp := s.tempSegment()
	e, err := s.spoolSegment(ctx, temp, r)
	if err == nil {
		err = s.adopt(ctx, temp, e)
	}
	if err != nil {
		_ = s.fs.Remove(temp) // else the next Open does
		return "", fmt.Errorf("import: %w", err)
	}
	return e.meta.Log, nil
}

// spoolSegment copies the stream to a synced file, checks it whole, and returns
// the record of its log.
func (s *Store) spoolSegment(ctx context.Context, temp string, r io.Reader) (entry, error) {
	f, err := s.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return entry{}, fmt.Errorf("create %s: %w", temp, err)
	}
	e, err := s.checkStream(ctx, io.TeeReader(r, careful{f}))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return entry{}, err
	}
	return e, nil
}

// careful hands its file a copy of what is written: a vfs.File may scribble on
// the bytes it is given, and the reader behind the tee wants them unchanged.
type careful struct{ vfs.File }

// Write implements io.Writer.
func (c careful) Write(p []byte) (int, error) { return c.File.Write(bytes.Clone(p)) }

func (s *Store) checkStream(ctx context.Context, r io.Reader) (entry, error) {
	segment, err := runelog.ReadSegment(r)
	if err != nil {
		return entry{}, err
	}
	defer segment.Close()
	e := entry{meta: segment.Meta()}
	if _, err := s.Head(ctx, e.meta.Log); err == nil {
		return entry{}, fmt.Errorf("%w: %s", runelog.ErrExists, e.meta.Log)
	}
	// A lost log may come back only as it had been acknowledged.
	known, lost := s.anchor.head(e.meta.Log)
	var last runelog.Rune
	for r, err := range segment.Runes() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return entry{}, err
		}
		if lost && r.Seq == known.seq && r.Hash() != known.hash {
			return entry{}, fmt.Errorf("%w: %s was written with another seq %d", runelog.ErrConflict, r.Log, r.Seq)
		}
		last = r
	}
	e.head = runelog.Head{Seq: last.Seq, Hash: last.Hash()}
	e.status = runelog.StatusOf(e.meta, &last)
	e.status.Archived, e.meta.Archived = true, true
	return e, nil
}

// adopt makes the checked file the archive of a new log and restores it.
func (s *Store) adopt(ctx context.Context, temp string, e entry) error {
	log := e.meta.Log
	st, err := s.change(ctx, log)
	if err != nil {
		return err
	}
	defer s.done(st)
	head, _, _ := st.view()
	if head.Seq != 0 {
		return fmt.Errorf("%w: %s", runelog.ErrExists, log)
	}
	if err := s.compareAnchor(log, e); err != nil {
		return err
	}
	e.head.Epoch = head.Epoch
	if err := publish(s.fs, temp, s.segmentPath(log)); err != nil {
		return err
	}
	if err := s.putEntry(log, e); err != nil {
		return err
	}
	st.set(e.head, e.status)
	if err := s.restore(ctx, st); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.fault = nil
	return nil
}
