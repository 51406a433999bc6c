// Package sse reads the server-sent events of a model service, within limits,
// and leaves the connection ready for the next call.
package sse

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"stave/internal/model"
)

const (
	readBuffer    = 16 << 10 // holds many events of the usual size
	maxNameBytes  = 100      // looked at of the name of an event
	linesPerEvent = 4        // more are nothing but comments and padding
)

// Limits bound one stream, whatever it says. They stand below the Assembler's,
// which never sees what yields no event: comments, empty deltas, lines without an end.
type Limits struct {
	Event  int   // bytes of one event or line
	Stream int64 // bytes
	Events int
}

// ErrUnfinished is the end of a stream in the middle of an event.
var ErrUnfinished = errors.New("the stream ended in the middle of an event")

// Event is one event. What it holds is good until the next call.
type Event struct {
	Name string
	Data []byte
}

// Reader reads events and never holds more than one of them.
type Reader struct {
	in     *bufio.Reader
	most   Limits
	line   []byte // one that did not fit the buffer
	data   []byte
	name   string // of the present event
	last   string // name that an event had: the next mostly has it too
	bytes  int64
	lines  int
	events int
}

// buffers are used again: each is larger than most answers.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }}

// NewReader returns a Reader of a body. Release gives back what it holds.
func NewReader(body io.Reader, most Limits) *Reader {
	in, _ := buffers.Get().(*bufio.Reader)
	in.Reset(body)
	return &Reader{in: in, most: most}
}

// Release ends the reading: the events that were read are no longer good.
func (r *Reader) Release() {
	r.in.Reset(nil)
	buffers.Put(r.in)
	r.in = nil
}

// Next returns the next event that has data, be it empty. After the last one it
// returns io.EOF, or ErrUnfinished together with what had come of an event that
// its blank line does not follow: whether that is whole only the caller can say.
func (r *Reader) Next() (Event, error) {
	r.data, r.name = r.data[:0], ""
	begun, some := false, false
	for {
		line, err := r.nextLine()
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return Event{}, err
		}
		if len(line) > 0 {
			field, value, _ := bytes.Cut(line, []byte(":"))
			begun = begun || len(field) > 0 // without a name it is a comment
			switch string(field) {
			case "event":
				r.setName(bytes.TrimPrefix(value, []byte(" ")))
			case "data":
				if err := r.add(bytes.TrimPrefix(value, []byte(" ")), some); err != nil {
					return Event{}, err
				}
				some = true
			}
		}
		switch {
		case ended && begun:
			return Event{r.name, r.data}, ErrUnfinished
		case ended:
			return Event{}, io.EOF
		case len(line) > 0 || !begun:
			continue
		}
		if r.events++; r.events > r.most.Events {
			return Event{}, overLimit(int64(r.most.Events), "events")
		}
		if some {
			return Event{r.name, r.data}, nil
		}
		begun, r.name = false, ""
	}
}

func (r *Reader) setName(name []byte) {
	if name = name[:min(len(name), maxNameBytes)]; r.last != string(name) {
		r.last = string(name)
	}
	r.name = r.last
}

func (r *Reader) add(value []byte, more bool) error {
	if len(r.data)+len(value)+1 > r.most.Event {
		return overLimit(int64(r.most.Event), "bytes in one event")
	}
	if more {
		r.data = append(r.data, '\n')
	}
	r.data = append(r.data, value...)
	return nil
}

// nextLine returns a line without its end, good until the next call; the last
// one, which has no end, comes with io.EOF. A lone CR ends no line: no service
// sends it, and JSON never holds one.
func (r *Reader) nextLine() ([]byte, error) {
	if r.lines++; r.lines/linesPerEvent > r.most.Events {
		return nil, overLimit(int64(r.most.Events)*linesPerEvent, "lines")
	}
	r.line = r.line[:0]
	for {
		piece, err := r.in.ReadSlice('\n')
		first := r.bytes == 0
		if r.bytes += int64(len(piece)); r.bytes > r.most.Stream {
			return nil, overLimit(r.most.Stream, "bytes in the stream")
		}
		if first {
			piece = bytes.TrimPrefix(piece, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		if len(r.line)+len(piece) > r.most.Event+len("data: \r\n") {
			return nil, overLimit(int64(r.most.Event), "bytes in one line")
		}
		if err == nil && len(r.line) == 0 {
			return withoutEnd(piece), nil
		}
		r.line = append(r.line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return withoutEnd(r.line), err
		}
	}
}

func withoutEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

func overLimit(most int64, what string) error {
	return &model.Error{Kind: model.ErrLimit, Message: fmt.Sprintf("the stream has more than %d %s", most, what)}
}

const (
	drainGrace = 100 * time.Millisecond // a finished answer may hold its connection
	maxDrain   = 64 << 10               // bytes read of what follows it
)

// Drain reads the end of a body whose answer is finished, so that its connection
// can serve the next call. Cancel must end the request.
func Drain(body io.Reader, cancel context.CancelFunc) {
	late := time.AfterFunc(drainGrace, cancel)
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, maxDrain)
}
