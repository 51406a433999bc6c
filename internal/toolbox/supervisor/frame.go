package supervisor

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A frame is a length, a kind and a body. The length counts the body only.
const (
	frameHeader = 5
	maxFrame    = 4 << 20
	// outputChunk is how much output one frame carries behind its offset.
	outputChunk = 64 << 10
	offsetBytes = 8
)

// What a client asks.
const (
	askStart   = 'r'
	askAttach  = 'a'
	askCancel  = 'c'
	askCollect = 'f'
	askStop    = 'x'
)

// What a supervisor answers.
const (
	sayOK     = 'k'
	sayError  = 'e'
	sayOutput = 'o'
	sayEnd    = 'z'
)

var errFrame = errors.New("this is not the supervisor's protocol")

// about names a command in a question.
type about struct {
	ID   string `json:"id"`
	From int64  `json:"from,omitempty"`
}

func (a about) text() []byte { return asJSON(a) }

// refusal is an error that travels.
type refusal struct {
	Code string `json:"code,omitempty"`
	Text string `json:"text"`
}

// The codes of refusals that a caller tells apart.
const (
	codeStarted = "started"
	codeUnknown = "unknown"
)

func refuse(err error) refusal {
	r := refusal{Text: err.Error()}
	switch {
	case errors.Is(err, ErrStarted):
		r.Code = codeStarted
	case errors.Is(err, ErrUnknown):
		r.Code = codeUnknown
	}
	return r
}

func (r refusal) text() []byte { return asJSON(r) }

func (r refusal) err() error {
	switch r.Code {
	case codeStarted:
		return fmt.Errorf("%w: %s", ErrStarted, r.Text)
	case codeUnknown:
		return fmt.Errorf("%w: %s", ErrUnknown, r.Text)
	}
	return errors.New(r.Text)
}

// readFrame returns a kind and its body, which is good until the next call with
// the same buffer.
func readFrame(r *bufio.Reader, buf []byte) (kind byte, body, grown []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, buf, err
	}
	n := binary.BigEndian.Uint32(header[:4])
	if n > maxFrame {
		return 0, nil, buf, fmt.Errorf("%w: a frame of %d bytes", errFrame, n)
	}
	if int(n) > cap(buf) {
		buf = make([]byte, n)
	}
	body = buf[:n]
	_, err = io.ReadFull(r, body)
	return header[4], body, buf, err
}

// writeFrame sends a frame in one write.
func writeFrame(w io.Writer, kind byte, body []byte) error {
	if len(body) > maxFrame {
		return fmt.Errorf("a message of %d bytes is too long; %d are allowed", len(body), maxFrame)
	}
	frame := make([]byte, frameHeader, frameHeader+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	frame[4] = kind
	_, err := w.Write(append(frame, body...))
	return err
}

// asJSON is for values of ours that always have a text.
func asJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
