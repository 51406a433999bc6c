package runelog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
)

// WriteSegment writes runes 1 to meta.Seq, as Read yields them, and returns the
// head they end at. It does not close or sync w.
func WriteSegment(w io.Writer, meta Meta, runes iter.Seq2[Rune, error]) (Head, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return Head{}, fmt.Errorf("start compressor: %w", err)
	}
	defer enc.Close()
	s := &segmentWriter{w: w, sum: sha256.New(), enc: enc, check: NewChecker(meta.Log, Head{})}
	if err := s.open(meta); err != nil {
		return Head{}, err
	}
	if err := s.runes(meta, runes); err != nil {
		return Head{}, err
	}
	return s.check.Head(), s.close()
}

type segmentWriter struct {
	w     io.Writer
	sum   hash.Hash
	enc   *zstd.Encoder
	check *Checker
	lines []byte
	frame []byte
}

func (s *segmentWriter) write(b []byte) error {
	s.sum.Write(b)
	if _, err := s.w.Write(b); err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	return nil
}

func (s *segmentWriter) put(kind byte, raw []byte) error {
	s.frame = append(s.frame[:0], make([]byte, frameHeader)...)
	s.frame[8] = kind
	s.frame = s.enc.EncodeAll(raw, s.frame)
	binary.LittleEndian.PutUint32(s.frame, uint32(len(s.frame)-frameHeader))
	binary.LittleEndian.PutUint32(s.frame[4:], crc32.Checksum(s.frame[8:], castagnoli))
	return s.write(s.frame)
}

func (s *segmentWriter) open(meta Meta) error {
	header, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	if err := s.write([]byte(segmentMagic)); err != nil {
		return err
	}
	return s.put(frameMeta, header)
}

func (s *segmentWriter) runes(meta Meta, runes iter.Seq2[Rune, error]) error {
	for r, err := range runes {
		if err != nil {
			return err
		}
		if r.Seq > meta.Seq {
			break // appended since the metadata was read
		}
		if err := s.add(&r); err != nil {
			return err
		}
	}
	if got := s.check.Head().Seq; got != meta.Seq {
		return Damaged(meta.Log, got+1, "the log should go on to seq %d", meta.Seq)
	}
	return s.flush()
}

func (s *segmentWriter) add(r *Rune) error {
	if err := s.check.Check(r); err != nil {
		return err
	}
	if r.blob != nil || len(s.lines)+len(r.raw)+1 > maxFrameRaw {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if r.blob != nil {
		if err := s.blob(*r.blob, r.Payload); err != nil {
			return err
		}
	}
	s.lines = append(append(s.lines, r.raw...), '\n')
	return nil
}

func (s *segmentWriter) flush() error {
	if len(s.lines) == 0 {
		return nil
	}
	err := s.put(frameRunes, s.lines)
	s.lines = s.lines[:0]
	return err
}

func (s *segmentWriter) blob(b Blob, content []byte) error {
	name, err := hex.DecodeString(b.SHA256)
	if err != nil {
		return fmt.Errorf("blob name: %w", err)
	}
	chunk := make([]byte, 0, min(maxFrameRaw, chunkHeader+len(content)))
	for offset := 0; offset < len(content); {
		n := min(maxFrameRaw-chunkHeader, len(content)-offset)
		chunk = append(chunk[:0], name...)
		chunk = binary.LittleEndian.AppendUint64(chunk, uint64(len(content)))
		chunk = binary.LittleEndian.AppendUint64(chunk, uint64(offset))
		chunk = append(chunk, content[offset:offset+n]...)
		if err := s.put(frameBlob, chunk); err != nil {
			return err
		}
		offset += n
	}
	return nil
}

func (s *segmentWriter) close() error {
	head := s.check.Head()
	footer, err := json.Marshal(segmentFooter{
		Runes: head.Seq, Head: head.Hash.String(), SHA256: hex.EncodeToString(s.sum.Sum(nil)),
	})
	if err != nil {
		return fmt.Errorf("encode footer: %w", err)
	}
	return s.put(frameFooter, footer)
}
