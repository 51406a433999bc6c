package runelog

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// benchDraft makes runes of about 300 canonical bytes beyond the hash and ids.
func benchDraft() Rune {
	return Rune{
		Path: "agent:agt_1/turn:1", Kind: "turn.assistant_delta", From: "streaming", To: "streaming",
		Visibility: Public, By: "engine", Cause: 12, Payload: jsontext.Value(`{"text":"` + strings.Repeat("word ", 8) + `"}`),
	}
}

func BenchmarkStamp(b *testing.B) {
	c := NewChain("conv_0123456789abcdef", Head{Seq: 41})
	drafts := []Rune{benchDraft()}
	b.ReportAllocs()
	for b.Loop() {
		runes, err := c.Stamp(drafts, 1_700_000_000_000)
		if err != nil {
			b.Fatal(err)
		}
		c.Advance(runes)
	}
}

// BenchmarkDecodeBlock decodes and hashes.
func BenchmarkDecodeBlock(b *testing.B) {
	const n = 200
	c := NewChain("conv_0123456789abcdef", Head{})
	drafts := make([]Rune, n)
	for i := range drafts {
		drafts[i] = benchDraft()
	}
	runes, err := c.Stamp(drafts, 1_700_000_000_000)
	if err != nil {
		b.Fatal(err)
	}
	var block []byte
	var ends []int
	for _, r := range runes {
		block = append(block, r.Raw()...)
		ends = append(ends, len(block))
	}
	var decoded []Rune
	b.SetBytes(int64(len(block)))
	b.ReportAllocs()
	for b.Loop() {
		if decoded, err = DecodeBlock(decoded[:0], block, ends); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(block)/n), "bytes/rune")
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "runes/s")
}
