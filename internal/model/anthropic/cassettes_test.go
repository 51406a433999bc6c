package anthropic

import (
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

type exchange struct {
	Request  struct{ Body string }
	Response struct{ Body string }
}

// Recorded answers of the API, served again, become what they say, and the
// requests we make of the conversation have the shape of those recorded.
func TestRecordedTraffic(t *testing.T) {
	dir := os.Getenv("STAVE_CASSETTES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "cassettes")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "Anthropic*treaming.yaml"))
	if len(files) == 0 {
		t.Logf("no recorded traffic in %s (STAVE_CASSETTES): nothing to replay", dir)
		return
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var tape struct{ Interactions []exchange }
			if err := yaml.Unmarshal(data, &tape); err != nil {
				t.Fatal(err)
			}
			replay(t, tape.Interactions)
		})
	}
}

// replay holds the recorded conversation: what the user and the tools said is
// taken from the tape, what the model said from our own reading of it.
func replay(t *testing.T, tape []exchange) {
	s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		startStream(w)
		_, _ = io.WriteString(w, tape[n].Response.Body)
	})
	r, heard := opening(t, tape[0].Request.Body), 0
	for i, x := range tape {
		theirs := decoded(t, x.Request.Body)
		if i > 0 {
			list := theirs["messages"].([]any)
			r.Messages = append(r.Messages, results(toolResults(t, list[len(list)-1])...))
		}
		answer, err := assemble(t, s.provider(), r)
		if err != nil {
			t.Fatal(err)
		}
		heard++
		checkAnswer(t, x.Response.Body, answer)
		if diff := cmp.Diff(shape(theirs), shape(s.sent(t, i))); diff != "" {
			t.Errorf("request %d (-recorded +ours):\n%s", i, diff)
		}
		parts := answer.Parts
		for _, c := range answer.Calls {
			parts = append(parts, model.Part{Call: &model.ToolCall{ID: c.ID, Name: c.Name, Args: json.RawMessage(c.Args), Opaque: c.Opaque, Origin: c.Origin}})
		}
		r.Messages = append(r.Messages, assistant(parts...))
	}
	if heard != len(tape) {
		t.Errorf("%d of %d answers were heard", heard, len(tape))
	}
}

func opening(t *testing.T, body string) model.Request {
	t.Helper()
	var sent struct {
		Model     string
		MaxTokens int64 `json:"max_tokens"`
		System    []struct{ Text string }
		Thinking  *struct{}
		Messages  []struct{ Content []struct{ Text string } }
		Tools     []struct {
			Name, Description string
			Schema            json.RawMessage `json:"input_schema"`
		}
	}
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	r := model.Request{Model: sent.Model, MaxTokens: sent.MaxTokens, System: sent.System[0].Text}
	if sent.Thinking != nil {
		r.Effort = "high"
	}
	r.Messages = []model.Message{user(said(sent.Messages[0].Content[0].Text))}
	for _, x := range sent.Tools {
		r.Tools = append(r.Tools, model.ToolSpec{Name: x.Name, Description: x.Description, Schema: x.Schema})
	}
	return r
}

func toolResults(t *testing.T, message any) []model.Part {
	t.Helper()
	var parts []model.Part
	for _, b := range message.(map[string]any)["content"].([]any) {
		b := b.(map[string]any)
		text := b["content"].([]any)[0].(map[string]any)["text"].(string)
		parts = append(parts, result(b["tool_use_id"].(string), text))
	}
	return parts
}

// shape leaves out where we differ on purpose: the marks of the cache, the
// choice of tools that is the default anyway, and the size of a budget.
func shape(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, x := range v {
			if name != "cache_control" && name != "tool_choice" && name != "budget_tokens" {
				out[name] = shape(x)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = shape(x)
		}
		return out
	}
	return v
}

// checkAnswer reads the recorded stream in the simplest way and compares.
func checkAnswer(t *testing.T, stream string, got model.Response) {
	t.Helper()
	var text, thought, signature, names, args strings.Builder
	var stop string
	var output int64
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var ev struct {
			Block struct{ Name string } `json:"content_block"`
			Delta struct {
				Text, Thinking, Signature string
				Partial                   string `json:"partial_json"`
				Stop                      string `json:"stop_reason"`
			}
			Usage struct {
				Output int64 `json:"output_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatal(err)
		}
		names.WriteString(ev.Block.Name)
		text.WriteString(ev.Delta.Text)
		thought.WriteString(ev.Delta.Thinking)
		signature.WriteString(ev.Delta.Signature)
		args.WriteString(ev.Delta.Partial)
		stop += ev.Delta.Stop
		output += ev.Usage.Output
	}
	var ours struct{ thought, signature, names, args string }
	for _, p := range got.Parts {
		if p.Reasoning != nil {
			ours.thought += p.Reasoning.Text
			ours.signature += p.Reasoning.Opaque
		}
	}
	for _, c := range got.Calls {
		ours.names += c.Name
		ours.args += c.Args
	}
	if got.Text != text.String() || ours.thought != thought.String() || ours.signature != signature.String() ||
		ours.names != names.String() || ours.args != args.String() {
		t.Errorf("the answer is %+v, text %q", ours, got.Text)
	}
	if wireStops[got.Stop] != stop || got.Usage.OutputTokens != output || got.Usage.InputTokens == 0 || got.Repaired != 0 {
		t.Errorf("stop %q, usage %+v; recorded %q and %d", got.Stop, got.Usage, stop, output)
	}
}
