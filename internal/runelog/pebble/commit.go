package pebble

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Bounds of the commit queue and of one group commit. A group stays well under
// half a memtable, where Pebble would treat it as a table of its own.
const (
	maxQueued     = 1024
	maxGroup      = 1024
	maxGroupBytes = 1 << 20
	// lazySync is how long an unsynced append may wait for the disk.
	lazySync = 100 * time.Millisecond
)

// write is one atomic change that waits for its place in a group commit.
type write struct {
	batch *pebble.Batch
	sync  bool
	heads []anchorRecord // what the anchor learns once the group is synced
	done  chan error
}

// commit stores the batch, atomically, and closes it. All writes go through one
// goroutine, which joins those that wait into one Pebble commit: that is the
// group commit, and it keeps every other goroutine out of Pebble's commit
// pipeline, which never lets go of its callers once a write has failed.
func (s *Store) commit(batch *pebble.Batch, sync bool, heads ...anchorRecord) error {
	defer batch.Close()
	w := s.writes.Get().(*write)
	w.batch, w.sync, w.heads = batch, sync, heads
	select {
	case s.queue <- w:
	case <-s.closing:
		return errClosed(s.dir)
	}
	err := <-w.done
	w.batch, w.heads = nil, nil
	s.writes.Put(w)
	return err
}

// committer runs until the store closes, then drains the queue.
func (s *Store) committer() {
	defer close(s.committed)
	timer := time.NewTimer(lazySync)
	timer.Stop()
	group := make([]*write, 0, maxGroup)
	dirty := false
	for {
		select {
		case w := <-s.queue:
			group = s.gather(append(group[:0], w))
			synced := s.store(group)
			switch {
			case synced:
				dirty = false
				timer.Stop()
			case !dirty:
				dirty = true
				timer.Reset(lazySync)
			}
		case <-timer.C:
			dirty = false
			s.flushWAL()
		case <-s.closing:
			s.drain()
			return
		}
	}
}

// gather adds what is waiting already.
func (s *Store) gather(group []*write) []*write {
	size := group[0].batch.Len()
	for len(group) < maxGroup && size < maxGroupBytes {
		select {
		case w := <-s.queue:
			group = append(group, w)
			size += w.batch.Len()
		default:
			return group
		}
	}
	return group
}

func (s *Store) drain() {
	for {
		select {
		case w := <-s.queue:
			w.done <- errClosed(s.dir)
		default:
			return
		}
	}
}

// store commits the group, tells its writers, and reports whether it was synced.
func (s *Store) store(group []*write) (synced bool) {
	for _, w := range group {
		synced = synced || w.sync
	}
	err := s.commitGroup(group, synced)
	if err == nil && synced {
		// The runes are durable, so their writers hear of success even if the
		// anchor cannot be written: then the store takes no more.
		if anchorErr := s.anchor.append(group); anchorErr != nil {
			s.breaker.trip(anchorErr)
		}
	}
	for _, w := range group {
		w.done <- err
	}
	return synced
}

func (s *Store) commitGroup(group []*write, sync bool) error {
	if len(group) == 1 {
		return s.apply(group[0].batch, sync)
	}
	size := 0
	for _, w := range group {
		size += w.batch.Len()
	}
	joined := s.db.NewBatchWithSize(size)
	defer joined.Close()
	for _, w := range group {
		if err := joined.Apply(w.batch, nil); err != nil {
			return fmt.Errorf("join batches: %w", err)
		}
	}
	return s.apply(joined, sync)
}

// apply is the only place that commits to Pebble. It returns nil only for a
// commit after which nothing is known to be wrong.
func (s *Store) apply(batch *pebble.Batch, sync bool) (err error) {
	if err := s.breaker.check(); err != nil {
		return err
	}
	defer func() {
		// Pebble panics, its locks held, when its write-ahead log has failed.
		if p := recover(); p != nil {
			s.breaker.trip(fmt.Errorf("commit to %s: %v", s.storeDir(), p))
			err = s.breaker.check()
		}
	}()
	if err := s.db.Apply(batch, &pebble.WriteOptions{Sync: sync}); err != nil {
		s.breaker.trip(fmt.Errorf("commit to %s: %w", s.storeDir(), err))
	}
	return s.breaker.check()
}

// flushWAL makes earlier unsynced commits durable.
func (s *Store) flushWAL() {
	mark := s.db.NewBatch()
	defer mark.Close()
	if err := mark.LogData(nil, nil); err != nil {
		s.breaker.trip(fmt.Errorf("sync %s: %w", s.storeDir(), err))
		return
	}
	// A failure trips the breaker and the next writer hears of it.
	_ = s.apply(mark, true)
}
