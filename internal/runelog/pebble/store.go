// Package pebble keeps runelogs in an embedded Pebble store: one data directory,
// one process, every acknowledged rune durable.
package pebble

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"stave/internal/runelog"
)

// The parts of a data directory, besides the anchor and the lock.
const (
	storeName   = "store"
	blobsName   = "blobs"
	archiveName = "archive"
	tempSuffix  = ".tmp"
)

// Sizes that keep an idle store small.
const (
	memTableSize = 4 << 20
	cacheSize    = 8 << 20
	maxOpenFiles = 256
	// compactAfter is how many small tables may pile up: each short command leaves
	// one, and should not have to tidy up after the few before it.
	compactAfter = 16
	// flushFrom is how many bytes must have been written for a flush at the end.
	flushFrom = 256 << 10
	// tableBlock is large because logs are read from some rune on, seldom at one.
	tableBlock = 32 << 10
)

// grace is how long a broken store may take to open or close before it is
// abandoned: Pebble waits for work that a failed disk never finishes.
const grace = 200 * time.Millisecond

// Store is a runelog.Log in a data directory.
type Store struct {
	dir      string
	fs       vfs.FS
	lock     io.Closer
	breaker  *breaker
	removals *removals
	db       *pebble.DB
	anchor   *anchor
	temps    atomic.Uint64 // names of temporary files
	scratch  sync.Pool     // of *[]byte

	commits *committer
	closing chan struct{} // tells those who watch

	mu     sync.Mutex
	closed bool
	states map[string]*state
	using  sync.WaitGroup // calls under way
}

var _ runelog.Log = (*Store)(nil)

// Open opens the data directory, which it creates if need be. It returns an
// error wrapping ErrLocked if another process has it open.
func Open(dir string) (*Store, error) {
	fs := privateFS{vfs.Default}
	if err := makeDir(fs, dir); err != nil {
		return nil, explain(dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, explain(dir, err)
	}
	s, err := open(dir, fs)
	if err != nil {
		lock.Close()
		return nil, explain(dir, err)
	}
	s.lock = lock
	return s, nil
}

// open does the same on any file system; the caller holds the lock.
func open(dir string, fs vfs.FS) (*Store, error) {
	s := &Store{
		dir: dir, fs: fs, breaker: newBreaker(), closing: make(chan struct{}), states: map[string]*state{},
		scratch: sync.Pool{New: func() any { return new([]byte) }},
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	var err error
	if s.anchor, err = openAnchor(fs, dir); err != nil {
		return nil, err
	}
	if err := s.checkPresence(); err != nil {
		s.anchor.close()
		return nil, err
	}
	s.removals = newRemovals(fs, s.breaker)
	if s.db, err = openPebble(s.storeDir(), failStopFS{FS: fs, breaker: s.breaker, removals: s.removals}, s.breaker); err != nil {
		s.removals.stop()
		s.anchor.close()
		return nil, err
	}
	s.commits = newCommitter(s.db, s.breaker, s.anchor)
	return s, nil
}

func (s *Store) storeDir() string   { return s.fs.PathJoin(s.dir, storeName) }
func (s *Store) blobDir() string    { return s.fs.PathJoin(s.dir, blobsName) }
func (s *Store) archiveDir() string { return s.fs.PathJoin(s.dir, archiveName) }

// prepare makes the directories and removes what a killed process left half
// written.
func (s *Store) prepare() error {
	for _, dir := range []string{s.storeDir(), s.blobDir(), s.archiveDir()} {
		if err := s.fs.MkdirAll(dir, dirPerm); err != nil {
			return fmt.Errorf("create %s: %w", dir, err)
		}
	}
	for _, dir := range []string{s.dir, s.blobDir(), s.archiveDir()} {
		names, err := s.fs.List(dir)
		if err != nil {
			return fmt.Errorf("list %s: %w", dir, err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, tempSuffix) {
				continue
			}
			if err := s.fs.Remove(s.fs.PathJoin(dir, name)); err != nil {
				return fmt.Errorf("remove leftover: %w", err)
			}
		}
	}
	return syncDir(s.fs, s.dir)
}

// checkPresence refuses to put an empty store where there was a full one.
func (s *Store) checkPresence() error {
	names, err := s.fs.List(s.storeDir())
	if err != nil {
		return fmt.Errorf("list %s: %w", s.storeDir(), err)
	}
	if len(names) == 0 && len(s.anchor.heads) > 0 {
		return fmt.Errorf("%w: %s is empty, but %d logs had been written", runelog.ErrCorrupt, s.storeDir(), len(s.anchor.heads))
	}
	return nil
}

func pebbleOptions(fs vfs.FS, b *breaker) *pebble.Options {
	options := &pebble.Options{
		FS:                          fs,
		CacheSize:                   cacheSize,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                maxOpenFiles,
		L0CompactionThreshold:       compactAfter,
		L0CompactionFileThreshold:   2 * compactAfter, // logs seldom overlap, so files pile up side by side
		DisableTableStats:           true,             // they serve range deletes, and cost a read of every table at each start
		L0StopWritesThreshold:       4 * compactAfter,
		FormatMajorVersion:          pebble.FormatWALSyncChunks,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		Logger:                      quietLogger{b},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { b.trip(fmt.Errorf("store: %w", err)) },
			// A reader that meets damage gets the error; it must not end the process.
			DataCorruption: func(pebble.DataCorruptionInfo) {},
		},
	}
	for i := range options.Levels {
		options.Levels[i].BlockSize = tableBlock
		// Half of a rune is hashes, and what is old goes into compressed segments.
		options.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	return options
}

// openPebble opens the store and turns a panic, or a wait that a failed disk
// would make endless, into an error.
func openPebble(dir string, fs vfs.FS, b *breaker) (*pebble.DB, error) {
	type result struct {
		db  *pebble.DB
		err error
	}
	opened := make(chan result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				opened <- result{err: fmt.Errorf("%w: %v", runelog.ErrCorrupt, p)}
			}
		}()
		db, err := pebble.Open(dir, pebbleOptions(fs, b))
		opened <- result{db, err}
	}()
	var r result
	select {
	case r = <-opened:
	case <-b.broken:
		select {
		case r = <-opened:
		case <-time.After(grace):
		}
	}
	if err := b.check(); err != nil {
		if r.db != nil {
			b.release()
			_ = closePebble(r.db, b)
		}
		return nil, b.err
	}
	if r.err != nil && isDamage(r.err) {
		return nil, fmt.Errorf("%w: store %s: %w", runelog.ErrCorrupt, dir, r.err)
	}
	return r.db, r.err
}

// isDamage reports whether Pebble could read its files and did not like them.
func isDamage(err error) bool {
	var code syscall.Errno
	return pebble.IsCorruptionError(err) || !errors.As(err, &code)
}

// Close waits for the calls that are under way, ends all watches and gives the
// directory free.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	close(s.closing)
	s.using.Wait()
	s.commits.close()
	s.flush()
	s.breaker.release()
	s.removals.stop()
	err := closePebble(s.db, s.breaker)
	s.anchor.close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	if err != nil {
		return fmt.Errorf("close data directory %s: %w", s.dir, err)
	}
	return nil
}

// flush turns a long write-ahead log into a table, so that the next Open need not
// replay it. A short one is replayed faster than flushed: Open writes a table and
// a manifest anyway. What was acknowledged is durable either way.
func (s *Store) flush() {
	if s.commits.written < flushFrom || s.breaker.check() != nil {
		return
	}
	if flushed, err := s.db.AsyncFlush(); err == nil {
		select {
		case <-flushed:
		case <-s.breaker.broken:
		}
	}
}

func closePebble(db *pebble.DB, b *breaker) error {
	closed := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				closed <- fmt.Errorf("close store: %v", p)
			}
		}()
		closed <- db.Close()
	}()
	select {
	case err := <-closed:
		return err
	case <-b.broken:
	}
	select {
	case <-closed:
	case <-time.After(grace):
	}
	// The caller has heard of the failure already, from the write that failed.
	return nil
}

func errClosed(dir string) error { return fmt.Errorf("%w: %s", runelog.ErrClosed, dir) }
