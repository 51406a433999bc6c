package runelog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// blobs is a store of nothing else.
type blobs map[string][]byte

func (b blobs) PutBlob(_ context.Context, r io.Reader) (Blob, error) {
	content, err := io.ReadAll(r)
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	b[name] = content
	return Blob{SHA256: name, Size: int64(len(content))}, err
}

func (b blobs) OpenBlob(_ context.Context, name string) (io.ReadCloser, error) {
	content, ok := b[name]
	if !ok {
		return nil, ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// testLog returns the runes of a log as Read would yield them; every tenth has a
// payload of blobSize bytes.
func testLog(t testing.TB, n, blobSize int) []Rune {
	t.Helper()
	store := blobs{}
	random := rand.New(rand.NewPCG(1, 1))
	drafts := make([]Rune, n)
	for i := range drafts {
		drafts[i] = draft(i + 1)
		if i%10 == 5 && blobSize > 0 {
			noise := make([]byte, blobSize/2)
			for j := range noise {
				noise[j] = byte(random.Uint32())
			}
			drafts[i].Payload = jsontext.Value(`"` + hex.EncodeToString(noise) + `"`)
		}
	}
	ready, err := Offload(t.Context(), store, drafts)
	if err != nil {
		t.Fatal(err)
	}
	runes, err := NewChain("conv_1", Head{}).Stamp(ready, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i := range runes {
		if err := Resolve(t.Context(), store, &runes[i]); err != nil {
			t.Fatal(err)
		}
	}
	return runes
}

func each(runes []Rune) iter.Seq2[Rune, error] {
	return func(yield func(Rune, error) bool) {
		for _, r := range runes {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func writeSegment(t testing.TB, runes []Rune) []byte {
	t.Helper()
	var file bytes.Buffer
	meta := Meta{Log: "conv_1", Kind: "session", Title: "t", Seq: uint64(len(runes)), Sealed: true}
	head, err := WriteSegment(&file, meta, each(runes))
	if err != nil {
		t.Fatal(err)
	}
	if last := runes[len(runes)-1]; head.Seq != last.Seq || head.Hash != last.Hash() {
		t.Errorf("head %+v", head)
	}
	return file.Bytes()
}

// readSegment reads everything and returns the first error.
func readSegment(file []byte) (Meta, []Rune, error) {
	s, err := ReadSegment(bytes.NewReader(file))
	if err != nil {
		return Meta{}, nil, err
	}
	defer s.Close()
	var runes []Rune
	for r, err := range s.Runes() {
		if err != nil {
			return s.Meta(), runes, err
		}
		runes = append(runes, r)
	}
	return s.Meta(), runes, nil
}

// What is written is read, over many frames and with blobs of many chunks.
func TestSegment(t *testing.T) {
	for _, c := range []struct{ runes, blobSize int }{{1, 0}, {30, 0}, {10_000, 0}, {30, MaxInline + 100}, {12, 3 << 20}} {
		t.Run(fmt.Sprintf("%d runes, blobs of %d", c.runes, c.blobSize), func(t *testing.T) {
			want := testLog(t, c.runes, c.blobSize)
			meta, got, err := readSegment(writeSegment(t, want))
			if err != nil || len(got) != len(want) || meta.Title != "t" || !meta.Sealed {
				t.Fatalf("%d runes, meta %+v, %v", len(got), meta, err)
			}
			for i := range got {
				if got[i].Hash() != want[i].Hash() || !bytes.Equal(got[i].Payload, want[i].Payload) {
					t.Fatalf("seq %d differs", i+1)
				}
				if (got[i].Blob() == nil) != (want[i].Blob() == nil) {
					t.Errorf("seq %d: blob %v, want %v", i+1, got[i].Blob(), want[i].Blob())
				}
			}
		})
	}
}

// Each flipped byte and each cut is found, and the error says where.
func TestSegmentDamage(t *testing.T) {
	file := writeSegment(t, testLog(t, 16, 66_000))
	step := max(1, len(file)/1000)
	small := writeSegment(t, testLog(t, 5, 0))
	for _, c := range []struct {
		file []byte
		step int
	}{{small, 1}, {file, step}} {
		for i := 0; i < len(c.file); i += c.step {
			damaged := bytes.Clone(c.file)
			damaged[i] ^= 1 << (i % 8)
			_, _, err := readSegment(damaged)
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatalf("byte %d: %v", i, err)
			}
			if at := offsetIn(err); at > int64(i) {
				t.Fatalf("byte %d is reported at %d: %v", i, at, err)
			}
			if _, _, err := readSegment(c.file[:i]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("cut at %d: %v", i, err)
			}
		}
		if _, _, err := readSegment(append(bytes.Clone(c.file), 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a byte too many: %v", err)
		}
	}
}

var offsetPattern = regexp.MustCompile(`, byte (\d+):`)

func offsetIn(err error) (at int64) {
	if m := offsetPattern.FindStringSubmatch(err.Error()); m != nil {
		fmt.Sscan(m[1], &at)
	}
	return at
}

// frames cuts a segment into magic and frames.
func frames(file []byte) [][]byte {
	parts := [][]byte{file[:len(segmentMagic)]}
	for rest := file[len(segmentMagic):]; len(rest) > 0; {
		n := frameHeader + int(rest[0]) + int(rest[1])<<8 + int(rest[2])<<16
		parts = append(parts, rest[:n])
		rest = rest[n:]
	}
	return parts
}

// Frames that are whole but missing, doubled or in another order are found.
func TestSegmentFrames(t *testing.T) {
	parts := frames(writeSegment(t, testLog(t, 30, 70_000)))
	if len(parts) < 8 {
		t.Fatalf("only %d frames", len(parts))
	}
	try := func(what string, order ...int) {
		t.Helper()
		var file []byte
		for _, i := range order {
			file = append(file, parts[i]...)
		}
		if _, _, err := readSegment(file); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	all := make([]int, len(parts))
	for i := range all {
		all[i] = i
	}
	for i := 1; i < len(parts); i++ {
		try(fmt.Sprintf("frame %d missing", i), append(append([]int(nil), all[:i]...), all[i+1:]...)...)
		try(fmt.Sprintf("frame %d twice", i), append(append([]int(nil), all[:i+1]...), all[i:]...)...)
		if i+1 < len(parts) {
			swapped := append([]int(nil), all...)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			try(fmt.Sprintf("frames %d and %d swapped", i, i+1), swapped...)
		}
	}
}

// A writer or a source that fails is heard, and a short log is not exported.
func TestWriteSegmentFails(t *testing.T) {
	runes := testLog(t, 20, 70_000)
	meta := Meta{Log: "conv_1", Seq: 20}
	var file bytes.Buffer
	if _, err := WriteSegment(&file, meta, each(runes)); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{0, 5, 100, file.Len() / 2, file.Len() - 1} {
		if _, err := WriteSegment(&limitedWriter{n: limit}, meta, each(runes)); !errors.Is(err, errFull) {
			t.Errorf("full after %d bytes: %v", limit, err)
		}
	}
	if _, err := WriteSegment(io.Discard, meta, each(runes[:19])); !errors.Is(err, ErrCorrupt) {
		t.Errorf("short log: %v", err)
	}
	if _, err := WriteSegment(io.Discard, meta, each(runes[1:])); !errors.Is(err, ErrCorrupt) {
		t.Errorf("log without its start: %v", err)
	}
	file.Reset()
	if _, err := WriteSegment(&file, Meta{Log: "conv_1", Seq: 10}, each(runes)); err != nil {
		t.Errorf("log that has grown since: %v", err)
	}
	if _, got, err := readSegment(file.Bytes()); err != nil || len(got) != 10 {
		t.Errorf("%d runes, %v; want 10", len(got), err)
	}
}

var errFull = errors.New("full")

type limitedWriter struct{ n int }

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.n -= len(p); w.n < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// A resolved payload is the blob's, or the log is damaged.
func TestResolve(t *testing.T) {
	store := blobs{}
	d := draft(1)
	d.Payload = jsontext.Value(`"` + strings.Repeat("x", MaxInline) + `"`)
	ready, err := Offload(t.Context(), store, []Rune{draft(1), d})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Payload) < MaxInline || len(ready[1].Payload) > 200 {
		t.Errorf("payloads of %d and %d bytes", len(d.Payload), len(ready[1].Payload))
	}
	blob, _ := BlobOf(ready[1].Payload)
	good := store[blob.SHA256]
	for name, content := range map[string][]byte{
		"missing": nil, "short": good[:10], "long": append(bytes.Clone(good), 'x'), "changed": bytes.Repeat([]byte("y"), len(good)),
	} {
		store[blob.SHA256] = content
		if content == nil {
			delete(store, blob.SHA256)
		}
		r := ready[1]
		if err := Resolve(t.Context(), store, &r); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, ref := range []string{
		`{"$blob":{}}`, `{"$blob":{"sha256":"x","size":1}}`, `{"$blob":1}`,
		`{"$blob":{"sha256":"` + blob.SHA256 + `","size":-1}}`, `{"$blob":{"sha256":"` + blob.SHA256 + `","size":99999999999}}`,
		`{"$blob":{"sha256":"` + blob.SHA256 + `","size":1},"x":1}`,
	} {
		r := Rune{Log: "l", Seq: 1, Payload: jsontext.Value(ref)}
		if err := Resolve(t.Context(), store, &r); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// FuzzReadSegment: any bytes are read or refused, never with a panic, and what is
// accepted is a whole chain.
func FuzzReadSegment(f *testing.F) {
	small := writeSegment(f, testLog(f, 3, 0))
	f.Add(small)
	f.Add(small[:len(small)-3])
	f.Add(writeSegment(f, testLog(f, 7, 66_000)))
	f.Add([]byte(segmentMagic))
	f.Add([]byte(segmentMagic + "\xff\xff\xff\xff\x00\x00\x00\x00R"))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, runes, err := readSegment(file)
		if err != nil {
			return
		}
		check := NewChecker(runes[0].Log, Head{})
		for i := range runes {
			if err := check.Check(&runes[i]); err != nil {
				t.Fatal(err)
			}
		}
	})
}

var update = flag.Bool("update", false, "rewrite the files in testdata")

// A segment written by the first version is readable for ever.
func TestRecordedSegment(t *testing.T) {
	const path = "testdata/v1.seg"
	if *update {
		if err := os.WriteFile(path, writeSegment(t, testLog(t, 12, 70_000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	meta, runes, err := readSegment(file)
	if err != nil || len(runes) != 12 || meta.Log != "conv_1" {
		t.Fatalf("%d runes of %s, %v", len(runes), meta.Log, err)
	}
	const head = "e7328b0b67186eb52886783163c173314c75999303cb17f9131ffa96f3b4c753"
	if got := runes[11].Hash().String(); got != head {
		t.Errorf("head %s, want %s", got, head)
	}
}
