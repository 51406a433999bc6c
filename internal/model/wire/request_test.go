package wire_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"stave/internal/model"
	"stave/internal/model/wire"
)

// listener keeps the request and answers nothing.
type listener struct{ heard model.Request }

func (l *listener) Stream(_ context.Context, r model.Request) iter.Seq2[model.Event, error] {
	l.heard = r
	return func(yield func(model.Event, error) bool) { yield(model.Event{Done: model.StopEnd}, nil) }
}

func hear(t testing.TB, path, body string) (model.Request, int) {
	t.Helper()
	var l listener
	answer := httptest.NewRecorder()
	wire.Handler(&l).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	_, _ = io.Copy(io.Discard, answer.Body)
	return l.heard, answer.Code
}

// conversations are the same one, in each dialect.
var conversations = []struct{ name, path, body string }{
	{"anthropic", "/v1/messages", `{"model":"m","max_tokens":77,"stream":true,"system":[{"type":"text","text":"Be brief."}],
		"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}},
		"tools":[{"name":"read","description":"Reads.","input_schema":{"type":"object"}}],
		"messages":[{"role":"user","content":[{"type":"text","text":"Look."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQID"}}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"S"},{"type":"text","text":"Two."},
		{"type":"tool_use","id":"a","name":"read","input":{"p":1}},{"type":"tool_use","id":"b","name":"read","input":{"p":2}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"one"},{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"two"}],"is_error":true},
		{"type":"text","text":"And?"}]}]}`},
	{"responses", "/v1/responses", `{"model":"m","max_output_tokens":77,"stream":true,"instructions":"Be brief.","reasoning":{"effort":"low"},
		"text":{"format":{"type":"json_schema","schema":{"type":"object"}}},
		"tools":[{"type":"function","name":"read","description":"Reads.","parameters":{"type":"object"}}],
		"input":[{"role":"user","content":[{"type":"input_text","text":"Look."},{"type":"input_image","image_url":"data:image/png;base64,AQID"}]},
		{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"S"},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Two."}]},
		{"type":"function_call","call_id":"a","name":"read","arguments":"{\"p\":1}"},{"type":"function_call","call_id":"b","name":"read","arguments":"{\"p\":2}"},
		{"type":"function_call_output","call_id":"a","output":"one"},{"type":"function_call_output","call_id":"b","output":"two"},
		{"role":"user","content":"And?"}]}`},
	{"chat", "/v1/chat/completions", `{"model":"m","max_completion_tokens":77,"stream":true,"reasoning_effort":"low",
		"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}},
		"tools":[{"type":"function","function":{"name":"read","description":"Reads.","parameters":{"type":"object"}}}],
		"messages":[{"role":"system","content":"Be brief."},
		{"role":"user","content":[{"type":"text","text":"Look."},{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}}]},
		{"role":"assistant","content":"Two.","reasoning_content":"hm","tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}},
		{"id":"b","type":"function","function":{"name":"read","arguments":"{\"p\":2}"}}]},
		{"role":"tool","tool_call_id":"a","content":"one"},{"role":"tool","tool_call_id":"b","content":"two"},{"role":"user","content":"And?"}]}`},
	{"gemini", "/v1beta/models/m:streamGenerateContent", `{"systemInstruction":{"parts":[{"text":"Be brief."}]},
		"generationConfig":{"maxOutputTokens":77,"responseJsonSchema":{"type":"object"},"thinkingConfig":{"thinkingLevel":"low"}},
		"tools":[{"functionDeclarations":[{"name":"read","description":"Reads.","parametersJsonSchema":{"type":"object"}}]}],
		"contents":[{"role":"user","parts":[{"text":"Look."},{"inlineData":{"mimeType":"image/png","data":"AQID"}}]},
		{"role":"model","parts":[{"text":"hm","thought":true,"thoughtSignature":"S"},{"text":"Two."},
		{"functionCall":{"id":"a","name":"read","args":{"p":1}}},{"functionCall":{"id":"b","name":"read","args":{"p":2}}}]},
		{"role":"user","parts":[{"functionResponse":{"id":"a","name":"read","response":{"output":"one"}}},{"functionResponse":{"id":"b","name":"read","response":{"error":"two"}}}]},
		{"role":"user","parts":[{"text":"And?"}]}]}`},
}

// A conversation with all that can be in one is the same in every dialect.
func TestRequests(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	picture := model.Image{MediaType: "image/png", Data: []byte{1, 2, 3}}
	want := model.Request{
		Model: "m", System: "Be brief.", MaxTokens: 77, Effort: "low", Attempt: 1,
		Tools:  []model.ToolSpec{{Name: "read", Description: "Reads.", Schema: schema}},
		Output: &model.OutputSchema{Schema: schema},
		Messages: []model.Message{
			{Role: model.RoleUser, Parts: []model.Part{{Text: "Look."}, {Image: &picture}}},
			{Role: model.RoleAssistant, Parts: []model.Part{
				{Reasoning: &model.Reasoning{Text: "hm", Opaque: "S"}},
				{Text: "Two."},
				{Call: &model.ToolCall{ID: "a", Name: "read", Args: json.RawMessage(`{"p":1}`)}},
				{Call: &model.ToolCall{ID: "b", Name: "read", Args: json.RawMessage(`{"p":2}`)}},
			}},
			{Role: model.RoleTool, Parts: []model.Part{
				{Result: &model.ToolResult{ID: "a", Text: "one"}},
				{Result: &model.ToolResult{ID: "b", Text: "two", IsError: true}},
			}},
			{Role: model.RoleUser, Parts: []model.Part{{Text: "And?"}}},
		},
	}
	for _, tt := range conversations {
		t.Run(tt.name, func(t *testing.T) {
			got, status := hear(t, tt.path, tt.body)
			if status != 200 {
				t.Fatalf("status %d", status)
			}
			ignored := []cmp.Option{
				cmpopts.IgnoreFields(model.Reasoning{}, "ID", "Origin"), cmpopts.IgnoreFields(model.ToolCall{}, "Origin"),
			}
			// OpenAI's dialects have no field for a failed result, Chat none for a signature.
			if tt.name == "chat" || tt.name == "responses" {
				ignored = append(ignored, cmpopts.IgnoreFields(model.ToolResult{}, "IsError"))
			}
			if tt.name == "chat" {
				ignored = append(ignored, cmpopts.IgnoreFields(model.Reasoning{}, "Opaque"))
			}
			if diff := cmp.Diff(want, got, ignored...); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// No body breaks a reader: it is answered or refused.
func FuzzRequest(f *testing.F) {
	for i, d := range dialects {
		f.Add(i, d.body)
	}
	f.Add(1, `{"stream":true,"input":[{"type":"function_call_output","call_id":"a","output":[{"image_url":"data:;base64,AQ=="}]}]}`)
	f.Add(3, `{"contents":[{"parts":[{"functionResponse":{"response":{"x":{}},"parts":[{}]}},{"inlineData":{}}]}]}`)
	f.Fuzz(func(t *testing.T, dialect int, body string) {
		d := dialects[uint(dialect)%uint(len(dialects))]
		if _, status := hear(t, d.path, body); status != 200 && status != 400 {
			t.Errorf("%s: status %d", d.name, status)
		}
	})
}
