package pebble

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stave/internal/runelog"
)

const (
	segmentSuffix = ".seg"
	// restoreStep is how many bytes of runes are brought back at once, well under
	// half a memtable, where Pebble would make a table of each batch.
	restoreStep = 1 << 20
)

func (s *Store) segmentPath(log string) string {
	return s.fs.PathJoin(s.archiveDir(), log+segmentSuffix)
}

func (s *Store) tempSegment() string {
	return s.fs.PathJoin(s.archiveDir(), strconv.FormatUint(s.temps.Add(1), 10)+tempSuffix)
}

// Archive implements runelog.Log. The segment is written, synced and read back
// before the runes leave the store.
func (s *Store) Archive(ctx context.Context, log string) error {
	st, err := s.change(ctx, log)
	if err != nil {
		return err
	}
	defer s.done(st)
	if err := st.present(); err != nil {
		return err
	}
	_, status, err := st.writable()
	if err == nil && !status.Sealed {
		err = fmt.Errorf("%w: close it first", runelog.ErrNotSealed)
	}
	if err == nil {
		err = s.breaker.check()
	}
	if err == nil {
		err = s.archive(ctx, st)
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", log, err)
	}
	return nil
}

func (s *Store) archive(ctx context.Context, st *state) error {
	temp := s.tempSegment()
	err := s.writeSegment(ctx, st.log, temp)
	if err == nil {
		err = s.verifySegment(temp, st.log)
	}
	if err == nil {
		err = publish(s.fs, temp, s.segmentPath(st.log))
	}
	if err != nil {
		_ = s.fs.Remove(temp) // else the next Open does
		return err
	}
	return s.dropRunes(st)
}

func (s *Store) writeSegment(ctx context.Context, log, temp string) error {
	f, err := s.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create %s: %w", temp, err)
	}
	w := bufio.NewWriter(f)
	err = runelog.Export(ctx, s, log, w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", temp, err)
	}
	return nil
}

// verifySegment reads a whole segment back.
func (s *Store) verifySegment(path, log string) error {
	_, err := s.readSegment(path, log, func(*runelog.Rune) error { return nil })
	return err
}

func (s *Store) readSegment(path, log string, visit func(*runelog.Rune) error) (runelog.Meta, error) {
	f, err := s.fs.Open(path)
	if err != nil {
		return runelog.Meta{}, fmt.Errorf("open %s: %w", path, err)
	}
	defer f.Close()
	segment, err := runelog.ReadSegment(f)
	if err != nil {
		return runelog.Meta{}, fmt.Errorf("read %s: %w", path, err)
	}
	defer segment.Close()
	if segment.Meta().Log != log {
		return runelog.Meta{}, fmt.Errorf("%w: %s holds log %s", runelog.ErrCorrupt, path, segment.Meta().Log)
	}
	for r, err := range segment.Runes() {
		if err == nil {
			err = visit(&r)
		}
		if err != nil {
			return runelog.Meta{}, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return segment.Meta(), nil
}

// dropRunes marks the log archived and removes its runes, in one step.
func (s *Store) dropRunes(st *state) error {
	e, err := s.entry(st.log)
	if err != nil {
		return err
	}
	e.status.Archived, e.meta.Archived = true, true
	batch, err := s.encodeBatch(st.log, nil, &e)
	if err != nil {
		return err
	}
	for _, table := range []byte{runeTable, snapshotTable} {
		start, end := span(table, st.log)
		if err := batch.DeleteRange(start, end, nil); err != nil {
			batch.Close()
			return fmt.Errorf("build batch: %w", err)
		}
	}
	if err := s.commits.commit(batch, true, nil); err != nil {
		return err
	}
	st.set(e.head, e.status)
	return nil
}

// Restore implements runelog.Log. The segment file is removed once the runes are
// back, so that there is one truth.
func (s *Store) Restore(ctx context.Context, log string) error {
	st, err := s.change(ctx, log)
	if err != nil {
		return err
	}
	defer s.done(st)
	if err := st.present(); err != nil {
		return err
	}
	_, status, err := st.view()
	if err == nil && !status.Archived {
		err = runelog.ErrNotArchived
	}
	if err == nil {
		err = s.restore(ctx, st)
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", log, err)
	}
	return nil
}

// restore brings runes back in bounded steps. Until the last, which also says
// that the log is no longer archived, none of them is visible.
func (s *Store) restore(ctx context.Context, st *state) error {
	e, err := s.entry(st.log)
	if err != nil {
		return err
	}
	path := s.segmentPath(st.log)
	if err := s.verifySegment(path, st.log); err != nil {
		return err
	}
	var pending []runelog.Rune
	var last runelog.Rune
	size := 0
	flush := func(final *entry) error {
		batch, err := s.encodeBatch(st.log, pending, final)
		if err != nil {
			return err
		}
		pending, size = pending[:0], 0
		if final == nil {
			return s.commits.commit(batch, false, nil)
		}
		return s.commits.commit(batch, true, &anchorRecord{st.log, final.head.Seq, final.head.Hash})
	}
	_, err = s.readSegment(path, st.log, func(r *runelog.Rune) error {
		if r.Blob() != nil {
			if _, err := s.PutBlob(ctx, bytes.NewReader(r.Payload)); err != nil {
				return err
			}
		}
		pending, last, size = append(pending, *r), *r, size+len(r.Raw())
		if size < restoreStep {
			return ctx.Err()
		}
		return flush(nil)
	})
	if err != nil {
		return err
	}
	if last.Seq != e.head.Seq || last.Hash() != e.head.Hash {
		return runelog.Damaged(st.log, last.Seq, "the segment does not end at the log's head")
	}
	e.status.Archived, e.meta.Archived = false, false
	if err := flush(&e); err != nil {
		return err
	}
	st.set(e.head, e.status)
	_ = s.fs.Remove(path) // a leftover is replaced by the next Archive
	return nil
}

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
	e, err := s.checkStream(ctx, io.TeeReader(r, f))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return entry{}, err
	}
	return e, nil
}

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
