package gemini

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/iotest"

	"stave/internal/model"
)

// Whatever a stream holds: no panic, at most one end, nothing after it, and the
// same events however the bytes are split.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\",\"thoughtSignature\":\"S\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":1}}\r\n\r\n"))
	f.Add([]byte(": c\n\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"thought\":true,\"text\":\"x\"},{\"functionCall\":{\"name\":\"f\",\"args\":[1]}}]}}]}\n\ndata: {\"error\":{\"code\":503}}\n\n"))
	f.Add([]byte("data: {\"promptFeedback\":{\"blockReason\":\"OTHER\"}}"))
	f.Add([]byte("data: {}\ndata\ndata:\n\n\xff\xfe"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := readAll(t, data, false)
		again, errAgain := readAll(t, data, true)
		if len(events) != len(again) || (err == nil) != (errAgain == nil) {
			t.Fatalf("%d events and %v; byte by byte %d and %v", len(events), err, len(again), errAgain)
		}
		var known *model.Error
		if err != nil && !errors.As(err, &known) {
			t.Fatalf("the error %v is not typed", err)
		}
	})
}

func readAll(t *testing.T, data []byte, slowly bool) ([]model.Event, error) {
	var events []model.Event
	ended := false
	a := &answer{yield: func(ev model.Event, _ error) bool {
		if ended {
			t.Fatalf("%+v follows the end", ev)
		}
		ended = ev.Done != ""
		events = append(events, ev)
		return true
	}}
	var err error
	if slowly {
		err = a.read(context.Background(), iotest.OneByteReader(bytes.NewReader(data)))
	} else {
		err = a.read(context.Background(), bytes.NewReader(data))
	}
	if (err == nil) != ended || ended != a.finished {
		t.Fatalf("error %v, end told %v, finished %v", err, ended, a.finished)
	}
	return events, err
}
