package pebble

import (
	"fmt"
	"sync"

	"stave/internal/runelog"
)

// breaker remembers the first failed write of a store. From then on the store is
// read-only: what a disk did with a failed write or sync is unknown, and trying
// again on the same handle can report success for data that is gone.
type breaker struct {
	once     sync.Once
	err      error
	broken   chan struct{} // closed by trip; err is set before
	leaving  sync.Once
	released chan struct{} // closed when the store is being closed
}

func newBreaker() *breaker {
	return &breaker{broken: make(chan struct{}), released: make(chan struct{})}
}

// trip makes the store read-only because of err; only the first cause is kept.
func (b *breaker) trip(err error) {
	b.once.Do(func() {
		b.err = err
		close(b.broken)
	})
}

// check returns nil, or an error wrapping ErrReadOnly and the cause.
func (b *breaker) check() error {
	select {
	case <-b.broken:
		return fmt.Errorf("%w: %w", runelog.ErrReadOnly, b.err)
	default:
		return nil
	}
}

// release lets operations go that were held back since the store broke.
func (b *breaker) release() { b.leaving.Do(func() { close(b.released) }) }

// quietLogger receives what Pebble has to say. Its own logger would end the
// process on a fatal error; ours breaks the store and lets Pebble return.
type quietLogger struct{ breaker *breaker }

// Infof implements pebble.Logger.
func (quietLogger) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (quietLogger) Errorf(string, ...any) {}

// Fatalf implements pebble.Logger.
func (l quietLogger) Fatalf(format string, args ...any) {
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			l.breaker.trip(fmt.Errorf("store: %w", err))
		}
	}
	l.breaker.trip(fmt.Errorf("store: "+format, args...))
}
