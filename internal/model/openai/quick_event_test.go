package openai

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// quickReaders read one thing each both ways.
var quickReaders = map[string]struct {
	quick    func([]byte) (any, bool)
	thorough func([]byte) (any, error)
}{
	"event": {
		func(data []byte) (any, bool) {
			kind, ev, ok := quickEvent(data)
			return typedEvent{kind, ev}, ok
		},
		func(data []byte) (any, error) {
			var head struct{ Type string }
			var ev responsesEvent
			if err := json.Unmarshal(data, &head); err != nil {
				return nil, err
			}
			err := json.Unmarshal(data, &ev)
			return typedEvent{head.Type, ev}, err
		},
	},
	"chunk": {
		func(data []byte) (any, bool) { c, ok := quickChunk(data); return c, ok },
		func(data []byte) (any, error) { var c chatChunk; err := json.Unmarshal(data, &c); return c, err },
	},
	"usage": {
		func(data []byte) (any, bool) { w, ok := quickUsage(data); return w, ok },
		func(data []byte) (any, error) { var w wireUsage; err := json.Unmarshal(data, &w); return w, err },
	},
}

type typedEvent struct {
	Type  string
	Event responsesEvent
}

// usual are lines that the quick readers must take.
var usual = map[string][]string{
	"event": {
		`{"type":"response.created","sequence_number":0,"response":{"id":"r","status":"in_progress","error":null,"incomplete_details":null,"output":[],"tools":[{"A":1}],"usage":null}}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"id":"f","type":"function_call","status":"x","call_id":"c","name":"n","arguments":""}}`,
		`{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":\"\u00e9\"}"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"id":"m","type":"message","content":[{"type":"output_text","text":"a","refusal":null}],"summary":[],"encrypted_content":null}}`,
		`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max"},"output":[{"type":"message","content":[]}],"usage":{"input_tokens":3}}}`,
	},
	"chunk": {
		`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"i","type":"function","function":{"name":"n","arguments":"{\"a\""}}]},"finish_reason":null}]}`,
		`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"reasoning":"r","reasoning_content":"s","refusal":"no"},"finish_reason":"tool_calls"}],"usage":null}`,
		`{"choices":[],"usage":{"prompt_tokens":1}}`,
	},
	"usage": {
		`{"input_tokens":3,"input_tokens_details":{"cached_tokens":1,"cache_write_tokens":2},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":7}`,
		`{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":1,"audio_tokens":0},"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":2}}`,
	},
}

// What the quick readers of whole events take, the thorough ones read alike,
// also where bytes are changed and lines are joined.
func TestQuickEvents(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for name, r := range quickReaders {
		for _, line := range usual[name] {
			if _, ok := r.quick([]byte(line)); !ok {
				t.Errorf("%s: %s was not taken", name, line)
			}
		}
		for _, line := range append(recorded(t), usual[name]...) {
			for range 25 {
				data := changed(chance, []byte(line))
				got, ok := r.quick(data)
				if !ok {
					continue
				}
				want, err := r.thorough(data)
				if err != nil {
					t.Fatalf("%s: %q was taken: %v", name, data, err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s: %q (-thorough +quick):\n%s", name, data, diff)
				}
			}
		}
	}
	for _, line := range []string{
		`{"type":"error"}`, `{"type":"x","error":null}`, `{"Type":"x"}`, `{"item":{}}`, `{"type":"x","item":{"Name":"n"}}`, `{"type":"x","output_index":1.5}`,
		`{"type":"x","response":{"output":[],"output":[]}}`, `{"type":"x","item":{"arguments":{}}}`, `{"type":"x"`,
	} {
		if _, _, ok := quickEvent([]byte(line)); ok {
			t.Errorf("%s was taken", line)
		}
	}
	for _, line := range []string{`{"error":{}}`, `{"choices":[{"delta":{"content":[]}}]}`, `{"choices":[{"Delta":{}}]}`, `{"choices":[],"choices":[]}`} {
		if _, ok := quickChunk([]byte(line)); ok {
			t.Errorf("%s was taken", line)
		}
	}
}

// recorded are the data lines of all streams in testdata.
func recorded(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.sse"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d streams: %v", len(files), err)
	}
	var lines []string
	for _, name := range files {
		stream, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(stream) {
			if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok && len(data) < 10_000 {
				lines = append(lines, string(data))
			}
		}
	}
	return lines
}

// changed changes up to two bytes, and at times says everything twice.
func changed(chance *rand.Rand, line []byte) []byte {
	data := bytes.Clone(line)
	for range chance.IntN(3) {
		const likely = "{}[]:,\"\\ 019.-e\x00\n\xffntuxNTU"
		data[chance.IntN(len(data))] = likely[chance.IntN(len(likely))]
	}
	if inner := bytes.TrimSuffix(data, []byte("}")); chance.IntN(4) == 0 {
		data = append(append(bytes.Clone(inner), ','), data[1:]...)
	}
	return data
}
