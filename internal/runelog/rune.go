// Package runelog holds the record of what happened: runes, the hash chain that
// binds them, the portable segment file, and the port every store implements.
package runelog

import (
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
)

// Version is the schema version written into every rune. A rune of a later
// version is kept but nothing is written after it.
const Version = 1

// MaxInline is the largest canonical payload a rune carries itself; a larger
// one is stored as a blob and the rune names it.
const MaxInline = 64 << 10

// Visibility says which readers may see a rune.
type Visibility string

// The three visibilities, from everybody to nobody but the owner.
const (
	Public   Visibility = "public"
	Internal Visibility = "internal"
	Secret   Visibility = "secret"
)

// Allows reports whether a reader cleared for v may see a rune of visibility of.
func (v Visibility) Allows(of Visibility) bool { return rank(of) <= rank(v) }

func rank(v Visibility) int {
	switch v {
	case Public:
		return 0
	case Internal:
		return 1
	default:
		return 2
	}
}

// Hash is the SHA-256 of a rune's canonical bytes.
type Hash [32]byte

// String returns the hash as lower-case hex, the form the log and the tools show.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Rune is one recorded fact: one arrow of one machine.
type Rune struct {
	V          int            `json:"v"`
	Seq        uint64         `json:"seq"`
	ID         string         `json:"id"`
	Log        string         `json:"log"`
	Path       string         `json:"path"`
	Kind       string         `json:"kind"`
	From       string         `json:"from"`
	To         string         `json:"to"`
	Visibility Visibility     `json:"visibility"`
	TSMs       int64          `json:"ts_ms"`
	By         string         `json:"by"`
	Cause      uint64         `json:"cause,omitzero"`
	Job        string         `json:"job,omitzero"`
	Payload    jsontext.Value `json:"payload"`
	Tags       []string       `json:"tags,omitempty"`
	Prev       string         `json:"prev"`

	raw  []byte // canonical bytes, set once the rune is stamped or decoded
	hash Hash   // of raw
	blob *Blob  // where Payload came from, if raw only names it
}

// Raw returns the canonical bytes (RFC 8785) of a stamped or decoded rune, nil
// for a draft. The caller must not change them.
func (r Rune) Raw() []byte { return r.raw }

// Hash returns the hash of Raw.
func (r Rune) Hash() Hash { return r.hash }

// Blob returns the blob a read rune's payload was resolved from, nil if the
// payload is in the rune itself.
func (r Rune) Blob() *Blob { return r.blob }
