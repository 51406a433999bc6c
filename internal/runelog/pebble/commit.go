package pebble

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Bounds of group commit. A group stays well under half a memtable, where Pebble
// would treat it as a table of its own. Two groups at a time let one be put
// together while the other is on its way to the disk; more would only make them
// smaller.
const (
	maxQueued     = 1024
	maxGroup      = 1024
	maxGroupBytes = 1 << 20
	maxInFlight   = 2
)

// lazySync is how long an unsynced commit may wait for the disk.
const lazySync = 100 * time.Millisecond

// write is one atomic change.
type write struct {
	batch *pebble.Batch
	sync  bool
	head  anchorRecord // what the anchor learns once the change is durable, if it names a log
	done  chan error
}

// committer puts changes into Pebble. A lone writer goes straight there; those
// who come at the same time are joined into one Pebble commit with one sync.
//
// Nothing enters Pebble after a failure, and only one commit at a time does, so
// that nobody is caught inside when something breaks.
type committer struct {
	db      *pebble.DB
	breaker *breaker
	anchor  *anchor

	writers  atomic.Int64 // inside commit
	queue    chan *write
	inFlight chan struct{} // one token for each group that waits for the disk
	pool     sync.Pool     // of *write
	stopped  chan struct{}

	mu      sync.Mutex // held while a commit enters Pebble
	written int        // bytes
	dirty   bool       // unsynced commits wait for the timer

	timer  *time.Timer
	late   sync.Mutex // held while the timer's work runs
	closed bool       // guarded by late
}

func newCommitter(db *pebble.DB, b *breaker, a *anchor) *committer {
	c := &committer{
		db: db, breaker: b, anchor: a,
		queue: make(chan *write, maxQueued), inFlight: make(chan struct{}, maxInFlight), stopped: make(chan struct{}),
		pool: sync.Pool{New: func() any { return &write{done: make(chan error, 1)} }},
	}
	c.timer = time.AfterFunc(lazySync, c.syncLate)
	go c.run()
	return c
}

// close waits for the groups under way; the caller makes sure that no more come.
func (c *committer) close() {
	c.timer.Stop()
	c.late.Lock()
	c.closed = true
	c.late.Unlock()
	close(c.queue)
	<-c.stopped
}

// commit stores the batch, atomically, and closes it.
func (c *committer) commit(batch *pebble.Batch, sync bool, head anchorRecord) error {
	defer c.writers.Add(-1)
	w := c.pool.Get().(*write)
	w.batch, w.sync, w.head = batch, sync, head
	var err error
	if c.writers.Add(1) == 1 {
		if err = c.enter(batch, sync); err == nil {
			err = c.settle(batch, sync, w)
		}
	} else {
		c.queue <- w
		if err = <-w.done; err == nil {
			err = batch.Close()
		}
	}
	w.batch = nil
	c.pool.Put(w)
	return err
}

// run joins queued writes until the queue is closed.
func (c *committer) run() {
	defer close(c.stopped)
	for first := range c.queue {
		c.inFlight <- struct{}{}
		group := c.gather(first)
		batch, sync, err := c.join(group)
		if err == nil {
			err = c.enter(batch, sync)
		}
		if err != nil || !sync {
			c.answer(group, err)
			continue
		}
		go func() { c.answer(group, c.settle(batch, sync, group...)) }()
	}
	for range maxInFlight {
		c.inFlight <- struct{}{}
	}
}

func (c *committer) answer(group []*write, err error) {
	for _, w := range group {
		w.done <- err
	}
	<-c.inFlight
}

// gather adds what is waiting already.
func (c *committer) gather(first *write) []*write {
	group := append(make([]*write, 0, min(maxGroup, len(c.queue)+1)), first)
	size := first.batch.Len()
	for len(group) < maxGroup && size < maxGroupBytes {
		select {
		case w, ok := <-c.queue:
			if !ok {
				return group
			}
			group = append(group, w)
			size += w.batch.Len()
		default:
			return group
		}
	}
	return group
}

func (c *committer) join(group []*write) (batch *pebble.Batch, sync bool, err error) {
	size := 0
	for _, w := range group {
		size += w.batch.Len()
	}
	batch = c.db.NewBatchWithSize(size)
	for _, w := range group {
		sync = sync || w.sync
		if err := batch.Apply(w.batch, nil); err != nil {
			return nil, false, fmt.Errorf("join batches: %w", err)
		}
	}
	return batch, sync, nil
}

// enter applies the batch. It returns nil only if nothing is known to be wrong;
// after an error the batch may still be in Pebble's hands.
func (c *committer) enter(batch *pebble.Batch, sync bool) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.breaker.check(); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			c.breaker.trip(fmt.Errorf("commit: %v", p))
			err = c.breaker.check()
		}
	}()
	c.written += batch.Len()
	if sync {
		c.dirty = false
		err = c.db.ApplyNoSyncWait(batch, pebble.Sync)
	} else {
		if !c.dirty {
			c.dirty = true
			c.timer.Reset(lazySync)
		}
		err = c.db.Apply(batch, pebble.NoSync)
	}
	if err != nil {
		c.breaker.trip(fmt.Errorf("commit: %w", err))
	}
	// Pebble reports a failed commit to its logger and then returns as if
	// nothing had happened.
	return c.breaker.check()
}

// settle waits for the disk, tells the anchor and closes the batch.
func (c *committer) settle(batch *pebble.Batch, sync bool, group ...*write) error {
	if !sync {
		return batch.Close()
	}
	if err := batch.SyncWait(); err != nil {
		c.breaker.trip(fmt.Errorf("sync: %w", err))
	}
	// Pebble may have waited for a sync that was kept from the disk.
	if err := c.breaker.check(); err != nil {
		return err
	}
	// The change is durable, so its writer hears of success even if the anchor
	// cannot be written: then the store takes no more.
	if err := c.anchor.append(group); err != nil {
		c.breaker.trip(err)
	}
	return batch.Close()
}

// syncLate makes unsynced commits durable when no synced one came in time.
func (c *committer) syncLate() {
	c.late.Lock()
	defer c.late.Unlock()
	c.mu.Lock()
	dirty := c.dirty
	c.mu.Unlock()
	if c.closed || !dirty {
		return
	}
	mark := c.db.NewBatch()
	if err := mark.LogData(nil, nil); err != nil {
		c.breaker.trip(fmt.Errorf("sync: %w", err))
		return
	}
	// A failure trips the breaker, and the next writer hears of it.
	if c.enter(mark, true) == nil {
		_ = c.settle(mark, true)
	}
}
