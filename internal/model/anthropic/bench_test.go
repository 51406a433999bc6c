package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"stave/internal/model"
)

// rounds is a conversation of so many rounds with a tool.
func rounds(n int, text string) model.Request {
	r := question()
	r.CacheKey, r.System = "conv", strings.Repeat("Be brief. ", 100)
	for i := range 12 {
		r.Tools = append(r.Tools, model.ToolSpec{
			Name: fmt.Sprint("tool_", i), Description: strings.Repeat("Does something. ", 30),
			Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","description":"of a file"}},"required":["path"],"additionalProperties":false}`),
		})
	}
	for i := range n {
		id := fmt.Sprintf("call_%d", i)
		r.Messages = append(
			r.Messages,
			assistant(said("I read."), model.Part{Call: &model.ToolCall{ID: id, Name: "read", Args: json.RawMessage(`{"path":"a.txt"}`)}}),
			results(result(id, text)),
		)
	}
	return r
}

// benchmarkBody writes requests that come one after another, each with a round
// more than the one before, as far as they are the last of n rounds.
func benchmarkBody(b *testing.B, n int, text string) {
	p, r := New(Options{APIKey: testKey}), rounds(n, text)
	all := r.Messages
	b.ReportAllocs()
	for b.Loop() {
		for _, cut := range []int{2, 0} {
			r.Messages = all[:max(len(all)-cut, 1)]
			if _, err := p.body(r, true); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkBody1(b *testing.B)   { benchmarkBody(b, 0, "") }
func BenchmarkBody100(b *testing.B) { benchmarkBody(b, 100, "ok") }

// BenchmarkBodyLong has about 800 KB.
func BenchmarkBodyLong(b *testing.B) {
	benchmarkBody(b, 200, strings.Repeat("a line of the file\n", 210))
}

// BenchmarkBodyLibrary100 is BenchmarkBody100 with the types of Anthropic's library.
func BenchmarkBodyLibrary100(b *testing.B) {
	p, r := New(Options{APIKey: testKey}), rounds(100, "ok")
	b.ReportAllocs()
	for b.Loop() {
		for range 2 {
			if _, err := p.sdkBody(r, true); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkBodyLibrary1 is BenchmarkBody1 with the types of Anthropic's library.
func BenchmarkBodyLibrary1(b *testing.B) {
	p, r := New(Options{APIKey: testKey}), rounds(0, "")
	b.ReportAllocs()
	for b.Loop() {
		for range 2 {
			if _, err := p.sdkBody(r, true); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkRead reads an answer of ten thousand deltas.
func BenchmarkRead(b *testing.B) {
	delta := `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" and some words"}}`
	stream := events(hello, text0) + strings.Repeat(frame(delta), 10_000) + events(stop0, ended, bye)
	p := New(Options{APIKey: testKey})
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if err := p.read(strings.NewReader(stream), nil, func(model.Event) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
