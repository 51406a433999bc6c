package runelog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Chain turns drafts into stamped runes of one log. It is used by the log's one
// writer and is not safe for concurrent use.
type Chain struct {
	log  string
	head Head
}

// NewChain continues the log after head.
func NewChain(log string, head Head) *Chain { return &Chain{log: log, head: head} }

// Head returns the end of the log as far as Advance has moved it.
func (c *Chain) Head() Head { return c.head }

// Stamp returns the drafts with version, sequence number, id, log, time,
// previous hash, canonical bytes and hash filled in. The drafts stay as they
// are, and so does the head: once the batch is stored, Advance moves it. A
// payload over MaxInline is refused; see Offload.
func (c *Chain) Stamp(drafts []Rune, nowMs int64) ([]Rune, error) {
	stamped := make([]Rune, len(drafts))
	head, size := c.head, 0
	for i := range drafts {
		r := &stamped[i]
		*r = drafts[i]
		payload, err := canonicalPayload(r.Payload)
		if err != nil {
			return nil, fmt.Errorf("stamp %s: %w", r.Kind, err)
		}
		if len(payload) > MaxInline {
			return nil, fmt.Errorf("stamp %s: %w: payload of %d bytes, at most %d inline", r.Kind, ErrTooLarge, len(payload), MaxInline)
		}
		r.Payload = payload
		size += sizeHint(r) + idLen + len(c.log) + 2*len(Hash{})
	}
	// One allocation holds the bytes of the whole batch; if escapes make it grow,
	// earlier runes keep the old array.
	arena := make([]byte, 0, size)
	for i := range stamped {
		r := &stamped[i]
		r.V, r.Seq, r.Log, r.TSMs = Version, head.Seq+1, c.log, nowMs
		r.ID, r.Prev = names(c.log, head, nowMs)
		start := len(arena)
		var err error
		if arena, err = appendRune(arena, r); err != nil {
			return nil, fmt.Errorf("stamp %s: %w", r.Kind, err)
		}
		r.raw = arena[start:len(arena):len(arena)]
		r.hash = sha256.Sum256(r.raw)
		head.Seq, head.Hash = r.Seq, r.hash
	}
	return stamped, nil
}

// Advance moves the head behind stamped runes that are stored now.
func (c *Chain) Advance(stamped []Rune) {
	if n := len(stamped); n > 0 {
		c.head.Seq, c.head.Hash = stamped[n-1].Seq, stamped[n-1].hash
	}
}

const (
	idPrefix = "run_"
	idLen    = len(idPrefix) + 32
)

// names returns the id of the rune after head, and head's hash in hex. The id is
// a UUIDv7 whose random bits come from that hash: as good as random between
// logs, free, and the same when the same step is replayed.
func names(log string, head Head, nowMs int64) (id, prev string) {
	var bits [16]byte
	seed := head.Hash
	if head.Seq == 0 {
		seed = sha256.Sum256([]byte(log))
	}
	copy(bits[6:], seed[:])
	for i := range 6 {
		bits[i] = byte(nowMs >> (40 - 8*i))
	}
	const versionBits, variantBits = 0x70, 0x80
	bits[6] = versionBits | bits[6]&0x0f
	bits[8] = variantBits | bits[8]&0x3f
	var text [idLen + 2*len(head.Hash)]byte
	copy(text[:], idPrefix)
	hex.Encode(text[len(idPrefix):], bits[:])
	hex.Encode(text[idLen:], head.Hash[:])
	both := string(text[:])
	return both[:idLen], both[idLen:]
}
