package sse

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
)

var usual = Limits{Event: 1 << 20, Stream: 1 << 20, Events: 1000}

// all reads a stream and writes its events and its end as lines.
func all(r *Reader) []string {
	var got []string
	for {
		ev, err := r.Next()
		switch {
		case err == nil:
			got = append(got, ev.Name+"|"+string(ev.Data))
		case errors.Is(err, ErrUnfinished):
			return append(got, ev.Name+"|"+string(ev.Data), "unfinished")
		case errors.Is(err, io.EOF):
			return append(got, "end")
		default:
			return append(got, err.Error())
		}
	}
}

// Events are told apart as the format says, however the bytes are split.
func TestEvents(t *testing.T) {
	for _, c := range []struct {
		stream string
		want   []string
	}{
		{"", []string{"end"}},
		{"\xef\xbb\xbfdata: a\n\n", []string{"|a", "end"}},
		{"\n: c\r\ndata:a\r\ndata:  b\r\nid: 1\r\n\r\ndatax: no\n\ndata:\n\n\n", []string{"|a\n b", "|", "end"}},
		{"event: x\ndata: 1\n\nevent: y\n\ndata: 2\n\n", []string{"x|1", "|2", "end"}},
		{"data\n\nevent:z\ndata:\ndata:\n\n", []string{"|", "z|\n", "end"}},
		{"data: a\n\ndata: half", []string{"|a", "|half", "unfinished"}},
		{"data: a\n\nevent: e\ndata: half\n", []string{"|a", "e|half", "unfinished"}},
		{"data: a\n\n: a comment", []string{"|a", "end"}},
		{"data: " + strings.Repeat("x", 2*readBuffer) + "\n\n", []string{"|" + strings.Repeat("x", 2*readBuffer), "end"}},
		{"event: " + strings.Repeat("n", 2*maxNameBytes) + "\ndata:1\n\n", []string{strings.Repeat("n", maxNameBytes) + "|1", "end"}},
	} {
		if diff := cmp.Diff(c.want, all(NewReader(strings.NewReader(c.stream), usual))); diff != "" {
			t.Errorf("%.60q (-want +got):\n%s", c.stream, diff)
		}
		if diff := cmp.Diff(c.want, all(NewReader(iotest.OneByteReader(strings.NewReader(c.stream)), usual))); diff != "" {
			t.Errorf("%.60q byte by byte (-want +got):\n%s", c.stream, diff)
		}
	}
}

// A broken connection is reported as itself, not as an end.
func TestBroken(t *testing.T) {
	for _, stream := range []string{"", "data: a", "data: a\n"} {
		r := NewReader(io.MultiReader(strings.NewReader(stream), iotest.ErrReader(io.ErrUnexpectedEOF)), usual)
		if _, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: got %v", stream, err)
		}
	}
}

// endless reads as the same text again and again.
type endless struct {
	text     string
	at, read int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	e.read += n
	return n, nil
}

// A stream without end hits a limit soon after it is reached, and what is kept
// of it stays small.
func TestLimits(t *testing.T) {
	most := Limits{Event: 10_000, Stream: 100_000, Events: 500}
	for name, text := range map[string]string{
		"comments": ": nothing to say\n\n", "empty events": "data: {}\n\n", "one line": "data: x", "one comment": ":x",
		"one event": "data: some words\n", "empty lines": "\n", "other fields": "event: x\n", "other events": "event: x\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			source := &endless{text: text}
			stream := NewReader(source, most)
			var err error
			for err == nil {
				_, err = stream.Next()
			}
			var got *model.Error
			if !errors.As(err, &got) || got.Kind != model.ErrLimit {
				t.Errorf("got %v, want one of kind %s", err, model.ErrLimit)
			}
			if source.read > int(most.Stream)+readBuffer || cap(stream.data)+cap(stream.line) > 4*most.Event {
				t.Errorf("%d bytes were read and %d kept", source.read, cap(stream.data)+cap(stream.line))
			}
		})
	}
}

// Draining ends with the body, at its limit, or when the request is ended.
func TestDrain(t *testing.T) {
	source := &endless{text: "more and more"}
	Drain(source, func() {})
	if source.read < maxDrain || source.read > 2*maxDrain {
		t.Errorf("%d bytes were read", source.read)
	}
	silent, ended := io.Pipe()
	Drain(silent, func() { _ = ended.Close() })
}
