package gemini

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
)

// What the quick reader takes, the thorough one reads alike, also where bytes
// are changed.
func TestQuickText(t *testing.T) {
	line := `{"candidates":[{"content":{"parts":[{"text":"a \"b\"\n\u00e9 ü"}],"role":"model"},"index":0}],"modelVersion":"m","responseId":"r"}`
	if _, ok := quickText([]byte(line)); !ok {
		t.Errorf("%s was not taken", line)
	}
	told := func(data []byte) (got []model.Event, err error) {
		a := &answer{yield: func(ev model.Event, _ error) bool { got = append(got, ev); return true }}
		return got, a.chunk(t.Context(), data)
	}
	chance := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		data := bytes.Clone([]byte(line))
		for range chance.IntN(3) {
			const likely = "{}[]:,\"\\ 019.-e\x00\n\xffntux"
			data[chance.IntN(len(data))] = likely[chance.IntN(len(likely))]
		}
		if _, ok := quickText(data); !ok {
			continue
		}
		// A field that nobody knows leaves it to the thorough reader.
		end := bytes.LastIndexByte(data, '}')
		slow := append(append(bytes.Clone(data[:end]), `,"nobody knows":1}`...), data[end+1:]...)
		got, gotErr := told(data)
		want, wantErr := told(slow)
		if diff := cmp.Diff(want, got); diff != "" || (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%q: errors %v and %v, events (-thorough +quick):\n%s", data, wantErr, gotErr, diff)
		}
	}
	for _, line := range []string{
		`{}`, `{"candidates":[]}`, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"a","thought":true}]}}]}`, `{"candidates":[{"content":{"parts":[{"text":"a"},{"text":"b"}]}}]}`,
		`{"candidates":[{"index":1,"content":{"parts":[{"text":"a"}]}}]}`, `{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{}}`,
	} {
		if _, ok := quickText([]byte(line)); ok {
			t.Errorf("%s was taken", line)
		}
	}
}
