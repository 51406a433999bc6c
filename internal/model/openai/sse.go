package openai

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"stave/internal/model"
)

// Limits of one stream. They stand below the Assembler's, which never sees what
// yields no event: comments, empty deltas, and lines without an end.
const (
	maxEventBytes  = model.MaxResponseBytes
	maxEvents      = 300_000 // more than any model has tokens to say
	maxLines       = 4 * maxEvents
	maxStreamBytes = 512 << 20
	maxHeaderBytes = 1 << 20
	readBufferSize = 32 << 10
)

// eventReader reads server-sent events. An event that its blank line does not
// follow is not given: it may be cut.
type eventReader struct {
	in     *bufio.Reader
	line   []byte
	data   []byte
	name   string
	events int
	lines  int
	read   int64
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(r, readBufferSize)}
}

// next returns the next event that has data, which is valid until the next
// call. The orderly end of the stream is io.EOF.
func (r *eventReader) next() (name string, data []byte, err error) {
	r.data, r.name = r.data[:0], ""
	pending := false
	for {
		line, err := r.nextLine()
		if err != nil {
			return "", nil, err
		}
		if len(line) == 0 {
			if !pending {
				r.name = ""
				continue
			}
			if r.events++; r.events > maxEvents {
				return "", nil, overLimit(maxEvents, "events")
			}
			return r.name, r.data, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			r.name = string(value[:min(len(value), maxNameBytes)])
		case "data":
			if len(r.data)+len(value)+1 > maxEventBytes {
				return "", nil, overLimit(maxEventBytes, "bytes in one event")
			}
			if pending {
				r.data = append(r.data, '\n')
			}
			r.data = append(r.data, value...)
			pending = true
		}
	}
}

// nextLine returns the next whole line without its end.
func (r *eventReader) nextLine() ([]byte, error) {
	if r.lines++; r.lines > maxLines {
		return nil, overLimit(maxLines, "lines")
	}
	r.line = r.line[:0]
	for {
		piece, err := r.in.ReadSlice('\n')
		first := r.read == 0
		if r.read += int64(len(piece)); r.read > maxStreamBytes {
			return nil, overLimit(maxStreamBytes, "bytes on the wire")
		}
		if first {
			piece = bytes.TrimPrefix(piece, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		if len(r.line)+len(piece) > maxEventBytes {
			return nil, overLimit(maxEventBytes, "bytes in one line")
		}
		switch {
		case err == nil && len(r.line) == 0:
			return withoutEnd(piece), nil
		case err == nil:
			r.line = append(r.line, piece...)
			return withoutEnd(r.line), nil
		case errors.Is(err, bufio.ErrBufferFull):
			r.line = append(r.line, piece...)
		default:
			return nil, err
		}
	}
}

func withoutEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

func overLimit(most int64, what string) error {
	return &model.Error{Kind: model.ErrLimit, Message: fmt.Sprintf("the response has more than %d %s", most, what)}
}

func isDone(data []byte) bool { return bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) }
