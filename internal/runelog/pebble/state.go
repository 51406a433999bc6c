package pebble

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"stave/internal/runelog"
)

// maxIdle is how many logs nobody uses are remembered.
const maxIdle = 4096

// state is what the store keeps in memory of a log in use.
type state struct {
	log   string
	users int // guarded by Store.mu

	load   func()     // reads the log's head, once
	writer sync.Mutex // serializes changes to the log

	mu      sync.Mutex
	head    runelog.Head // readers see runes up to here
	status  runelog.Status
	fault   error // why the log cannot be trusted, nil if it can
	changed chan struct{}
	waiting bool // somebody waits for changed

	watchers int
	fresh    []runelog.Rune // the newest, for those who watch: they need not be read back
}

// maxFresh is how many of the newest runes a watched log keeps at hand.
const maxFresh = 16

// enter keeps Pebble open until the caller leaves.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed(s.dir)
	}
	s.using.Add(1)
	return nil
}

func (s *Store) leave() { s.using.Done() }

// acquire enters the store and returns the state of a log, whether it has runes
// or not. The caller leaves the store, and releases the state.
func (s *Store) acquire(ctx context.Context, log string) (*state, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := runelog.CheckName(log); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed(s.dir)
	}
	s.using.Add(1)
	st, ok := s.states[log]
	if !ok {
		st = &state{log: log, changed: make(chan struct{})}
		st.load = sync.OnceFunc(func() { s.inspect(st) })
		s.states[log] = st
	}
	st.users++
	s.mu.Unlock()
	st.load()
	return st, nil
}

// change acquires a log as its only writer.
func (s *Store) change(ctx context.Context, log string) (*state, error) {
	st, err := s.acquire(ctx, log)
	if err != nil {
		return nil, err
	}
	st.writer.Lock()
	return st, nil
}

// done ends what change began.
func (s *Store) done(st *state) {
	st.writer.Unlock()
	s.release(st)
	s.leave()
}

func (s *Store) release(st *state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.users--
	// After a failed write the store may hold runes that were never
	// acknowledged; only the remembered heads hide them.
	if st.users == 0 && (len(s.states) > maxIdle || st.unknown()) && s.breaker.check() == nil {
		delete(s.states, st.log)
	}
}

func (st *state) unknown() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.head.Seq == 0
}

// existing returns the state of a log that has runes. It does not keep the store
// open: a reader may hold a state for as long as it likes.
func (s *Store) existing(ctx context.Context, log string) (*state, error) {
	st, err := s.acquire(ctx, log)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	if err := st.present(); err != nil {
		s.release(st)
		return nil, err
	}
	return st, nil
}

// present returns nil for a log that has runes, or had before it was archived.
func (st *state) present() error {
	head, _, fault := st.view()
	switch {
	case head.Seq > 0:
		return nil
	case fault != nil:
		return fault
	}
	return fmt.Errorf("%w: %s", runelog.ErrNotFound, st.log)
}

func (st *state) view() (runelog.Head, runelog.Status, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.head, st.status, st.fault
}

// blame makes the log read-only if err says that it is damaged.
func (st *state) blame(err error) {
	if !errors.Is(err, runelog.ErrCorrupt) {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.fault == nil {
		st.fault = err
	}
}

// set publishes a change to readers.
func (st *state) set(head runelog.Head, status runelog.Status) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.head, st.status = head, status
	if st.waiting {
		close(st.changed)
		st.changed, st.waiting = make(chan struct{}), false
	}
}

// append publishes new runes to readers.
func (st *state) append(head runelog.Head, status runelog.Status, runes []runelog.Rune) {
	st.mu.Lock()
	if st.watchers > 0 {
		all := append(slices.Clip(st.fresh), runes...) // readers hold the old one
		st.fresh = all[max(0, len(all)-maxFresh):]
	}
	st.mu.Unlock()
	st.set(head, status)
}

// watch counts one more, or less, of those who watch.
func (st *state) watch(more int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.watchers += more; st.watchers == 0 {
		st.fresh = nil
	}
}

// after returns the runes between seq and the head, if all of them are at hand.
func (st *state) after(seq uint64) []runelog.Rune {
	st.mu.Lock()
	defer st.mu.Unlock()
	have := len(st.fresh)
	if have == 0 || st.fresh[have-1].Seq != st.head.Seq || st.fresh[0].Seq > seq+1 {
		return nil
	}
	return st.fresh[have-int(st.head.Seq-seq):]
}

// wait returns the channel that is closed at the next change, or nil if the log
// goes on after seq already or never will.
func (st *state) wait(after uint64) (changed <-chan struct{}, sealed bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.head.Seq > after:
		return nil, false
	case st.status.Sealed || st.status.Archived || st.fault != nil:
		return nil, true
	}
	st.waiting = true
	return st.changed, false
}

// inspect reads a log's head from the store and holds it against the anchor and
// the last rune.
func (s *Store) inspect(st *state) {
	e, err := s.entry(st.log)
	if err != nil && !errors.Is(err, runelog.ErrNotFound) {
		st.fault = err
		return
	}
	st.head, st.status = e.head, e.status
	if st.fault = s.compareAnchor(st.log, e); st.fault == nil && e.head.Seq > 0 && !e.status.Archived {
		st.fault = s.compareLast(st.log, e.head)
	}
}

func (s *Store) compareAnchor(log string, e entry) error {
	known, ok := s.anchor.head(log)
	switch {
	case !ok:
		return nil
	case e.head.Seq < known.seq:
		return runelog.Damaged(log, e.head.Seq+1,
			"acknowledged runes are missing: the store ends at seq %d, seq %d had been written", e.head.Seq, known.seq)
	case e.head.Seq == known.seq && e.head.Hash != known.hash:
		return runelog.Damaged(log, known.seq, "the head's hash is not the one acknowledged")
	case e.head.Seq == known.seq || e.status.Archived:
		return nil
	}
	raw, err := s.raw(log, known.seq)
	if err != nil {
		return err
	}
	if sha256.Sum256(raw) != known.hash {
		return runelog.Damaged(log, known.seq, "its hash is not the one acknowledged")
	}
	return nil
}

func (s *Store) compareLast(log string, head runelog.Head) error {
	raw, err := s.raw(log, head.Seq)
	if err != nil {
		return err
	}
	last, err := runelog.Decode(raw)
	switch {
	case last.Hash() != head.Hash:
		return runelog.Damaged(log, head.Seq, "the last rune does not match the head's hash")
	case err != nil:
		return fmt.Errorf("log %s, seq %d: %w", log, head.Seq, err)
	}
	return nil
}

// entry reads a log's head record.
func (s *Store) entry(log string) (entry, error) {
	value, closer, err := s.db.Get(headKey(log))
	if errors.Is(err, pebble.ErrNotFound) {
		return entry{}, fmt.Errorf("%w: %s", runelog.ErrNotFound, log)
	}
	if err != nil {
		return entry{}, readError(log, 0, err)
	}
	defer closer.Close()
	e, err := decodeEntry(value)
	if err != nil {
		return entry{}, runelog.Damaged(log, 0, "%w", err)
	}
	return e, nil
}

// raw reads the bytes of one rune.
func (s *Store) raw(log string, seq uint64) ([]byte, error) {
	value, closer, err := s.db.Get(seqKey(runeTable, log, seq))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, s.missing(log, seq)
	}
	if err != nil {
		return nil, readError(log, seq, err)
	}
	defer closer.Close()
	return append([]byte(nil), value...), nil
}

// missing says why a rune is not there: the log may have been archived since the
// reader began.
func (s *Store) missing(log string, seq uint64) error {
	if e, err := s.entry(log); err == nil && e.status.Archived {
		return fmt.Errorf("%w: %s", runelog.ErrArchived, log)
	}
	return runelog.Damaged(log, seq, "the rune is missing")
}

// readError tells damage from a disk that does not answer.
func readError(log string, seq uint64, err error) error {
	if pebble.IsCorruptionError(err) {
		return runelog.Damaged(log, seq, "%w", err)
	}
	return fmt.Errorf("read log %s, seq %d: %w", log, seq, err)
}
