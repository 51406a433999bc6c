package gemini

import (
	"errors"
	"io"
	"strings"
	"testing"

	"stave/internal/model"
)

// endless reads as the same text again and again.
type endless struct {
	text string
	at   int
	read int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	e.read += n
	return n, nil
}

// A stream without end hits a limit soon after it is reached, and what is kept
// of it stays small.
func TestStreamLimits(t *testing.T) {
	most := streamLimits{event: 10_000, stream: 100_000, events: 500}
	for name, text := range map[string]string{
		"comments": ": nothing to say\n\n", "empty events": "data: {}\n\n", "one line": "data: x", "one comment": ":x",
		"one event": "data: some words\n", "empty lines": "\n", "other fields": "event: x\n",
	} {
		t.Run(name, func(t *testing.T) {
			source := &endless{text: text}
			stream := newEvents(source, most)
			var err error
			for err == nil {
				_, err = stream.next()
			}
			var got *model.Error
			if !errors.As(err, &got) || got.Kind != model.ErrLimit {
				t.Errorf("got %v, want one of kind %s", err, model.ErrLimit)
			}
			if source.read > most.stream+readBuffer || cap(stream.data)+cap(stream.line) > 4*most.event {
				t.Errorf("%d bytes were read and %d kept", source.read, cap(stream.data)+cap(stream.line))
			}
		})
	}
}

// Events are told apart as the format says.
func TestEvents(t *testing.T) {
	stream := newEvents(strings.NewReader("\n: c\r\ndata:a\r\ndata:  b\r\nid: 1\r\n\r\ndatax: no\n\ndata:\n\n\ndata: end"), usualLimits)
	for _, want := range []string{"a\n b", "", "end"} {
		if got, err := stream.next(); err != nil || string(got) != want {
			t.Errorf("got %q and %v, want %q", got, err, want)
		}
	}
	for range 2 {
		if _, err := stream.next(); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want the end", err)
		}
	}
}
