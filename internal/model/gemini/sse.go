package gemini

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"stave/internal/model"
)

// readBuffer holds an event of the usual size.
const readBuffer = 4 << 10

// streamLimits bound one stream, whatever it says.
type streamLimits struct {
	event  int // bytes of one event or line
	stream int // bytes
	events int
}

var usualLimits = streamLimits{model.MaxResponseBytes, 256 << 20, model.MaxResponseEvents}

// events reads the data of server-sent events. Comments and other fields are
// passed over, but they count.
type events struct {
	most  streamLimits
	r     *bufio.Reader
	line  []byte // the present line
	data  []byte // of the present event
	bytes int
	count int
	ended bool
}

func newEvents(r io.Reader, most streamLimits) *events {
	return &events{most: most, r: bufio.NewReaderSize(r, readBuffer)}
}

// next returns the data of the next event, which is good until the next call,
// or io.EOF at the end of the stream.
func (e *events) next() ([]byte, error) {
	e.data = e.data[:0]
	some := false
	for {
		line, err := e.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		end := err != nil
		if field, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			field = bytes.TrimPrefix(field, []byte(" "))
			if len(e.data)+len(field) >= e.most.event {
				return nil, tooMuch(e.most.event, "bytes in one event")
			}
			if some {
				e.data = append(e.data, '\n')
			}
			e.data, some = append(e.data, field...), true
		}
		// At the end of the stream an event may lack its empty line: JSON says
		// itself whether it is whole.
		if some && (end || len(line) == 0) {
			if e.count++; e.count > e.most.events {
				return nil, tooMuch(e.most.events, "events")
			}
			return e.data, nil
		}
		if end {
			return nil, io.EOF
		}
	}
}

// readLine returns a line without its end; the last one comes with io.EOF. A
// lone CR ends no line: no service sends it, and JSON never holds one.
func (e *events) readLine() ([]byte, error) {
	if e.ended {
		return nil, io.EOF
	}
	e.line = e.line[:0]
	for {
		piece, err := e.r.ReadSlice('\n')
		if e.bytes += len(piece); e.bytes > e.most.stream {
			return nil, tooMuch(e.most.stream, "bytes in the stream")
		}
		if len(e.line)+len(piece) > e.most.event {
			return nil, tooMuch(e.most.event, "bytes in one line")
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			e.line = append(e.line, piece...)
			continue
		}
		if len(e.line) > 0 {
			e.line = append(e.line, piece...)
			piece = e.line
		}
		if err != nil {
			e.ended = true
		}
		return bytes.TrimRight(piece, "\r\n"), err
	}
}

func tooMuch(most int, what string) error {
	return &model.Error{Kind: model.ErrLimit, Message: fmt.Sprintf("Gemini sent more than %d %s", most, what)}
}
