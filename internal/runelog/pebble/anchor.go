package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stave/internal/runelog"
)

// The anchor file says how far each log had been acknowledged. It is written
// after every synced commit, without a sync of its own, and so outlives anything
// but a power cut. Pebble takes a damaged end of its write-ahead log for an
// unfinished write and drops it; only a second witness can tell the difference.
const (
	anchorName = "heads"
	// A file this much larger than its live records is rewritten.
	anchorSlack   = 4 << 20
	maxAnchorFile = 1 << 30
)

// anchorRecord is one acknowledged head.
type anchorRecord struct {
	log  string
	seq  uint64
	hash runelog.Hash
}

// anchor is the file and what it says.
type anchor struct {
	fs  vfs.FS
	dir string

	mu      sync.Mutex
	heads   map[string]anchorHead
	live    int64  // size of the file if it were rewritten
	pending []byte // records for whoever is writing
	writing bool

	// Of the one who writes:
	file  vfs.File
	size  int64
	spare []byte
}

type anchorHead struct {
	seq  uint64
	hash runelog.Hash
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A record is its body's CRC-32C, the body's length in one byte, and the body:
// seq, hash, name of the log.
const (
	recordHeader = 4 + 1
	recordFixed  = 8 + len(runelog.Hash{})
)

func recordLen(log string) int64 { return int64(recordHeader + recordFixed + len(log)) }

func appendRecord(b []byte, r anchorRecord) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(recordFixed+len(r.log)))
	b = binary.LittleEndian.AppendUint64(b, r.seq)
	b = append(b, r.hash[:]...)
	b = append(b, r.log...)
	binary.LittleEndian.PutUint32(b[start:], crc32.Checksum(b[start+4:], castagnoli))
	return b
}

// parseRecord returns the record at the start of b and its length, 0 if there is
// no whole one.
func parseRecord(b []byte) (anchorRecord, int) {
	if len(b) < recordHeader+recordFixed {
		return anchorRecord{}, 0
	}
	n := recordHeader + int(b[4])
	if n < recordHeader+recordFixed || n > len(b) || binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:n], castagnoli) {
		return anchorRecord{}, 0
	}
	r := anchorRecord{seq: binary.LittleEndian.Uint64(b[recordHeader:]), log: string(b[recordHeader+recordFixed : n])}
	copy(r.hash[:], b[recordHeader+8:])
	return r, n
}

// openAnchor reads the file and makes it ready for appending. A torn end, left
// by a killed process, is cut off.
func openAnchor(fs vfs.FS, dir string) (*anchor, error) {
	a := &anchor{fs: fs, dir: dir, heads: map[string]anchorHead{}}
	content, err := readFile(fs, a.path(), maxAnchorFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", a.path(), err)
	}
	rest := content
	for {
		r, n := parseRecord(rest)
		if n == 0 {
			break
		}
		rest = rest[n:]
		a.note(r)
	}
	a.size = int64(len(content))
	if len(rest) > 0 || a.size > a.live+anchorSlack || err != nil {
		return a, a.rewrite()
	}
	if a.file, err = fs.OpenReadWrite(a.path(), vfs.WriteCategoryUnspecified); err != nil {
		return nil, fmt.Errorf("open %s: %w", a.path(), err)
	}
	return a, nil
}

func (a *anchor) path() string { return a.fs.PathJoin(a.dir, anchorName) }

func (a *anchor) note(r anchorRecord) {
	if _, known := a.heads[r.log]; !known {
		a.live += recordLen(r.log)
	}
	a.heads[r.log] = anchorHead{seq: r.seq, hash: r.hash}
}

// head returns what is known of a log.
func (a *anchor) head(log string) (anchorHead, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, ok := a.heads[log]
	return h, ok
}

// unlisted returns the logs that the anchor knows and a listing lacks, given how
// many of the listed ones it knows.
func (a *anchor) unlisted(listed []*runelog.Meta, known int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known == len(a.heads) {
		return nil
	}
	present := make(map[string]bool, len(listed))
	for _, meta := range listed {
		present[meta.Log] = true
	}
	var logs []string
	for log := range a.heads {
		if !present[log] {
			logs = append(logs, log)
		}
	}
	return logs
}

// append notes heads that are durable. Whoever finds nobody writing writes for
// all; the others need not wait, for a record that is late only makes the
// witness a little weaker.
func (a *anchor) append(group []*write) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range group {
		if w.head.log != "" {
			a.note(w.head)
			a.pending = appendRecord(a.pending, w.head)
		}
	}
	if a.writing {
		return nil
	}
	a.writing = true
	defer func() { a.writing = false }()
	for len(a.pending) > 0 {
		if a.size+int64(len(a.pending)) > a.live+anchorSlack {
			a.pending = a.pending[:0]
			return a.rewrite()
		}
		records := a.pending
		a.pending, a.spare = a.spare[:0], records
		a.mu.Unlock()
		_, err := a.file.WriteAt(records, a.size)
		a.mu.Lock()
		if err != nil {
			return fmt.Errorf("write %s: %w", a.path(), err)
		}
		a.size += int64(len(records))
	}
	return nil
}

// rewrite replaces the file by one that holds each log once.
func (a *anchor) rewrite() error {
	content := make([]byte, 0, a.live)
	for log, h := range a.heads {
		content = appendRecord(content, anchorRecord{log: log, seq: h.seq, hash: h.hash})
	}
	a.close()
	if err := writeFile(a.fs, a.path(), content); err != nil {
		return err
	}
	file, err := a.fs.OpenReadWrite(a.path(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("open %s: %w", a.path(), err)
	}
	a.file, a.size = file, int64(len(content))
	return nil
}

func (a *anchor) close() {
	if a.file != nil {
		a.file.Close()
		a.file = nil
	}
}
