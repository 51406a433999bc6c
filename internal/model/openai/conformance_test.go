package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"stave/internal/conformance"
	"stave/internal/model"
	"stave/internal/model/openai"
)

const testKey = "sk-test-0123456789abcdef"

// dialect is one of the two, with a service that speaks it.
type dialect struct {
	name        string
	newProvider func(openai.Options) model.Provider
	write       func(w *sse, try conformance.Try)
	endless     func(w *sse)
	complete    string // the least complete stream that says "hi"
	textEvent   string // an event that says the JSON string %s
}

var dialects = []dialect{
	{
		name: "responses", newProvider: openai.NewResponses, write: writeResponses,
		endless: func(w *sse) {
			w.event(map[string]any{"type": "response.output_text.delta", "output_index": 1, "delta": "and so on "})
		},
		complete: "event: response.output_text.delta\n" +
			`data: {"type":"response.output_text.delta","output_index":0,"delta":"hi"}` + "\n\n" +
			`data: {"type":"response.completed","response":{"status":"completed"}}` + "\n\n",
		textEvent: `data: {"type":"response.output_text.delta","output_index":0,"delta":%s}` + "\n\n",
	},
	{
		name: "chat", newProvider: openai.NewChat, write: writeChat,
		endless: func(w *sse) { w.event(chunk(map[string]any{"content": "and so on "}, nil)) },
		complete: `data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
		textEvent: `data: {"choices":[{"index":0,"delta":{"content":%s}}]}` + "\n\n",
	},
}

func eachDialect(t *testing.T, test func(t *testing.T, d dialect)) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) { test(t, d) })
	}
}

func TestConformance(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		conformance.Provider(t, func(t *testing.T, s conformance.ProviderScenario) model.Provider {
			var asked atomic.Int64
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n := min(int(asked.Add(1)), len(s.Tries)) - 1
				play(w, r, d, s.Tries[n])
			})
			return d.newProvider(openai.Options{BaseURL: url, APIKey: testKey})
		})
	})
}

// serve starts a service over TCP and returns its base URL.
func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/v1"
}

func play(w http.ResponseWriter, r *http.Request, d dialect, try conformance.Try) {
	_, _ = io.Copy(io.Discard, r.Body)
	if e := try.Refusal; e != nil {
		refuse(w, e)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out := &sse{w: w}
	d.write(out, try)
	switch try.Ending {
	case conformance.Cut:
		panic(http.ErrAbortHandler)
	case conformance.Stall:
		<-r.Context().Done()
	case conformance.Endless:
		for r.Context().Err() == nil && out.err == nil {
			d.endless(out)
		}
	case conformance.Complete:
	}
}

func refuse(w http.ResponseWriter, e *model.Error) {
	status := map[model.ErrorKind]int{
		model.ErrRateLimited: 429, model.ErrOverloaded: 503, model.ErrAuth: 401, model.ErrBadRequest: 400,
	}[e.Kind]
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"message":"no","type":"%s","param":null,"code":null}}`, e.Kind)
}

// sse writes server-sent events.
type sse struct {
	w   http.ResponseWriter
	err error
}

func (s *sse) event(data any) {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	s.raw(fmt.Sprintf("data: %s\n\n", text))
}

func (s *sse) raw(text string) {
	_, s.err = io.WriteString(s.w, text)
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

func writeResponses(w *sse, try conformance.Try) {
	index := 0
	item := func(event string, it map[string]any) {
		w.event(map[string]any{"type": event, "output_index": index, "item": it})
	}
	w.event(map[string]any{"type": "response.created", "response": map[string]any{"status": "in_progress", "error": nil}})
	if try.Reasoning != "" {
		thought := map[string]any{"type": "reasoning", "id": "rs_1", "summary": []any{}}
		item("response.output_item.added", thought)
		w.event(map[string]any{"type": "response.reasoning_summary_part.added", "output_index": index, "summary_index": 0})
		w.event(map[string]any{"type": "response.reasoning_summary_text.delta", "output_index": index, "delta": try.Reasoning})
		thought["summary"] = []any{map[string]any{"type": "summary_text", "text": try.Reasoning}}
		thought["encrypted_content"] = "c2VhbGVk"
		item("response.output_item.done", thought)
		index++
	}
	if len(try.Text) > 0 {
		item("response.output_item.added", map[string]any{"type": "message", "id": "msg_1"})
		all, kind, field := "", "response.output_text.delta", "text"
		if try.Stop == model.StopRefusal {
			kind, field = "response.refusal.delta", "refusal"
		}
		for _, text := range try.Text {
			all += text
			w.event(map[string]any{"type": kind, "output_index": index, "delta": text})
		}
		if try.Ending != conformance.Stall && try.Ending != conformance.Endless {
			item("response.output_item.done", map[string]any{
				"type": "message", "id": "msg_1", "content": []any{map[string]any{"type": field, field: all}},
			})
		}
		index++
	}
	for _, c := range try.Calls {
		call := map[string]any{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Name, "arguments": ""}
		item("response.output_item.added", call)
		for i := 0; i < len(c.Args); i += 5 {
			w.event(map[string]any{
				"type": "response.function_call_arguments.delta", "output_index": index, "item_id": "fc_" + c.ID,
				"delta": c.Args[i:min(i+5, len(c.Args))],
			})
		}
		call["arguments"] = c.Args
		item("response.output_item.done", call)
		index++
	}
	if try.Ending != conformance.Complete {
		return
	}
	end, result := "response.completed", map[string]any{"status": "completed", "error": nil, "usage": map[string]any{
		"input_tokens": try.Usage.InputTokens, "output_tokens": try.Usage.OutputTokens,
	}}
	if try.Stop == model.StopLength {
		end, result["status"] = "response.incomplete", "incomplete"
		result["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
	}
	w.event(map[string]any{"type": end, "response": result})
}

func chunk(delta map[string]any, finish any) map[string]any {
	return map[string]any{"object": "chat.completion.chunk", "choices": []any{
		map[string]any{"index": 0, "delta": delta, "finish_reason": finish},
	}}
}

func writeChat(w *sse, try conformance.Try) {
	w.event(chunk(map[string]any{"role": "assistant", "content": nil}, nil))
	if try.Reasoning != "" {
		w.event(chunk(map[string]any{"reasoning_content": try.Reasoning}, nil))
	}
	for _, text := range try.Text {
		w.event(chunk(map[string]any{"content": text}, nil))
	}
	for i, c := range try.Calls {
		w.event(chunk(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": ""},
		}}}, nil))
		for j := 0; j < len(c.Args); j += 5 {
			w.event(chunk(map[string]any{"tool_calls": []any{map[string]any{
				"index": i, "function": map[string]any{"arguments": c.Args[j:min(j+5, len(c.Args))]},
			}}}, nil))
		}
	}
	if try.Ending != conformance.Complete {
		return
	}
	finish := map[model.StopReason]string{
		model.StopEnd: "stop", model.StopToolCalls: "tool_calls", model.StopLength: "length", model.StopRefusal: "content_filter",
	}[try.Stop]
	w.event(chunk(map[string]any{}, finish))
	w.event(map[string]any{"choices": []any{}, "usage": map[string]any{
		"prompt_tokens": try.Usage.InputTokens, "completion_tokens": try.Usage.OutputTokens,
	}})
	w.raw("data: [DONE]\n\n")
}
