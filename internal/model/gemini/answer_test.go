package gemini_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
	"stave/internal/model/gemini"
)

// What the service says becomes the parts, calls, usage and stop of an answer.
func TestAnswers(t *testing.T) {
	chunk := func(rest string) string { return "data: {" + rest + "}\r\n\r\n" }
	parts := func(parts string) string {
		return chunk(`"candidates":[{"content":{"parts":[` + parts + `],"role":"model"},"index":0}]`)
	}
	usage := `"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":4,"thoughtsTokenCount":3,"cachedContentTokenCount":8,"toolUsePromptTokenCount":1}`
	used := model.Usage{InputTokens: 11, OutputTokens: 7, CachedTokens: 8, ReasoningTokens: 3}
	stop := func(reason string) string { return chunk(`"candidates":[{"finishReason":"` + reason + `"}],` + usage) }
	thought := func(id, text, opaque string) model.Part {
		return model.Part{Reasoning: &model.Reasoning{ID: id, Text: text, Opaque: opaque, Origin: gemini.Origin}}
	}
	tests := []struct {
		name   string
		stream string
		want   model.Response
	}{
		{"text", parts(`{"text":"a"}`) + parts(`{"text":"b"}`) + stop("STOP"), model.Response{
			Parts: []model.Part{{Text: "ab"}}, Text: "ab", Stop: model.StopEnd,
		}},
		{"signed text stays apart", parts(`{"text":"a"}`) + parts(`{"text":"b","thoughtSignature":"S"}`) + parts(`{"text":"c"}`) + stop("STOP"), model.Response{
			Parts: []model.Part{{Text: "a"}, {Text: "b"}, thought("text", "", "S"), {Text: "c"}}, Text: "abc", Stop: model.StopEnd,
		}},
		{"signature alone", parts(`{"text":"a"}`) + parts(`{"text":"","thoughtSignature":"S"}`) + stop("STOP"), model.Response{
			Parts: []model.Part{{Text: "a"}, thought("void", "", "S")}, Text: "a", Stop: model.StopEnd,
		}},
		{"thoughts", parts(`{"text":"x","thought":true},{"text":"y","thought":true}`) + parts(`{"thought":true,"thoughtSignature":"S"}`) + parts(`{"text":"a"}`) + stop("STOP"), model.Response{
			Parts: []model.Part{thought("", "xy", "S"), {Text: "a"}}, Text: "a", Stop: model.StopEnd,
		}},
		{"calls", parts(`{"functionCall":{"name":"f","args":{"b":1,"b":2}},"thoughtSignature":"S"}`) + parts(`{"functionCall":{"id":"7","name":"g"}}`) + stop("STOP"), model.Response{
			Calls: []model.RawCall{
				{Name: "f", Args: `{"b":1,"b":2}`, Opaque: "S", Origin: gemini.Origin},
				{ID: "7", Name: "g", Args: `{}`, Origin: gemini.Origin},
			}, Stop: model.StopToolCalls,
		}},
		{"out of length", parts(`{"text":"a"}`) + stop("MAX_TOKENS"), model.Response{Parts: []model.Part{{Text: "a"}}, Text: "a", Stop: model.StopLength}},
		{"unsafe", stop("SAFETY"), model.Response{Stop: model.StopRefusal}},
		{"recited", stop("RECITATION"), model.Response{Stop: model.StopRefusal}},
		{"blocked before", chunk(`"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},` + usage), model.Response{Stop: model.StopRefusal}},
		{"usage after the end", parts(`{"text":"a"}`) + chunk(`"candidates":[{"finishReason":"STOP"}]`) + chunk(usage), model.Response{
			Parts: []model.Part{{Text: "a"}}, Text: "a", Stop: model.StopEnd,
		}},
		{"other candidates, parts and fields", chunk(`"new":1,"candidates":[{"index":1,"content":{"parts":[{"text":"no"}]}},{"index":0,"content":{"parts":[{"executableCode":{"code":"1"}},{"text":"a"}]}}]`) + stop("STOP"), model.Response{
			Parts: []model.Part{{Text: "a"}}, Text: "a", Stop: model.StopEnd,
		}},
		{"comments, several lines, no last empty line", ": hello\nevent: x\ndata: {\"candidates\":\ndata: [{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n" + strings.TrimRight(stop("STOP"), "\r\n"), model.Response{
			Parts: []model.Part{{Text: "a"}}, Text: "a", Stop: model.StopEnd,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ask(t.Context(), serve(t, body(200, eventStream, tt.stream)))
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Usage, tt.want.UsageReported = used, true
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// Counts that cannot be do not cost the answer.
func TestAbsurdUsage(t *testing.T) {
	for name, counts := range map[string]string{
		"negative": `{"promptTokenCount":-5}`, "huge": `{"promptTokenCount":1e400,"toolUsePromptTokenCount":9223372036854775807}`,
		"text": `{"promptTokenCount":"many","candidatesTokenCount":1e300}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t.Context(), serve(t, body(200, eventStream, aWord+`data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":`+counts+"}\n\n")))
			if err != nil || got.Text != "Grüße" || !got.UsageClamped {
				t.Errorf("got %+v and %v, want the answer with a clamped usage", got, err)
			}
		})
	}
}

// An answer is whole with its reason to stop, even if the connection breaks
// after it or is never closed.
func TestEndOfConnection(t *testing.T) {
	got, err := ask(t.Context(), serve(t, broken(aWord+`data: {"candidates":[{"finishReason":"STOP"}]}`+"\n\n")))
	if err != nil || got.Stop != model.StopEnd || got.UsageReported {
		t.Errorf("broken after the end: got %+v and %v", got, err)
	}
	open := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body(200, eventStream, aWord+theEnd)(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	result := make(chan error, 1)
	go func() { _, err := ask(t.Context(), open); result <- err }()
	select {
	case err := <-result:
		if err != nil {
			t.Errorf("never closed: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("never closed: the call does not end")
	}
}

// Finished answers leave their connection for the next call.
func TestConnectionsAreReused(t *testing.T) {
	addresses := map[string]bool{}
	p := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addresses[r.RemoteAddr] = true
		body(200, eventStream, aWord+theEnd)(w, r)
	}))
	for range 5 {
		if _, err := ask(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if len(addresses) != 1 {
		t.Errorf("5 calls in a row took %d connections", len(addresses))
	}
}
