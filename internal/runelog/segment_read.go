package runelog

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
)

// Segment reads a segment file.
type Segment struct {
	r      *bufio.Reader
	sum    hash.Hash
	zstd   *zstd.Decoder
	offset int64 // of the frame being read, to say where damage is
	next   int64
	meta   Meta
	check  *Checker
	blob   *pendingBlob
	stored []byte
}

// pendingBlob collects the chunks of the payload of the next rune.
type pendingBlob struct {
	Blob
	content []byte
}

// ReadSegment reads the start of a segment. Close it when done.
func ReadSegment(r io.Reader) (*Segment, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxFrameRaw))
	if err != nil {
		return nil, fmt.Errorf("start decompressor: %w", err)
	}
	s := &Segment{r: bufio.NewReader(r), sum: sha256.New(), zstd: dec}
	if err := s.open(); err != nil {
		dec.Close()
		return nil, err
	}
	return s, nil
}

// Close frees what the reader holds; it does not close the underlying reader.
func (s *Segment) Close() { s.zstd.Close() }

// Meta returns the log's metadata.
func (s *Segment) Meta() Meta { return s.meta }

// Runes yields every rune with its payload resolved. Only when it ends without
// an error is the file known to be whole; damage is reported as an error
// wrapping ErrCorrupt that says at which byte.
func (s *Segment) Runes() iter.Seq2[Rune, error] {
	return func(yield func(Rune, error) bool) {
		for {
			start := s.sum.Sum(nil)
			kind, raw, err := s.frame()
			if err == nil && kind == frameFooter {
				err = s.footer(raw, start)
				if err == nil {
					return
				}
			}
			if err == nil {
				var more bool
				if more, err = s.deliver(kind, raw, yield); err == nil && !more {
					return
				}
			}
			if err != nil {
				yield(Rune{}, s.damaged(err))
				return
			}
		}
	}
}

func (s *Segment) damaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errTruncated
	}
	return fmt.Errorf("%w: segment of log %q, byte %d: %w", ErrCorrupt, s.meta.Log, s.offset, err)
}

func (s *Segment) open() error {
	magic := make([]byte, len(segmentMagic))
	if _, err := io.ReadFull(s.r, magic); err != nil {
		return s.damaged(err)
	}
	s.sum.Write(magic)
	s.offset, s.next = 0, int64(len(magic))
	if last := len(magic) - 1; string(magic) != segmentMagic {
		if string(magic[:last]) == segmentMagic[:last] && magic[last] > segmentMagic[last] {
			return fmt.Errorf("%w: segment version %d", ErrVersion, magic[last])
		}
		return s.damaged(errors.New("not a segment file"))
	}
	kind, raw, err := s.frame()
	if err != nil {
		return s.damaged(err)
	}
	if kind != frameMeta {
		return s.damaged(errors.New("no header"))
	}
	if err := json.Unmarshal(raw, &s.meta, json.RejectUnknownMembers(false)); err != nil {
		return s.damaged(fmt.Errorf("header: %w", err))
	}
	if err := CheckName(s.meta.Log); err != nil {
		return s.damaged(err)
	}
	s.check = NewChecker(s.meta.Log, Head{})
	return nil
}

// frame reads the next frame and returns its decompressed payload.
func (s *Segment) frame() (kind byte, raw []byte, err error) {
	s.offset = s.next
	var header [frameHeader]byte
	if _, err := io.ReadFull(s.r, header[:]); err != nil {
		return 0, nil, err
	}
	size := binary.LittleEndian.Uint32(header[:])
	if size > maxFrameStored {
		return 0, nil, fmt.Errorf("frame of %d bytes, at most %d", size, maxFrameStored)
	}
	if uint32(cap(s.stored)) < size {
		s.stored = make([]byte, size)
	}
	s.stored = s.stored[:size]
	if _, err := io.ReadFull(s.r, s.stored); err != nil {
		return 0, nil, err
	}
	sum := crc32.Update(crc32.Checksum(header[8:], castagnoli), castagnoli, s.stored)
	if sum != binary.LittleEndian.Uint32(header[4:]) {
		return 0, nil, errors.New("checksum does not match")
	}
	s.sum.Write(header[:])
	s.sum.Write(s.stored)
	s.next += int64(frameHeader) + int64(size)
	raw, err = s.zstd.DecodeAll(s.stored, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("decompress: %w", err)
	}
	return header[8], raw, nil
}

func (s *Segment) deliver(kind byte, raw []byte, yield func(Rune, error) bool) (more bool, err error) {
	switch kind {
	case frameBlob:
		return true, s.chunk(raw)
	case frameRunes:
		return s.lines(raw, yield)
	default:
		return false, fmt.Errorf("unexpected frame type %q", kind)
	}
}

func (s *Segment) chunk(raw []byte) error {
	if len(raw) <= chunkHeader {
		return errors.New("blob chunk is too short")
	}
	blob := Blob{SHA256: hex.EncodeToString(raw[:32]), Size: int64(binary.LittleEndian.Uint64(raw[32:]))}
	offset, data := binary.LittleEndian.Uint64(raw[40:]), raw[chunkHeader:]
	if s.blob == nil {
		s.blob = &pendingBlob{Blob: blob}
	}
	b := s.blob
	switch {
	case b.Blob != blob || offset != uint64(len(b.content)):
		return errors.New("blob chunk out of order")
	case blob.Size > MaxBlob || int64(len(b.content)+len(data)) > blob.Size:
		return errors.New("blob is larger than it says or than the limit")
	}
	b.content = append(b.content, data...)
	return nil
}

func (s *Segment) lines(raw []byte, yield func(Rune, error) bool) (more bool, err error) {
	text := string(raw)
	for start := 0; start < len(raw); {
		n := bytes.IndexByte(raw[start:], '\n')
		if n < 0 {
			return false, errors.New("rune without line end")
		}
		end := start + n
		r, err := decode(raw[start:end:end], text[start:end])
		if err == nil {
			err = s.check.Check(&r)
		}
		if err == nil {
			err = s.attach(&r)
		}
		if err != nil {
			return false, err
		}
		if !yield(r, nil) {
			return false, nil
		}
		start = end + 1
	}
	if s.blob != nil {
		return false, errors.New("blob without a rune")
	}
	return true, nil
}

// attach gives the rune the blob that came right before it.
func (s *Segment) attach(r *Rune) error {
	named, isRef := BlobOf(r.Payload)
	if !isRef && bytes.HasPrefix(r.Payload, []byte(blobMember)) {
		return Damaged(r.Log, r.Seq, "malformed blob reference")
	}
	if !isRef && s.blob == nil {
		return nil
	}
	if !isRef || s.blob == nil || s.blob.Blob != named || int64(len(s.blob.content)) != named.Size {
		return Damaged(r.Log, r.Seq, "its blob is missing or incomplete")
	}
	if sum := sha256.Sum256(s.blob.content); hex.EncodeToString(sum[:]) != named.SHA256 {
		return Damaged(r.Log, r.Seq, "blob does not match its name")
	}
	r.Payload, r.blob, s.blob = s.blob.content, &named, nil
	return nil
}

func (s *Segment) footer(raw, sumBefore []byte) error {
	var f segmentFooter
	if err := json.Unmarshal(raw, &f, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	head := s.check.Head()
	switch {
	case head.Seq == 0:
		return errors.New("no runes")
	case f.SHA256 != hex.EncodeToString(sumBefore):
		return errors.New("the checksum of the whole file does not match")
	case f.Runes != head.Seq || f.Head != head.Hash.String() || s.meta.Seq != head.Seq:
		return fmt.Errorf("footer says %d runes, header %d, found %d", f.Runes, s.meta.Seq, head.Seq)
	case s.blob != nil:
		return errors.New("blob without a rune")
	}
	s.offset = s.next
	_, err := s.r.ReadByte()
	switch {
	case err == nil:
		return errors.New("bytes after the footer")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}
