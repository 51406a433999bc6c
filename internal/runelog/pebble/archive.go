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

// OpenArchive implements runelog.Log.
func (s *Store) OpenArchive(ctx context.Context, log string) (io.ReadCloser, error) {
	st, err := s.existing(ctx, log)
	if err != nil {
		return nil, err
	}
	defer s.release(st)
	if _, status, _ := st.view(); !status.Archived {
		return nil, fmt.Errorf("open archive of %s: %w", log, runelog.ErrNotArchived)
	}
	f, err := s.fs.Open(s.segmentPath(log))
	if err != nil {
		return nil, fmt.Errorf("open archive of %s: %w", log, err)
	}
	return f, nil
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
	if err := s.commits.commit(batch, true, anchorRecord{}); err != nil {
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

// restore brings the runes back. Until the last step, which also says that the
// log is no longer archived, none of them is visible.
func (s *Store) restore(ctx context.Context, st *state) error {
	e, err := s.entry(st.log)
	if err != nil {
		return err
	}
	path := s.segmentPath(st.log)
	if err := s.verifySegment(path, st.log); err != nil {
		return err
	}
	back := refill{store: s, log: st.log}
	if _, err := s.readSegment(path, st.log, func(r *runelog.Rune) error { return back.add(ctx, r) }); err != nil {
		return err
	}
	if back.last.Seq != e.head.Seq || back.last.Hash != e.head.Hash {
		return runelog.Damaged(st.log, back.last.Seq, "the segment does not end at the log's head")
	}
	e.status.Archived, e.meta.Archived = false, false
	if err := back.write(&e); err != nil {
		return err
	}
	st.set(e.head, e.status)
	_ = s.fs.Remove(path) // a leftover is replaced by the next Archive
	return nil
}

// refill puts runes back into the store in bounded steps.
type refill struct {
	store *Store
	log   string
	runes []runelog.Rune
	size  int
	last  runelog.Head
}

func (b *refill) add(ctx context.Context, r *runelog.Rune) error {
	if r.Blob() != nil {
		if _, err := b.store.PutBlob(ctx, bytes.NewReader(r.Payload)); err != nil {
			return err
		}
	}
	b.runes, b.size = append(b.runes, *r), b.size+len(r.Raw())
	b.last = runelog.Head{Seq: r.Seq, Hash: r.Hash()}
	if b.size < restoreStep {
		return ctx.Err()
	}
	return b.write(nil)
}

// write commits what was added, durably with the log's record if that is given.
func (b *refill) write(final *entry) error {
	batch, err := b.store.encodeBatch(b.log, b.runes, final)
	if err != nil {
		return err
	}
	b.runes, b.size = b.runes[:0], 0
	if final == nil {
		return b.store.commits.commit(batch, false, anchorRecord{})
	}
	return b.store.commits.commit(batch, true, anchorRecord{b.log, final.head.Seq, final.head.Hash})
}
