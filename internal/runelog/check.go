package runelog

import (
	"fmt"
)

// Checker follows the hash chain of one log: every rune handed to it must come
// right after the one before.
type Checker struct {
	log  string
	seq  uint64
	hash Hash
}

// NewChecker expects the runes of log that come after head.
func NewChecker(log string, head Head) *Checker {
	return &Checker{log: log, seq: head.Seq, hash: head.Hash}
}

// Check accepts r as the next rune, or returns an error wrapping ErrCorrupt that
// names the log and the seq.
func (c *Checker) Check(r *Rune) error {
	switch {
	case r.Seq != c.seq+1:
		return Damaged(c.log, c.seq+1, "found seq %d instead", r.Seq)
	case r.Log != c.log:
		return Damaged(c.log, r.Seq, "rune belongs to log %q", r.Log)
	case !isHex(r.Prev, c.hash):
		return Damaged(c.log, r.Seq, "prev does not match the hash of seq %d", c.seq)
	}
	c.seq, c.hash = r.Seq, r.hash
	return nil
}

// Broken adds where the rune is that could not be read.
func (c *Checker) Broken(err error) error {
	return fmt.Errorf("log %s, seq %d: %w", c.log, c.seq+1, err)
}

// Head returns the seq and hash of the last rune accepted.
func (c *Checker) Head() Head { return Head{Seq: c.seq, Hash: c.hash} }

// Damaged returns an error wrapping ErrCorrupt that says where the log is
// broken and how. The reason may wrap a cause with %w.
func Damaged(log string, seq uint64, reason string, args ...any) error {
	return fmt.Errorf("%w: log %s, seq %d: %w", ErrCorrupt, log, seq, fmt.Errorf(reason, args...))
}

func isHex(text string, h Hash) bool {
	if len(text) != 2*len(h) {
		return false
	}
	for i, b := range h {
		if text[2*i] != hexDigits[b>>4] || text[2*i+1] != hexDigits[b&15] {
			return false
		}
	}
	return true
}
