package anthropic

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"stave/internal/model"
)

// eventReader reads server-sent events and never holds more than one of them.
type eventReader struct {
	in     *bufio.Reader
	limits streamLimits
	bytes  int64
	events int
	line   []byte
	data   []byte
}

// streamLimits bounds a whole stream.
type streamLimits struct {
	bytes  int64
	events int
}

func newEventReader(r io.Reader, l streamLimits) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(r, 32<<10), limits: l}
}

// next returns the data of the next event, valid until the next call. An event
// that is cut off is none: the error is then io.ErrUnexpectedEOF, and io.EOF at
// the end of a stream that ended between events.
func (e *eventReader) next() ([]byte, error) {
	e.data = e.data[:0]
	begun := false
	for {
		line, err := e.readLine()
		if errors.Is(err, io.EOF) && (begun || len(line) > 0) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if !begun {
				continue
			}
			begun = false
			if err := e.count(); err != nil {
				return nil, err
			}
			if len(e.data) > 0 {
				return e.data, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		begun = begun || len(field) > 0 // without a name it is a comment
		if string(field) != "data" {
			continue
		}
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, bytes.TrimPrefix(value, []byte(" "))...)
		if len(e.data) > MaxEventBytes {
			return nil, overLimit("an event of the stream has more than %d bytes", MaxEventBytes)
		}
	}
}

func (e *eventReader) count() error {
	if e.events++; e.events > e.limits.events {
		return overLimit("the stream has more than %d events", e.limits.events)
	}
	return nil
}

// readLine returns a line without its end, valid until the next call. With
// io.EOF it is what came of a line without an end.
func (e *eventReader) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		piece, err := e.in.ReadSlice('\n')
		if e.bytes += int64(len(piece)); e.bytes > e.limits.bytes {
			return nil, overLimit("the stream has more than %d bytes", int(e.limits.bytes))
		}
		if len(e.line)+len(piece) > MaxEventBytes+len("data: \r\n") {
			return nil, overLimit("an event of the stream has more than %d bytes", MaxEventBytes)
		}
		if err == nil && len(e.line) == 0 {
			return trimEnd(piece), nil
		}
		e.line = append(e.line, piece...)
		if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
			return trimEnd(e.line), err
		}
	}
}

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

func overLimit(format string, most int) error {
	return &model.Error{Kind: model.ErrLimit, Message: fmt.Sprintf(format, most)}
}
