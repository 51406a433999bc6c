package anthropic

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the quick reader of whole events takes, the thorough one reads alike,
// also where bytes are changed and lines are joined.
func TestQuickEvent(t *testing.T) {
	stream, err := os.ReadFile("testdata/everything.sse")
	if err != nil {
		t.Fatal(err)
	}
	lines := [][]byte{
		[]byte(`{"type":"message_start","message":{"id":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"cache_read_input_tokens":null,"output_tokens":-1,"output_tokens_details":{"thinking_tokens":"x"}}}}`),
		[]byte(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"a \"b\"\u00e9","input":{"a":[1, 2]}}}`),
		[]byte(`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7.5}}`),
		[]byte(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`),
		[]byte(`{"type":"message_stop"}`),
	}
	for _, line := range lines {
		if _, ok := quickEvent(line); !ok {
			t.Errorf("%s was not taken", line)
		}
	}
	for line := range bytes.Lines(stream) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			lines = append(lines, bytes.TrimSpace(data))
		}
	}
	chance := rand.New(rand.NewPCG(1, 2))
	for _, line := range lines {
		for range 500 {
			data := changed(chance, line)
			got, ok := quickEvent(data)
			if !ok {
				continue
			}
			var want event
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatalf("%q was taken: %v", data, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q (-thorough +quick):\n%s", data, diff)
			}
		}
	}
	for _, line := range []string{
		`{"type":"error","error":{"type":"x"}}`, `{"Type":"message_stop"}`, `{"type":"message_delta","Uſage":{}}`, `{"type":"x","usage":{},"usage":{}}`, `{"type":"x","index":"1"}`, `{"type":"x"`,
	} {
		if _, ok := quickEvent([]byte(line)); ok {
			t.Errorf("%s was taken", line)
		}
	}
}

// changed changes up to two bytes, and at times says a part twice.
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
