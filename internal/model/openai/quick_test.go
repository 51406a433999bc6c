package openai

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
)

// told reads one event and returns what it tells.
func told(t *testing.T, chat bool, data []byte) ([]model.Event, string) {
	t.Helper()
	var got []model.Event
	s := newService(Options{})
	out := &sink{ctx: context.Background(), yield: func(ev model.Event, _ error) bool { got = append(got, ev); return true }}
	var r reader = newResponsesReader(s, out)
	if chat {
		r = newChatReader(s, out)
	}
	if _, err := r.event("", data); err != nil {
		return got, err.Error()
	}
	return got, ""
}

// What the quick readers take, the thorough ones read alike, also where bytes
// are changed.
func TestQuick(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for _, line := range []string{
		`{"type":"response.output_text.delta","sequence_number":5,"item_id":"m","output_index":1,"content_index":0,"delta":"a \"b\"\n\u00e9 ü","logprobs":[],"obfuscation":"x"}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"a \"b\"\n\u00e9 ü","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}`,
	} {
		_, chat := quickContent([]byte(line))
		if _, _, responses := quickText([]byte(line)); !chat && !responses {
			t.Errorf("%s was not taken", line)
		}
		for range 5000 {
			data := bytes.Clone([]byte(line))
			for range chance.IntN(3) {
				const likely = "{}[]:,\"\\ 019.-e\x00\n\xffntux"
				data[chance.IntN(len(data))] = likely[chance.IntN(len(likely))]
			}
			_, chatTook := quickContent(data)
			_, _, responsesTook := quickText(data)
			if !chatTook && !responsesTook {
				continue
			}
			// A name with a capital leaves it to the thorough reader.
			end := bytes.LastIndexByte(data, '}')
			slow := append(append(bytes.Clone(data[:end]), `,"Nobody knows":1}`...), data[end+1:]...)
			got, gotErr := told(t, chat, data)
			want, wantErr := told(t, chat, slow)
			if diff := cmp.Diff(want, got); diff != "" || gotErr != wantErr {
				t.Fatalf("%q: errors %q and %q, events (-thorough +quick):\n%s", data, wantErr, gotErr, diff)
			}
		}
	}
	for _, line := range []string{
		`{"type":"response.completed"}`, `{"delta":"x"}`, `{"type":"response.output_text.delta","delta":"a","delta":"b"}`, `{"type":"response.output_text.delta","delta":1}`,
		`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, `{"choices":[{"delta":{"content":"a"}},{"index":1}]}`, `{"choices":[],"usage":{}}`,
		`{"choices":[{"delta":{"content":"a","reasoning":"b"}}]}`, `{"choices":[{"delta":{"content":"a"}}],"error":{"message":"m"}}`, `{"object":"error","choices":[{"delta":{"content":"a"}}]}`,
		`{"choices":[{"index":1,"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"a","tool_calls":[]}}]}`,
	} {
		_, chat := quickContent([]byte(line))
		if _, _, responses := quickText([]byte(line)); chat || responses {
			t.Errorf("%s was taken", line)
		}
	}
}
