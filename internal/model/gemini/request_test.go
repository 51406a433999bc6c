package gemini_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
	"stave/internal/model/gemini"
)

func user(parts ...model.Part) model.Message {
	return model.Message{Role: model.RoleUser, Parts: parts}
}

func assistant(parts ...model.Part) model.Message {
	return model.Message{Role: model.RoleAssistant, Parts: parts}
}

func tool(parts ...model.Part) model.Message {
	return model.Message{Role: model.RoleTool, Parts: parts}
}

func text(s string) model.Part { return model.Part{Text: s} }

func think(r model.Reasoning) model.Part { return model.Part{Reasoning: &r} }

func result(r model.ToolResult) model.Part { return model.Part{Result: &r} }

func call(id, args, opaque, origin string) model.Part {
	return model.Part{Call: &model.ToolCall{ID: id, Name: "f" + id, Args: json.RawMessage(args), Opaque: opaque, Origin: origin}}
}

var picture = model.Image{MediaType: "image/png", Data: []byte{1, 2, 3}}

// requestTest is a request and the JSON that is sent for it.
type requestTest struct {
	name string
	in   model.Request
	want string
}

func plainRequests() []requestTest {
	return []requestTest{
		{
			"words",
			model.Request{System: "Be <brief>.", Messages: []model.Message{user(text("a"), model.Part{Image: &picture}), user(), user(text("b"))}},
			`{"systemInstruction":{"parts":[{"text":"Be <brief>."}]},"contents":[
			{"role":"user","parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AQID"}}]},{"role":"user","parts":[{"text":"b"}]}]}`,
		},
		{
			"settings",
			model.Request{
				Model: "gemini-2.5-pro", MaxTokens: 9, Effort: "low", Messages: []model.Message{user(text("a"))},
				Output: &model.OutputSchema{Name: "o", Schema: json.RawMessage(`{"type":"object"}`)},
				Tools:  []model.ToolSpec{{Name: "f", Description: "does", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}},
			},
			`{"contents":[{"role":"user","parts":[{"text":"a"}]}],
			"tools":[{"functionDeclarations":[{"name":"f","description":"does","parametersJsonSchema":{"type":"object","properties":{}}}]}],
			"generationConfig":{"maxOutputTokens":9,"responseMimeType":"application/json","responseJsonSchema":{"type":"object"},
			"thinkingConfig":{"includeThoughts":true,"thinkingBudget":1024}}}`,
		},
		{
			"levels",
			model.Request{Model: "models/gemini-3-pro", Effort: "high", Messages: []model.Message{user(text("a"))}},
			`{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"high"}}}`,
		},
	}
}

func laterRequests() []requestTest {
	return []requestTest{
		{
			"thoughts go back where they came from",
			model.Request{Messages: []model.Message{assistant(
				think(model.Reasoning{Text: "x", Opaque: "S1", Origin: gemini.Origin}), think(model.Reasoning{Text: "unsigned", Origin: gemini.Origin}),
				think(model.Reasoning{Text: "y", Opaque: "S2", Origin: "anthropic"}), text("a"),
				think(model.Reasoning{ID: "text", Opaque: "S3", Origin: gemini.Origin}), think(model.Reasoning{ID: "void", Opaque: "S4", Origin: gemini.Origin}),
			)}},
			`{"contents":[{"role":"model","parts":[{"text":"x","thought":true,"thoughtSignature":"S1"},{"text":"a","thoughtSignature":"S3"},{"text":"","thoughtSignature":"S4"}]}]}`,
		},
		{
			"calls and results",
			model.Request{Model: "gemini-3", Messages: []model.Message{
				assistant(call("1", `{"a":1}`, "S", gemini.Origin), call("2", ``, "", gemini.Origin)),
				tool(result(model.ToolResult{ID: "1", Text: "one", Images: []model.Image{picture}})), tool(result(model.ToolResult{ID: "2", Text: "two", IsError: true})),
				user(text("go on")),
			}},
			`{"contents":[{"role":"model","parts":[{"functionCall":{"id":"1","name":"f1","args":{"a":1}},"thoughtSignature":"S"},{"functionCall":{"id":"2","name":"f2","args":{}}}]},
			{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f1","response":{"output":"one"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AQID"}}]}},
			{"functionResponse":{"id":"2","name":"f2","response":{"error":"two"}}}]},{"role":"user","parts":[{"text":"go on"}]}]}`,
		},
		{
			"calls of another model",
			model.Request{Model: "gemini-3", Messages: []model.Message{assistant(call("1", `"junk"`, "E", "openai"), call("2", `{}`, "", ""))}},
			`{"contents":[{"role":"model","parts":[{"functionCall":{"id":"1","name":"f1","args":{"value":"junk"}},"thoughtSignature":"skip_thought_signature_validator"},
			{"functionCall":{"id":"2","name":"f2","args":{}}}]}]}`,
		},
		{
			"an earlier model",
			model.Request{Model: "gemini-2.5-flash", Messages: []model.Message{
				assistant(call("1", `{}`, "", "")), tool(result(model.ToolResult{ID: "1", Text: "one", Images: []model.Image{picture}})),
			}},
			`{"contents":[{"role":"model","parts":[{"functionCall":{"id":"1","name":"f1","args":{}}}]},
			{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f1","response":{"output":"one"}}},{"inlineData":{"mimeType":"image/png","data":"AQID"}}]}]}`,
		},
	}
}

// Each thing a request can hold, and what is sent for it.
func TestRequests(t *testing.T) {
	for _, tt := range append(plainRequests(), laterRequests()...) {
		t.Run(tt.name, func(t *testing.T) {
			if tt.in.Model == "" {
				tt.in.Model = "gemini-test"
			}
			var got, want any
			if err := json.Unmarshal(bodyOf(t, tt.in), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// The name of a model stays within its place of the address.
func TestAddresses(t *testing.T) {
	for name, want := range map[string]string{
		"gemini-3-pro":        "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
		"models/gemini-3-pro": "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
		"tunedModels/mine":    "/v1beta/tunedModels/mine:streamGenerateContent?alt=sse",
		"../x?key=a#b":        "/v1beta/models/..%2Fx%3Fkey=a%23b:streamGenerateContent?alt=sse",
	} {
		var got string
		p := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.RequestURI
			body(200, eventStream, theEnd)(w, r)
		}))
		for _, err := range p.Stream(t.Context(), model.Request{Model: name}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Errorf("%s: asked for %s, want %s", name, got, want)
		}
	}
}

// What cannot be sent is refused here, as a bad request.
func TestBadRequests(t *testing.T) {
	p := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") }))
	for name, r := range map[string]model.Request{
		"no model":      {},
		"only dots":     {Model: ".."},
		"broken schema": {Model: "m", Tools: []model.ToolSpec{{Name: "f", Schema: json.RawMessage(`{`)}}},
		"broken args":   {Model: "m", Messages: []model.Message{{Role: model.RoleAssistant, Parts: []model.Part{{Call: &model.ToolCall{Args: json.RawMessage(`{`)}}}}}},
		"effort":        {Model: "m", Effort: "heroic"},
	} {
		for _, err := range p.Stream(t.Context(), r) {
			var got *model.Error
			if !errors.As(err, &got) || got.Kind != model.ErrBadRequest {
				t.Errorf("%s: got %v, want one of kind %s", name, err, model.ErrBadRequest)
			}
		}
	}
}
