package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"stave/internal/model"
	"stave/internal/model/openai"
)

// sentBy makes one call and returns the request as the service sees it.
func sentBy(t *testing.T, d dialect, o openai.Options, r model.Request) (path string, header http.Header, body []byte) {
	t.Helper()
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		path, header = req.URL.Path, req.Header
		body, _ = io.ReadAll(req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, d.complete)
	})
	if o.HTTP == nil {
		o.BaseURL = url
	}
	for _, err := range d.newProvider(o).Stream(t.Context(), r) {
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
	}
	return path, header, body
}

// fullRequest uses all that a request can say.
func fullRequest() model.Request {
	png := model.Image{MediaType: "image/png", Data: []byte("not really a picture")}
	return model.Request{
		Model: "gpt-5", System: "Be brief.", Attempt: 2, MaxTokens: 4000, Effort: "low",
		CacheKey: strings.Repeat("conversation", 10),
		Output:   &model.OutputSchema{Name: "an answer!", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}},"required":["n"],"additionalProperties":false}`)},
		Tools: []model.ToolSpec{
			{Name: "read", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
			{Name: "list", Description: "Lists files."},
		},
		Messages: []model.Message{
			{Role: model.RoleUser, Parts: []model.Part{{Text: "Look at <this> & that."}, {Image: &png}}},
			{Role: model.RoleAssistant, Parts: []model.Part{
				{Reasoning: &model.Reasoning{ID: "rs_1", Text: "Earlier.", Opaque: "c2VhbGVk", Origin: "openai"}},
				{Reasoning: &model.Reasoning{Text: "Someone else's.", Opaque: "signature", Origin: "anthropic"}},
				{Reasoning: &model.Reasoning{ID: "rs_2", Text: "Not sealed.", Origin: "openai"}},
				{Text: "Let me see."},
				{Call: &model.ToolCall{ID: "call_1", Name: "read", Args: json.RawMessage(`{"path":"a"}`), Opaque: "x", Origin: "gemini"}},
				{Call: &model.ToolCall{ID: strings.Repeat("long", 20), Name: "list"}},
			}},
			{Role: model.RoleTool, Parts: []model.Part{
				{Result: &model.ToolResult{ID: "call_1", Text: "a picture", Images: []model.Image{png}}},
				{Result: &model.ToolResult{ID: strings.Repeat("long", 20), Text: "no such folder", IsError: true}},
			}},
			{Role: model.RoleUser, Parts: []model.Part{{Text: "Go "}, {Text: "on."}}},
			{Role: model.RoleAssistant, Parts: []model.Part{
				{Reasoning: &model.Reasoning{ID: "rs_3", Text: "Now.", Opaque: "c2VhbGVkMw", Origin: "openai"}},
				{Call: &model.ToolCall{ID: "call_2", Name: "list", Args: json.RawMessage(`{}`)}},
			}},
			{Role: model.RoleTool, Parts: []model.Part{{Result: &model.ToolResult{ID: "call_2"}}}},
			{Role: model.RoleAssistant, Parts: []model.Part{
				{Reasoning: &model.Reasoning{ID: "rs_4", Text: "Nothing follows me.", Opaque: "c2VhbGVkNA", Origin: "openai"}},
			}},
		},
	}
}

// TestRequests shows what is sent, byte for byte but for the layout.
func TestRequests(t *testing.T) {
	old := simpleRequest()
	old.Model, old.MaxTokens = "gpt-4o", 100
	loose := simpleRequest()
	loose.Output = &model.OutputSchema{Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
	for _, c := range []struct {
		name    string
		options openai.Options
		request model.Request
	}{
		{"full", openai.Options{Summary: "auto"}, fullRequest()},
		{"local", openai.Options{Name: "openai", UseMaxTokens: true, NoStreamOptions: true, ThoughtField: "reasoning_content"}, fullRequest()},
		{"other-service", openai.Options{Name: "openrouter"}, fullRequest()},
		{"older-model", openai.Options{Summary: "auto"}, old},
		{"loose-schema", openai.Options{}, loose},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d dialect) {
				_, _, body := sentBy(t, d, c.options, c.request)
				var value any
				if err := json.Unmarshal(body, &value); err != nil {
					t.Fatalf("the request is not JSON: %v", err)
				}
				if !strings.Contains(string(body), "9007199254740993") && c.request.Output != nil && c.name != "loose-schema" {
					t.Error("a number of the schema was rounded")
				}
				pretty, err := json.MarshalIndent(value, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("testdata", d.name, "request-"+c.name+".json"), string(pretty)+"\n")
			})
		})
	}
}

// TestHeaders shows where a request goes and what it carries beside its body.
func TestHeaders(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		path, header, body := sentBy(t, d, openai.Options{
			APIKey: testKey, Organization: "org_1", Project: "proj_1", Headers: map[string]string{"X-Title": "Stave"},
		}, simpleRequest())
		if want := map[string]string{"responses": "/v1/responses", "chat": "/v1/chat/completions"}[d.name]; path != want {
			t.Errorf("the path is %s, want %s", path, want)
		}
		for name, want := range map[string]string{
			"Authorization": "Bearer " + testKey, "OpenAI-Organization": "org_1", "OpenAI-Project": "proj_1",
			"X-Title": "Stave", "Accept-Encoding": "identity", "Accept": "text/event-stream",
			"Content-Type": "application/json", "User-Agent": "stave",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if !strings.Contains(string(body), `"stream":true`) {
			t.Error("no stream is asked for")
		}
	})
}

// TestCacheKeyOfChat shows that the cache key goes only to the service that
// knows it: others refuse what they do not know.
func TestCacheKeyOfChat(t *testing.T) {
	request := simpleRequest()
	request.CacheKey = "conv_1"
	for base, want := range map[string]bool{"": true, "https://api.groq.com/openai/v1": false} {
		var body []byte
		client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body, _ = io.ReadAll(r.Body)
			return bodyOf(func() io.Reader { return strings.NewReader(dialects[1].complete) }).Transport.RoundTrip(r)
		})}
		for _, err := range openai.NewChat(openai.Options{BaseURL: base, HTTP: client}).Stream(t.Context(), request) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Contains(string(body), "prompt_cache_key"); got != want {
			t.Errorf("with the base URL %q the key is sent: %v, want %v", base, got, want)
		}
	}
}

// TestBadRequests shows that what cannot be sent is refused before anyone is asked.
func TestBadRequests(t *testing.T) {
	with := func(change func(*model.Request)) model.Request {
		r := simpleRequest()
		change(&r)
		return r
	}
	svg := model.Image{MediaType: "image/svg+xml"}
	for name, c := range map[string]struct {
		request model.Request
		message string
	}{
		"schema of a tool":     {with(func(r *model.Request) { r.Tools = []model.ToolSpec{{Name: "odd", Schema: json.RawMessage(`[1]`)}} }), "the tool odd"},
		"schema of the answer": {with(func(r *model.Request) { r.Output = &model.OutputSchema{Schema: json.RawMessage(`{`)} }), "the answer"},
		"role":                 {with(func(r *model.Request) { r.Messages[0].Role = "narrator" }), "narrator"},
		"image":                {with(func(r *model.Request) { r.Messages[0].Parts = []model.Part{{Image: &svg}} }), "image/svg+xml"},
		"image of a result": {with(func(r *model.Request) {
			r.Messages = []model.Message{{Role: model.RoleTool, Parts: []model.Part{{Result: &model.ToolResult{ID: "a", Images: []model.Image{svg}}}}}}
		}), "image/svg+xml"},
	} {
		t.Run(name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d dialect) {
				url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the service was asked") })
				for _, err := range d.newProvider(openai.Options{BaseURL: url}).Stream(t.Context(), c.request) {
					if e := wantKind(t, err, model.ErrBadRequest); !strings.Contains(e.Message, c.message) {
						t.Errorf("the message is %q, want something with %q", e.Message, c.message)
					}
				}
			})
		})
	}
}

// TestStrict shows which schemas the API can promise to follow.
func TestStrict(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`:                                                true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                             false,
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`:                                                                 false,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{}}}}},"required":["a"],"additionalProperties":false}`: false,
		`{"type":"object","properties":{"a":{"enum":[{"type":"object"}]}},"required":["a"],"additionalProperties":false}`:                                     true,
		`{"type":"object","properties":{"a":{"allOf":[]}},"required":["a"],"additionalProperties":false}`:                                                     false,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":"object"}}}`:             false,
		`{"type":"array"}`: false,
		`{}`:               false,
	} {
		request := simpleRequest()
		request.Output = &model.OutputSchema{Name: "answer", Schema: json.RawMessage(schema)}
		eachDialect(t, func(t *testing.T, d dialect) {
			_, _, body := sentBy(t, d, openai.Options{}, request)
			if got := strings.Contains(string(body), `"strict":true`); got != want {
				t.Errorf("strict is %v for %s", got, schema)
			}
		})
	}
}
