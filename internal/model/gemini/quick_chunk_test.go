package gemini

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the quick reader of whole events takes, the thorough one reads alike,
// also where bytes are changed and lines are joined.
func TestQuickChunk(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for _, line := range []string{
		`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"c","name":"n \u00e9","args":{"a":[1, 2]}},"thoughtSignature":"s"}]},"index":0}],"modelVersion":"m","responseId":"r"}`,
		`{"candidates":[{"content":{"parts":[{"text":"a"},{"text":"","thoughtSignature":"s"}],"role":"model"},"finishReason":"STOP","index":0,"safetyRatings":[]}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":"4","totalTokenCount":9,"thoughtsTokenCount":1.5,"cachedContentTokenCount":null,"toolUsePromptTokenCount":-1,"promptTokensDetails":[{"modality":"TEXT"}]}}`,
		`{"candidates":[]}`,
	} {
		if _, ok := quickChunk([]byte(line)); !ok {
			t.Errorf("%s was not taken", line)
		}
		for range 5000 {
			data := bytes.Clone([]byte(line))
			for range chance.IntN(3) {
				const likely = "{}[]:,\"\\ 019.-e\x00\n\xffntuxCP"
				data[chance.IntN(len(data))] = likely[chance.IntN(len(likely))]
			}
			if inner := bytes.TrimSuffix(data, []byte("}")); chance.IntN(4) == 0 {
				data = append(append(bytes.Clone(inner), ','), data[1:]...)
			}
			got, ok := quickChunk(data)
			if !ok {
				continue
			}
			var want chunk
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatalf("%q was taken: %v", data, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q (-thorough +quick):\n%s", data, diff)
			}
		}
	}
	for _, line := range []string{
		`{"error":{"code":1}}`, `{"promptFeedback":{"blockReason":"x"}}`, `{"Candidates":[]}`, `{"candidates":[{"finishmessage":"x"}]}`, `{"candidates":[],"candidates":[]}`,
		`{"candidates":[{"content":{"parts":[{"text":"a","thought":true}]}}]}`, `{"candidates":[]`,
	} {
		if _, ok := quickChunk([]byte(line)); ok {
			t.Errorf("%s was taken", line)
		}
	}
}
