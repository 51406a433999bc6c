package gemini_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"stave/internal/model"
)

// cassette is recorded traffic.
type cassette struct {
	Interactions []struct {
		Request  struct{ Body, URL string }
		Response struct {
			Body string
			Code int
		}
	}
}

// cassettes returns the recordings there are.
func cassettes(t *testing.T) map[string]cassette {
	t.Helper()
	dir := os.Getenv("STAVE_CASSETTES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "cassettes")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "Google*.yaml"))
	if len(files) == 0 {
		t.Logf("no recorded traffic in %s; set STAVE_CASSETTES to its folder", dir)
	}
	all := map[string]cassette{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c cassette
		if err := yaml.Unmarshal(data, &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = c
	}
	return all
}

// Recorded answers are read whole, and sent back they are what the recorded
// client sent back: signatures included, each on its part.
func TestRecordedTraffic(t *testing.T) {
	for name, tape := range cassettes(t) {
		t.Run(name, func(t *testing.T) {
			for i, recorded := range tape.Interactions {
				got, err := ask(t.Context(), serve(t, body(recorded.Response.Code, eventStream, asStream(t, recorded.Response.Body))))
				if err != nil {
					t.Fatalf("answer %d: %v", i, err)
				}
				text, calls := recordedAnswer(t, recorded.Response.Body)
				if got.Text != text || len(got.Calls) != calls || !got.UsageReported || got.Usage.InputTokens == 0 {
					t.Errorf("answer %d: got %+v, want the text %q and %d calls", i, got, text, calls)
				}
				if i+1 < len(tape.Interactions) {
					next := tape.Interactions[i+1].Request.Body
					want, sent := partsOfModel(t, []byte(next)), partsOfModel(t, sendBack(t, got))
					if diff := cmp.Diff(want, sent); diff != "" {
						t.Errorf("answer %d sent back (-recorded +ours):\n%s", i, diff)
					}
				}
			}
		})
	}
}

// asStream makes one event of an answer that was not streamed.
func asStream(t *testing.T, recorded string) string {
	t.Helper()
	if strings.HasPrefix(recorded, "data:") {
		return recorded
	}
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(recorded)); err != nil {
		t.Fatal(err)
	}
	return "data: " + line.String() + "\n\n"
}

type recordedPart struct {
	Text    string
	Thought bool
	Call    map[string]any `json:"functionCall"`
	Sign    string         `json:"thoughtSignature"`
}

// recordedAnswer reads a recording without the code under test.
func recordedAnswer(t *testing.T, recorded string) (text string, calls int) {
	t.Helper()
	for event := range strings.SplitSeq(asStream(t, recorded), "data: ") {
		if strings.TrimSpace(event) == "" {
			continue
		}
		var chunk struct {
			Candidates []struct {
				Content struct{ Parts []recordedPart }
			}
		}
		if err := json.Unmarshal([]byte(event), &chunk); err != nil {
			t.Fatal(err)
		}
		for _, p := range chunk.Candidates[0].Content.Parts {
			if p.Call != nil {
				calls++
			}
			if !p.Thought {
				text += p.Text
			}
		}
	}
	return text, calls
}

// partsOfModel returns what a request says the model has said. Thoughts without
// a signature and ids, which each client makes up itself, are left out.
func partsOfModel(t *testing.T, request []byte) []recordedPart {
	t.Helper()
	var r struct {
		Contents []struct {
			Role  string
			Parts []recordedPart
		}
	}
	if err := json.Unmarshal(request, &r); err != nil {
		t.Fatalf("request: %v", err)
	}
	var parts []recordedPart
	for _, c := range r.Contents {
		for _, p := range c.Parts {
			if c.Role != "model" || p.Thought && p.Sign == "" {
				continue
			}
			delete(p.Call, "id")
			parts = append(parts, p)
		}
	}
	return parts
}

// sendBack returns the body of a request after an answer.
func sendBack(t *testing.T, r model.Response) []byte {
	t.Helper()
	said, results := r.Parts, []model.Part(nil)
	for _, c := range r.Calls {
		id := "call_" + string(rune('a'+len(results)))
		said = append(said, model.Part{Call: &model.ToolCall{ID: id, Name: c.Name, Args: json.RawMessage(c.Args), Opaque: c.Opaque, Origin: c.Origin}})
		results = append(results, model.Part{Result: &model.ToolResult{ID: id, Text: "done"}})
	}
	return bodyOf(t, model.Request{Model: "gemini-3-test", Messages: []model.Message{
		{Role: model.RoleUser, Parts: []model.Part{{Text: "Begin."}}},
		{Role: model.RoleAssistant, Parts: said},
		{Role: model.RoleTool, Parts: results},
	}})
}

// bodyOf returns the body that the provider sends for a request.
func bodyOf(t *testing.T, r model.Request) []byte {
	t.Helper()
	var sent []byte
	p := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
		body(200, eventStream, theEnd)(w, r)
	}))
	for _, err := range p.Stream(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return sent
}
