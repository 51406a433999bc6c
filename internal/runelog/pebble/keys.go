package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"stave/internal/runelog"
)

// Keys are a table letter, the log's name and, for the tables that hold many
// entries of one log, a zero byte and the seq in big endian. Names hold no zero
// byte, so one log's entries are contiguous and in order.
const (
	headTable     = 'h'
	runeTable     = 'r'
	snapshotTable = 's'
)

func headKey(log string) []byte { return appendHeadKey(nil, log) }

func appendHeadKey(key []byte, log string) []byte { return append(append(key, headTable), log...) }

func seqKey(table byte, log string, seq uint64) []byte {
	key := make([]byte, 0, seqKeyLen(log))
	return appendSeqKey(key, table, log, seq)
}

func seqKeyLen(log string) int { return 1 + len(log) + 1 + 8 }

func appendSeqKey(key []byte, table byte, log string, seq uint64) []byte {
	key = append(key, table)
	key = append(key, log...)
	key = append(key, 0)
	return binary.BigEndian.AppendUint64(key, seq)
}

// span returns the bounds of all of one log's entries in a table.
func span(table byte, log string) (start, end []byte) {
	start = append(append([]byte{table}, log...), 0)
	end = append(append([]byte{table}, log...), 1)
	return start, end
}

// entry is a log's record in the head table.
type entry struct {
	head   runelog.Head
	status runelog.Status
	meta   runelog.Meta
}

const (
	entryVersion = 1
	entryFixed   = 1 + 1 + 8 + 8 + len(runelog.Hash{}) // version, flags, seq, epoch, hash

	flagSealed   = 1
	flagClosed   = 2
	flagArchived = 4
)

func (e *entry) append(b []byte) ([]byte, error) {
	var flags byte
	if e.status.Sealed {
		flags |= flagSealed
	}
	if e.status.Closed {
		flags |= flagClosed
	}
	if e.status.Archived {
		flags |= flagArchived
	}
	b = append(b, entryVersion, flags)
	b = binary.BigEndian.AppendUint64(b, e.head.Seq)
	b = binary.BigEndian.AppendUint64(b, e.head.Epoch)
	b = append(b, e.head.Hash[:]...)
	return runelog.AppendMeta(b, &e.meta)
}

var errEntry = errors.New("unreadable head record")

func decodeEntry(b []byte) (entry, error) {
	if len(b) < entryFixed || b[0] != entryVersion {
		return entry{}, errEntry
	}
	var e entry
	e.status = runelog.Status{
		Sealed: b[1]&flagSealed != 0, Closed: b[1]&flagClosed != 0, Archived: b[1]&flagArchived != 0,
	}
	e.head.Seq = binary.BigEndian.Uint64(b[2:])
	e.head.Epoch = binary.BigEndian.Uint64(b[10:])
	copy(e.head.Hash[:], b[18:])
	if err := json.Unmarshal(b[entryFixed:], &e.meta); err != nil {
		return entry{}, fmt.Errorf("%w: %w", errEntry, err)
	}
	return e, nil
}
