package anthropic

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"stave/internal/model"
)

// repeated is a text over and over, without holding it.
type repeated struct {
	text  string
	times int
	at    int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.times == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[r.at:])
	if r.at += n; r.at == len(r.text) {
		r.at = 0
		r.times--
	}
	return n, nil
}

const endless = 1 << 40

// No stream, however large, makes the reader hold much: it ends with a typed
// error that says that our own limit was hit. The limits of a whole stream are
// lower here than they are in use, to save time.
func TestStreamLimits(t *testing.T) {
	var calls strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&calls, "data: {\"type\":\"content_block_start\",\"index\":%d,\"content_block\":{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"y\"}}\n\n", i)
	}
	piece := `data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"` + strings.Repeat("x", 1<<16) + "\"}}\n\n"
	for name, stream := range map[string]io.Reader{
		"one delta of 100 MB":   io.MultiReader(strings.NewReader("data: {\"type\":\""), &repeated{text: strings.Repeat("x", 1<<10), times: 100 << 10}),
		"one event of lines":    &repeated{text: "data: xxxxxxxxxxxxxxxxxxxxxxxxx\n", times: endless},
		"empty deltas":          io.MultiReader(strings.NewReader(events(text0)), &repeated{text: "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\"}}\n\n", times: endless}),
		"pings":                 &repeated{text: "data: {\"type\":\"ping\"}\n\n", times: endless},
		"comments":              &repeated{text: ":" + strings.Repeat(" ", 1<<12) + "\n", times: endless},
		"empty lines":           &repeated{text: strings.Repeat("\n", 1<<12), times: endless},
		"a thousand calls":      strings.NewReader(calls.String()),
		"arguments without end": io.MultiReader(strings.NewReader(events(call0)), &repeated{text: piece, times: endless}),
	} {
		t.Run(name, func(t *testing.T) {
			before := held()
			p := New(Options{APIKey: testKey})
			p.limits.Events /= 50
			p.limits.Stream /= 8
			err := p.read(stream, nil, func(model.Event) error { return nil })
			wantError(t, err, model.ErrLimit, false)
			if grown := held() - before; grown > 64<<20 {
				t.Errorf("the reader holds %d MB more than before", grown>>20)
			}
		})
	}
}

// held is the memory taken from the system for the heap, which counts peaks too.
func held() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapSys - m.HeapReleased)
}

func FuzzStream(f *testing.F) {
	f.Add(fixture(f, "everything"))
	f.Add(events(hello, text0, stop0, ended, bye))
	f.Add("data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\r\n\r\n")
	f.Add("data:\xff\n\n: x\ndata: {}\ndata: {}\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		p := New(Options{APIKey: testKey})
		var a model.Assembler
		done, calls := false, 0
		err := p.read(strings.NewReader(stream), map[string]string{"read": "read"}, func(ev model.Event) error {
			if done {
				t.Fatal("an event follows the end")
			}
			if ev.Call != nil {
				calls++
			}
			done = ev.Done != ""
			_, err := a.Add(ev)
			return err
		})
		r, _ := a.Result()
		switch {
		case err == nil && !done:
			t.Fatal("the stream ended without an end and without an error")
		case err != nil && len(r.Calls) > 0:
			t.Fatalf("calls were given out beside the error %v", err)
		case !strings.Contains(stream, "message_stop") && calls > 0 && !strings.Contains(stream, `\u`):
			t.Fatal("calls were given out before the message was complete")
		}
	})
}
