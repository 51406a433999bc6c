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
		r.ID = runeID(c.log, head, nowMs)
		r.Prev = head.Hash.String()
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

// runeID is a UUIDv7 whose random bits come from the hash before it: as good as
// random between logs, free, and the same when the same step is replayed.
func runeID(log string, head Head, nowMs int64) string {
	var id [16]byte
	seed := head.Hash
	if head.Seq == 0 {
		seed = sha256.Sum256([]byte(log))
	}
	copy(id[6:], seed[:])
	for i := range 6 {
		id[i] = byte(nowMs >> (40 - 8*i))
	}
	const versionBits, variantBits = 0x70, 0x80
	id[6] = versionBits | id[6]&0x0f
	id[8] = variantBits | id[8]&0x3f
	var text [idLen]byte
	copy(text[:], idPrefix)
	hex.Encode(text[len(idPrefix):], id[:])
	return string(text[:])
}
