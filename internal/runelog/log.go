package runelog

import (
	"context"
	"errors"
	"io"
	"iter"
)

// What a store refuses, and why. Adapters wrap these with the log's name and
// what was found.
var (
	ErrConflict    = errors.New("someone else wrote to this log") // After or Epoch is stale
	ErrNotFound    = errors.New("no such log")
	ErrSealed      = errors.New("the log is sealed")
	ErrCorrupt     = errors.New("the log is damaged")
	ErrArchived    = errors.New("the log is archived") // its runes are in cold storage
	ErrLocked      = errors.New("the data directory is in use")
	ErrReadOnly    = errors.New("the log is read-only after a failed write")
	ErrNotSealed   = errors.New("the log is not sealed")
	ErrNotArchived = errors.New("the log is not archived")
	ErrExists      = errors.New("a log of that name exists")
	ErrClosed      = errors.New("the store is closed")
)

// KindArchived is the one kind a sealed log still takes.
const KindArchived = "session.archived"

// Head is where a log ends.
type Head struct {
	Seq   uint64
	Hash  Hash
	Epoch uint64
}

// Meta is what a listing shows of a log without reading it.
type Meta struct {
	Log       string `json:"log"`
	Kind      string `json:"kind"` // session, thread, project
	State     string `json:"state"`
	Title     string `json:"title"`
	CreatedMs int64  `json:"created_ms"`
	UpdatedMs int64  `json:"updated_ms"`
	// WaitsFor says who moves the log on: "person" (a question is open), "work"
	// (a job is due), empty when it rests.
	WaitsFor string  `json:"waits_for,omitzero"`
	CostUSD  float64 `json:"cost_usd"`
	Seq      uint64  `json:"seq"`
	Sealed   bool    `json:"sealed,omitzero"`
	Archived bool    `json:"archived,omitzero"` // runes are in the archive file, not in the store
}

// Batch is what one Append writes: all of it or nothing.
type Batch struct {
	Log   string
	After uint64 // the seq the log must end at; 0 for a new log
	Epoch uint64 // the writer's lease
	Runes []Rune // stamped by a Chain
	Meta  Meta   // replaces the log's metadata in the same atomic write
	Seal  bool   // this batch is the last; only KindArchived may follow
	Sync  bool   // durable before Append returns; else written soon
}

// Snapshot is a saved state that bounds replay. It is an optimisation only:
// deleting every snapshot is harmless.
type Snapshot struct {
	Seq  uint64 // covers runes 1..Seq
	Hash Hash   // of rune Seq
	Data []byte
}

// Blob names a large value by its content.
type Blob struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Log is the port every store implements; internal/conformance holds the suite
// that says what each method promises.
type Log interface {
	// Lease makes the caller the log's only writer: the epoch it returns is one
	// higher than any before, and appends with a lower one are refused.
	Lease(ctx context.Context, log string) (Head, error)
	// Append writes the batch after the given head, all or nothing. Runes of
	// earlier unsynced appends become durable with the first synced one.
	Append(ctx context.Context, b Batch) error
	// Read yields the runes after seq in order, each checked against the hash
	// chain; a fault ends it with an error wrapping ErrCorrupt that names the seq.
	// Payloads kept as blobs are resolved.
	Read(ctx context.Context, log string, after uint64) iter.Seq2[Rune, error]
	// Watch is Read that goes on with runes as they are appended, without gap or
	// repeat, until ctx ends or the log is sealed and read to its end.
	Watch(ctx context.Context, log string, after uint64) iter.Seq2[Rune, error]
	// Head returns the end of the log.
	Head(ctx context.Context, log string) (Head, error)
	// Meta returns the metadata of one log, List that of all, newest update first.
	Meta(ctx context.Context, log string) (Meta, error)
	List(ctx context.Context) iter.Seq2[Meta, error]
	// SaveSnapshot keeps the latest few; Snapshot returns the newest valid one at
	// or below max (0 = any) and false if there is none.
	SaveSnapshot(ctx context.Context, log string, s Snapshot) error
	Snapshot(ctx context.Context, log string, max uint64) (Snapshot, bool, error)
	// PutBlob stores a value under its hash, durable when it returns.
	PutBlob(ctx context.Context, r io.Reader) (Blob, error)
	OpenBlob(ctx context.Context, sha256 string) (io.ReadCloser, error)
	// Archive moves a sealed log's runes into its segment file; metadata stays
	// listed. Restore brings an archived log back from there.
	Archive(ctx context.Context, log string) error
	Restore(ctx context.Context, log string) error
	// OpenArchive opens the segment file of an archived log, to check or copy it
	// where it lies; ErrNotArchived for any other.
	OpenArchive(ctx context.Context, log string) (io.ReadCloser, error)
	// Import adds a log from a segment stream (export format), checked whole
	// before any of it is visible, and returns its name.
	Import(ctx context.Context, r io.Reader) (string, error)
	Close() error
}
