// Package memory keeps runelogs in memory: for tests, dry runs and throw-away
// sessions. It keeps every promise of the port except surviving the process.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"stave/internal/runelog"
)

// keepSnapshots is how many snapshots of one log are kept.
const keepSnapshots = 2

// Store is an in-memory runelog.Log.
type Store struct {
	mu     sync.Mutex
	closed chan struct{}
	logs   map[string]*record
	blobs  map[string][]byte
}

// record is one log. Runes are only ever appended, so readers may hold a slice
// of them without the lock.
type record struct {
	head      runelog.Head
	status    runelog.Status
	meta      runelog.Meta
	runes     []runelog.Rune
	snapshots []runelog.Snapshot // oldest first
	archive   []byte             // segment, while archived
	changed   chan struct{}      // closed and replaced at each change
}

var _ runelog.Log = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{closed: make(chan struct{}), logs: map[string]*record{}, blobs: map[string][]byte{}}
}

// Close ends all watches; further calls return ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosed() {
		close(s.closed)
	}
	return nil
}

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// ready is what every call checks first, with the lock held.
func (s *Store) ready(ctx context.Context) error {
	if s.isClosed() {
		return runelog.ErrClosed
	}
	return ctx.Err()
}

// find returns a log that has runes, or had before it was archived.
func (s *Store) find(ctx context.Context, log string) (*record, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	rec, ok := s.logs[log]
	if !ok || rec.head.Seq == 0 {
		return nil, fmt.Errorf("%w: %s", runelog.ErrNotFound, log)
	}
	return rec, nil
}

func (s *Store) open(log string) *record {
	rec, ok := s.logs[log]
	if !ok {
		rec = &record{changed: make(chan struct{})}
		s.logs[log] = rec
	}
	return rec
}

func (r *record) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Lease implements runelog.Log.
func (s *Store) Lease(ctx context.Context, log string) (runelog.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return runelog.Head{}, err
	}
	if err := runelog.CheckName(log); err != nil {
		return runelog.Head{}, err
	}
	rec := s.open(log)
	if rec.status.Archived {
		return runelog.Head{}, fmt.Errorf("%w: %s", runelog.ErrArchived, log)
	}
	rec.head.Epoch++
	return rec.head, nil
}

// Append implements runelog.Log.
func (s *Store) Append(ctx context.Context, b runelog.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	rec, ok := s.logs[b.Log]
	if !ok {
		return fmt.Errorf("%w: %s was never leased", runelog.ErrConflict, b.Log)
	}
	if err := b.Check(rec.head, rec.status); err != nil {
		return err
	}
	for i := range b.Runes {
		if blob, ok := runelog.BlobOf(b.Runes[i].Payload); ok && s.blobs[blob.SHA256] == nil {
			return fmt.Errorf("%w: append to %s: blob %s is not stored", runelog.ErrInvalid, b.Log, blob.SHA256)
		}
	}
	rec.runes = append(rec.runes, b.Runes...)
	rec.head, rec.status = b.Head(), rec.status.After(b)
	rec.meta = b.Listing(rec.status)
	rec.wake()
	return nil
}

// Head implements runelog.Log.
func (s *Store) Head(ctx context.Context, log string) (runelog.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, err := s.find(ctx, log)
	if err != nil {
		return runelog.Head{}, err
	}
	return rec.head, nil
}

// Meta implements runelog.Log.
func (s *Store) Meta(ctx context.Context, log string) (runelog.Meta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, err := s.find(ctx, log)
	if err != nil {
		return runelog.Meta{}, err
	}
	return rec.meta, nil
}

// List implements runelog.Log.
func (s *Store) List(ctx context.Context) iter.Seq2[runelog.Meta, error] {
	return func(yield func(runelog.Meta, error) bool) {
		metas, err := s.metas(ctx)
		if err != nil {
			yield(runelog.Meta{}, err)
			return
		}
		slices.SortFunc(metas, func(a, b runelog.Meta) int {
			return cmp.Or(cmp.Compare(b.UpdatedMs, a.UpdatedMs), cmp.Compare(a.Log, b.Log))
		})
		for _, meta := range metas {
			if !yield(meta, nil) {
				return
			}
		}
	}
}

func (s *Store) metas(ctx context.Context) ([]runelog.Meta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	metas := make([]runelog.Meta, 0, len(s.logs))
	for _, rec := range s.logs {
		if rec.head.Seq > 0 {
			metas = append(metas, rec.meta)
		}
	}
	return metas, nil
}

// SaveSnapshot implements runelog.Log.
func (s *Store) SaveSnapshot(ctx context.Context, log string, snap runelog.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, err := s.find(ctx, log)
	if err != nil {
		return err
	}
	snap.Data = slices.Clone(snap.Data)
	rec.snapshots = slices.DeleteFunc(rec.snapshots, func(old runelog.Snapshot) bool { return old.Seq == snap.Seq })
	rec.snapshots = append(rec.snapshots, snap)
	slices.SortFunc(rec.snapshots, func(a, b runelog.Snapshot) int { return cmp.Compare(a.Seq, b.Seq) })
	if extra := len(rec.snapshots) - keepSnapshots; extra > 0 {
		rec.snapshots = slices.Delete(rec.snapshots, 0, extra)
	}
	return nil
}

// Snapshot implements runelog.Log.
func (s *Store) Snapshot(ctx context.Context, log string, max uint64) (runelog.Snapshot, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, err := s.find(ctx, log)
	if err != nil {
		return runelog.Snapshot{}, false, err
	}
	for _, snap := range slices.Backward(rec.snapshots) {
		if max != 0 && snap.Seq > max || snap.Seq == 0 || snap.Seq > uint64(len(rec.runes)) {
			continue
		}
		if rec.runes[snap.Seq-1].Hash() == snap.Hash {
			snap.Data = slices.Clone(snap.Data)
			return snap, true, nil
		}
	}
	return runelog.Snapshot{}, false, nil
}
