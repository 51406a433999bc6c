package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"stave/internal/runelog"
)

// Archive implements runelog.Log.
func (s *Store) Archive(ctx context.Context, log string) error {
	meta, err := s.Meta(ctx, log)
	switch {
	case err != nil:
		return err
	case meta.Archived:
		return fmt.Errorf("%w: %s", runelog.ErrArchived, log)
	case !meta.Sealed:
		return fmt.Errorf("archive %s: %w: close it first", log, runelog.ErrNotSealed)
	}
	var segment bytes.Buffer
	if err := runelog.Export(ctx, s, log, &segment); err != nil {
		return fmt.Errorf("archive %s: %w", log, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, err := s.find(ctx, log)
	if err != nil {
		return err
	}
	if rec.head.Seq != meta.Seq {
		return fmt.Errorf("archive %s: %w", log, runelog.ErrConflict)
	}
	rec.archive, rec.runes, rec.snapshots = segment.Bytes(), nil, nil
	rec.status.Archived, rec.meta.Archived = true, true
	rec.wake()
	return nil
}

// OpenArchive implements runelog.Log.
func (s *Store) OpenArchive(ctx context.Context, log string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, err := s.find(ctx, log)
	switch {
	case err != nil:
		return nil, err
	case rec.archive == nil:
		return nil, fmt.Errorf("open archive of %s: %w", log, runelog.ErrNotArchived)
	}
	return io.NopCloser(bytes.NewReader(rec.archive)), nil
}

// Restore implements runelog.Log.
func (s *Store) Restore(ctx context.Context, log string) error {
	s.mu.Lock()
	rec, err := s.find(ctx, log)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	segment := rec.archive
	s.mu.Unlock()
	if segment == nil {
		return fmt.Errorf("restore %s: %w", log, runelog.ErrNotArchived)
	}
	_, runes, err := s.load(ctx, bytes.NewReader(segment))
	if err != nil {
		return fmt.Errorf("restore %s: %w", log, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.runes, rec.archive = runes, nil
	rec.status.Archived, rec.meta.Archived = false, false
	rec.wake()
	return nil
}

// Import implements runelog.Log.
func (s *Store) Import(ctx context.Context, r io.Reader) (string, error) {
	meta, runes, err := s.load(ctx, r)
	if err != nil {
		return "", fmt.Errorf("import: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return "", err
	}
	rec := s.open(meta.Log)
	if rec.head.Seq != 0 {
		return "", fmt.Errorf("import: %w: %s", runelog.ErrExists, meta.Log)
	}
	last := &runes[len(runes)-1]
	meta.Archived = false
	rec.runes, rec.meta = runes, meta
	rec.head = runelog.Head{Seq: last.Seq, Hash: last.Hash(), Epoch: rec.head.Epoch}
	rec.status = runelog.StatusOf(meta, last)
	rec.wake()
	return meta.Log, nil
}

// load reads a whole segment and keeps the blobs it brings.
func (s *Store) load(ctx context.Context, r io.Reader) (runelog.Meta, []runelog.Rune, error) {
	segment, err := runelog.ReadSegment(r)
	if err != nil {
		return runelog.Meta{}, nil, err
	}
	defer segment.Close()
	var runes []runelog.Rune
	for r, err := range segment.Runes() {
		if err == nil && r.Blob() != nil {
			_, err = s.PutBlob(ctx, bytes.NewReader(r.Payload))
		}
		if err != nil {
			return runelog.Meta{}, nil, err
		}
		runes = append(runes, r)
	}
	return segment.Meta(), runes, nil
}
