package openai_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
	"stave/internal/model/openai"
)

var update = flag.Bool("update", false, "write what the streams in testdata give")

// TestStreams shows what becomes of every stream in testdata: the events given
// out, and what the Assembler makes of them.
func TestStreams(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		files, err := filepath.Glob(filepath.Join("testdata", d.name, "*.sse"))
		if err != nil || len(files) == 0 {
			t.Fatalf("found %d streams: %v", len(files), err)
		}
		for _, name := range files {
			t.Run(strings.TrimSuffix(filepath.Base(name), ".sse"), func(t *testing.T) {
				stream, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				got := outcome(t, d.newProvider(openai.Options{BaseURL: serveBody(t, stream)}))
				golden(t, strings.TrimSuffix(name, ".sse")+".want", got)
			})
		}
	})
}

// serveBody answers every request with one stream.
func serveBody(t *testing.T, stream []byte) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(stream)
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; with -update it is written again (-want +got):\n%s", name, diff)
	}
}

// outcome tells all that a stream gives, as text.
func outcome(t *testing.T, p model.Provider) string {
	t.Helper()
	var out strings.Builder
	var a model.Assembler
	for ev, err := range p.Stream(t.Context(), simpleRequest()) {
		if err != nil {
			var known *model.Error
			if !errors.As(err, &known) {
				t.Fatalf("the error is not typed: %v", err)
			}
			fmt.Fprintf(&out, "error %s retryable=%v: %s\n", known.Kind, known.Retryable, known.Message)
			continue
		}
		out.WriteString(eventLine(ev))
		_, _ = a.Add(ev)
	}
	r, err := a.Result()
	if err != nil {
		fmt.Fprintf(&out, "=> %v; %d calls withheld\n", err, r.WithheldCalls)
		if len(r.Calls) > 0 {
			t.Error("an incomplete response gives calls")
		}
		return out.String()
	}
	fmt.Fprintf(&out, "=> %s %q, %d parts, %d calls (%d withheld), repaired %d, usage reported=%v clamped=%v\n",
		r.Stop, r.Text, len(r.Parts), len(r.Calls), r.WithheldCalls, r.Repaired, r.UsageReported, r.UsageClamped)
	return out.String()
}

func eventLine(ev model.Event) string {
	switch {
	case ev.Text != "":
		return fmt.Sprintf("text %q\n", ev.Text)
	case ev.Reasoning != nil:
		r := ev.Reasoning
		return fmt.Sprintf("reasoning %q id=%q opaque=%q origin=%q\n", r.Text, r.ID, r.Opaque, r.Origin)
	case ev.ItemDone:
		return "item done\n"
	case ev.Call != nil:
		return fmt.Sprintf("call %q %s %q\n", ev.Call.ID, ev.Call.Name, ev.Call.Args)
	case ev.Usage != nil:
		return fmt.Sprintf("usage %+v\n", *ev.Usage)
	}
	return fmt.Sprintf("done %s\n", ev.Done)
}

func simpleRequest() model.Request {
	return model.Request{
		Model: "test-model", Attempt: 1,
		Messages: []model.Message{{Role: model.RoleUser, Parts: []model.Part{{Text: "Begin."}}}},
	}
}
