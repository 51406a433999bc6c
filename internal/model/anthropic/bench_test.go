package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"stave/internal/model"
)

// BenchmarkBody encodes a conversation of two hundred rounds and about 800 KB.
func BenchmarkBody(b *testing.B) {
	r := question()
	for i := range 200 {
		id := fmt.Sprintf("call_%d", i)
		r.Messages = append(
			r.Messages,
			assistant(said("I read."), model.Part{Call: &model.ToolCall{ID: id, Name: "read", Args: json.RawMessage(`{"path":"a.txt"}`)}}),
			results(result(id, strings.Repeat("a line of the file\n", 210))),
		)
	}
	p := New(Options{APIKey: testKey})
	for b.Loop() {
		data, err := p.body(r, true)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(data)))
	}
}

// BenchmarkRead reads an answer of ten thousand deltas.
func BenchmarkRead(b *testing.B) {
	delta := `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" and some words"}}`
	stream := events(hello, text0) + strings.Repeat(sse(delta), 10_000) + events(stop0, ended, bye)
	p := New(Options{APIKey: testKey})
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if err := p.read(strings.NewReader(stream), nil, func(model.Event) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
