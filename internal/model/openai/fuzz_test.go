package openai_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
	"stave/internal/model/openai"
)

func FuzzResponses(f *testing.F) { fuzzStream(f, dialects[0]) }

func FuzzChat(f *testing.F) { fuzzStream(f, dialects[1]) }

// fuzzStream shows that no stream breaks the reader: it ends in one Done or one
// typed error, gives calls only before a Done, and does not depend on how the
// bytes are split on their way.
func fuzzStream(f *testing.F, d dialect) {
	files, err := filepath.Glob(filepath.Join("testdata", d.name, "*.sse"))
	if err != nil || len(files) == 0 {
		f.Fatalf("found %d streams: %v", len(files), err)
	}
	for _, name := range files {
		stream, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole := readFuzzed(t, d, bytes.NewReader(stream))
		split := readFuzzed(t, d, iotest.OneByteReader(bytes.NewReader(stream)))
		if diff := cmp.Diff(whole, split); diff != "" {
			t.Errorf("read byte by byte it is another (-whole +split):\n%s", diff)
		}
	})
}

// TestMutations does in small what the fuzz targets do, with bytes of the known
// streams changed, dropped, doubled and swapped, the same way every time.
func TestMutations(t *testing.T) {
	const rounds = 40
	eachDialect(t, func(t *testing.T, d dialect) {
		files, err := filepath.Glob(filepath.Join("testdata", d.name, "*.sse"))
		if err != nil || len(files) == 0 {
			t.Fatalf("found %d streams: %v", len(files), err)
		}
		chance := rand.New(rand.NewPCG(1, 2))
		for _, name := range files {
			original, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for range rounds {
				stream := mutate(chance, original)
				if diff := cmp.Diff(readFuzzed(t, d, bytes.NewReader(stream)), readFuzzed(t, d, iotest.OneByteReader(bytes.NewReader(stream)))); diff != "" {
					t.Fatalf("%s: %q read byte by byte is another:\n%s", name, stream, diff)
				}
			}
		}
	})
}

func mutate(chance *rand.Rand, original []byte) []byte {
	events := bytes.SplitAfter(original, []byte("\n\n"))
	events = slices.Clone(events)
	for range 1 + chance.IntN(3) {
		i, j := chance.IntN(len(events)), chance.IntN(len(events))
		switch chance.IntN(3) {
		case 0:
			events[i], events[j] = events[j], events[i]
		case 1:
			events[i] = nil
		case 2:
			events = slices.Insert(events, i, events[j])
		}
	}
	stream := bytes.Join(events, nil)
	for range chance.IntN(4) {
		if len(stream) > 0 {
			stream[chance.IntN(len(stream))] = byte(chance.Uint32())
		}
	}
	return stream
}

func readFuzzed(t *testing.T, d dialect, body io.Reader) []model.Event {
	t.Helper()
	var events []model.Event
	var failure error
	p := d.newProvider(openai.Options{HTTP: bodyOf(func() io.Reader { return body })})
	for ev, err := range p.Stream(t.Context(), simpleRequest()) {
		if failure != nil {
			t.Fatal("something follows an error")
		}
		if failure = err; err == nil {
			events = append(events, ev)
		}
	}
	var known *model.Error
	if failure != nil && (!errors.As(failure, &known) || known.Message == "") {
		t.Fatalf("the error is not typed: %v", failure)
	}
	done := false
	for i, ev := range events {
		if ev.Done != "" {
			done = true
			if i != len(events)-1 {
				t.Fatal("something follows Done")
			}
		}
		if ev.Call != nil && failure != nil {
			t.Fatal("a failed response gave a call")
		}
	}
	if done == (failure != nil) {
		t.Fatalf("done is %v and the error %v", done, failure)
	}
	return events
}
