package anthropic

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the quick reader takes, the thorough one reads alike, also where bytes
// are changed.
func TestQuickDelta(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for _, line := range []string{
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \"b\"\n\u00e9 ü"}}`,
		`{ "index": 12, "delta": {"partial_json": "{\"a", "type": "input_json_delta"}, "type": "content_block_delta" }`,
	} {
		if _, ok := quickDelta([]byte(line)); !ok {
			t.Errorf("%s was not taken", line)
		}
		for range 5000 {
			data := bytes.Clone([]byte(line))
			for range chance.IntN(3) {
				const likely = "{}[]:,\"\\ 019.-e\x00\n\xffntux"
				data[chance.IntN(len(data))] = likely[chance.IntN(len(likely))]
			}
			got, ok := quickDelta(data)
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
		`{"type":"message_stop"}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`, `{}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"},"delta":{"text":"b"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a"}}`,
		`{"type":"content_block_delta","index":0,"delta":null}`, `{"type":"content_block_delta","index":0}`,
	} {
		if _, ok := quickDelta([]byte(line)); ok {
			t.Errorf("%s was taken", line)
		}
	}
}
