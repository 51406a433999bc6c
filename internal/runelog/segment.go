package runelog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A segment file carries one log: export, archive and import share the format.
//
//	magic and version, then frames:
//	  length of payload   u32 little endian
//	  CRC-32C             u32 little endian, of type and payload
//	  type                one byte
//	  payload             zstd
//
// The header frame holds the metadata, rune frames hold canonical runes, one a
// line. A payload kept as a blob comes in chunks right before the frame whose
// first rune names it. The footer holds the number of runes, the hash of the
// last and the SHA-256 of every byte before the footer frame; nothing follows.
const (
	segmentMagic = "STAVELOG\x01"

	frameHeader = 9
	maxFrameRaw = 1 << 20
	// zstd may expand what it cannot compress, by far less than this.
	maxFrameStored = maxFrameRaw + 64<<10
	chunkHeader    = 32 + 8 + 8 // SHA-256, size, offset
)

const (
	frameMeta   = 'H'
	frameRunes  = 'R'
	frameBlob   = 'B'
	frameFooter = 'F'
)

type segmentFooter struct {
	Runes  uint64 `json:"runes"`
	Head   string `json:"head"`
	SHA256 string `json:"sha256"`
}

// castagnoli is the polynomial with hardware support.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errTruncated = errors.New("the file ends early")

// Export writes the log as a segment: all runes up to the present head and the
// blobs they use.
func Export(ctx context.Context, l Log, log string, w io.Writer) error {
	meta, err := l.Meta(ctx, log)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if meta.Archived {
		return exportArchive(ctx, l, log, w)
	}
	if _, err := WriteSegment(w, meta, l.Read(ctx, log, 0)); err != nil {
		return fmt.Errorf("export %s: %w", log, err)
	}
	return nil
}

// exportArchive checks the segment while it copies it.
func exportArchive(ctx context.Context, l Log, log string, w io.Writer) error {
	f, err := l.OpenArchive(ctx, log)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer f.Close()
	segment, err := ReadSegment(io.TeeReader(f, w))
	if err != nil {
		return fmt.Errorf("export %s: %w", log, err)
	}
	defer segment.Close()
	for _, err := range segment.Runes() {
		if err != nil {
			return fmt.Errorf("export %s: %w", log, err)
		}
	}
	return nil
}
