package pebble

import (
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// quietStart is how long after opening old files stay where they are.
	quietStart = time.Second
	// maxOld is how many old files may wait; what comes beyond goes at once.
	maxOld = 24
)

// markerPrefix is that of empty files whose names say something. They cost nothing.
const markerPrefix = "marker."

// removals puts off removing what the store no longer needs until it has been
// open for a while. Each Open makes a few files old, and where the disk is told of
// every block given free, removing one takes longer than a commit. So a short
// command leaves them; the next Open finds them again, as it does after a crash.
type removals struct {
	fs      vfs.FS
	breaker *breaker
	timer   *time.Timer
	busy    sync.Mutex // held while the timer's work runs
	stopped bool       // guarded by busy

	mu   sync.Mutex
	old  []string
	over bool // nothing waits any more
}

func newRemovals(fs vfs.FS, b *breaker) *removals {
	r := &removals{fs: fs, breaker: b}
	r.timer = time.AfterFunc(quietStart, r.catchUp)
	return r
}

// remove removes the file, now or later. The store never uses a name twice.
func (r *removals) remove(name string) error {
	if r.wait(name) {
		return nil
	}
	return r.fs.Remove(name)
}

func (r *removals) wait(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || len(r.old) == maxOld || strings.HasPrefix(r.fs.PathBase(name), markerPrefix) {
		return false
	}
	r.old = append(r.old, name)
	return true
}

// stop leaves what still waits, and waits for a removal under way.
func (r *removals) stop() {
	r.timer.Stop()
	r.busy.Lock()
	defer r.busy.Unlock()
	r.stopped = true
}

// catchUp removes what waits. A broken store stays as it is.
func (r *removals) catchUp() {
	r.busy.Lock()
	defer r.busy.Unlock()
	if r.stopped {
		return
	}
	r.mu.Lock()
	old := r.old
	r.old, r.over = nil, true
	r.mu.Unlock()
	for _, name := range old {
		if r.breaker.check() != nil {
			return
		}
		_ = r.fs.Remove(name) // one that stays is harmless
	}
}
