package catalog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"stave/internal/model"
)

func ask(text string) model.Request {
	return model.Request{Messages: []model.Message{{Role: model.RoleUser, Parts: []model.Part{{Text: text}}}}}
}

// For kinds of text whose true count is known within limits, the estimate is
// not below the highest and not absurdly above it.
func TestTokensOfTexts(t *testing.T) {
	frame := Tokens(ask(""))
	for _, c := range []struct {
		name, text string
		low, high  int64 // for a hundred repetitions, over all common tokenizers
	}{
		{"English", "The quick brown fox jumps over the lazy dog near the river bank. ", 1400, 2000},
		{"German", "Der Vertrag über die Zusammenarbeit wurde gestern unterzeichnet. ", 1500, 2600},
		{"Go", "func (s *sum) add(tokens, price int64) error {\n\treturn nil\n}\n", 1900, 2900},
		{"JSON", `{"path":"a/b.txt","line":12,"ok":true},`, 1700, 2300},
		{"digits", "20261115 ", 300, 900},
		{"Chinese", "今天天气很好我们去公园散步", 900, 2000},
		{"Russian", "Быстрая лиса прыгает через собаку. ", 1000, 2000},
	} {
		got := Tokens(ask(strings.Repeat(c.text, 100))) - frame
		if got < c.high || got > 4*c.low {
			t.Errorf("%s: %d tokens, want between %d and %d", c.name, got, c.high, 4*c.low)
		}
	}
}

// Every part of a request is counted, and more of it never counts less.
func TestTokensCountsEverything(t *testing.T) {
	long := strings.Repeat("word ", 50)
	base := ask("hello")
	for name, change := range map[string]func(*model.Request){
		"system":  func(r *model.Request) { r.System = long },
		"tool":    func(r *model.Request) { r.Tools = []model.ToolSpec{{Description: long}} },
		"schema":  func(r *model.Request) { r.Tools = []model.ToolSpec{{Schema: json.RawMessage(long)}} },
		"output":  func(r *model.Request) { r.Output = &model.OutputSchema{Schema: json.RawMessage(long)} },
		"text":    func(r *model.Request) { r.Messages = append(r.Messages, ask(long).Messages...) },
		"image":   func(r *model.Request) { r.Messages[0].Parts[0] = model.Part{Image: &model.Image{}} },
		"thought": func(r *model.Request) { r.Messages[0].Parts[0] = model.Part{Reasoning: &model.Reasoning{Text: long}} },
		"opaque":  func(r *model.Request) { r.Messages[0].Parts[0] = model.Part{Reasoning: &model.Reasoning{Opaque: long}} },
		"call": func(r *model.Request) {
			r.Messages[0].Parts[0] = model.Part{Call: &model.ToolCall{Args: json.RawMessage(long)}}
		},
		"result": func(r *model.Request) { r.Messages[0].Parts[0] = model.Part{Result: &model.ToolResult{Text: long}} },
		"pictures": func(r *model.Request) {
			r.Messages[0].Parts[0] = model.Part{Result: &model.ToolResult{Images: make([]model.Image, 2)}}
		},
	} {
		r := ask("hello")
		change(&r)
		if got, least := Tokens(r), Tokens(base)+50; got < least {
			t.Errorf("%s: %d tokens, want at least %d", name, got, least)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("Hello, wörld! 12  camelCase\n\x00\xff", "more")
	f.Add("the and all the and all the and all the and all the and all", "")
	f.Add("qxjzvkwqxjzvkwqxjzvkwqxjzvkwqxjzvkw        \u2028\U0001fab5", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		both, one := Tokens(ask(a+b)), Tokens(ask(a))
		if one < 0 || both < one-2 { // a word can grow together at the seam
			t.Errorf("%q has %d tokens and with %q %d", a, one, b, both)
		}
		if n := int64(len(a)); one-Tokens(ask("")) > 2*n+2 {
			t.Errorf("%q has %d bytes and %d tokens", a, n, one)
		}
		if n := int64(len(a)); 4*(one-Tokens(ask(""))+1) < n {
			t.Errorf("%q has %d bytes and only %d tokens", a, n, one)
		}
	})
}

// Requests that were really sent have no more tokens than estimated.
func TestTokensOfRecordedRequests(t *testing.T) {
	dir := os.Getenv("STAVE_CASSETTES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "cassettes")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "Anthropic*.yaml"))
	if len(files) == 0 {
		t.Logf("no recorded traffic in %s (STAVE_CASSETTES): nothing to compare with", dir)
		return
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var tape struct {
			Interactions []struct {
				Request, Response struct{ Body string }
			}
		}
		if err := yaml.Unmarshal(data, &tape); err != nil {
			t.Fatal(err)
		}
		for i, x := range tape.Interactions {
			_, after, _ := strings.Cut(x.Response.Body, `"input_tokens":`)
			var true64 int64
			if err := json.NewDecoder(strings.NewReader(after)).Decode(&true64); err != nil && true64 == 0 {
				t.Fatalf("%s %d: %v", name, i, err)
			}
			got := Tokens(recorded(t, x.Request.Body))
			t.Logf("%s %d: %d tokens, estimated %d", filepath.Base(name), i, true64, got)
			if got < true64 {
				t.Errorf("%s %d: estimated %d of %d tokens", filepath.Base(name), i, got, true64)
			}
		}
	}
}

// recorded reads as much of a request to the Messages API as is counted.
func recorded(t *testing.T, body string) model.Request {
	t.Helper()
	var sent struct {
		System []struct{ Text string }
		Tools  []struct {
			Name, Description string
			Schema            json.RawMessage `json:"input_schema"`
		}
		Messages []struct {
			Content []struct {
				Text, Name, Thinking, Signature string
				Input                           json.RawMessage
				Content                         []struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	var r model.Request
	for _, s := range sent.System {
		r.System += s.Text
	}
	for _, x := range sent.Tools {
		r.Tools = append(r.Tools, model.ToolSpec{Name: x.Name, Description: x.Description, Schema: x.Schema})
	}
	for _, m := range sent.Messages {
		var parts []model.Part
		for _, c := range m.Content {
			p := model.Part{Text: c.Text}
			switch {
			case c.Signature != "":
				p = model.Part{Reasoning: &model.Reasoning{Text: c.Thinking, Opaque: c.Signature}}
			case c.Input != nil:
				p = model.Part{Call: &model.ToolCall{Name: c.Name, Args: c.Input}}
			case len(c.Content) > 0:
				p = model.Part{Result: &model.ToolResult{Text: c.Content[0].Text}}
			}
			parts = append(parts, p)
		}
		r.Messages = append(r.Messages, model.Message{Parts: parts})
	}
	return r
}
