package main

import "strconv"

// dialect is how a conversation is put to one kind of service.
type dialect struct {
	begin   []any                // the first message
	round   func(i int) []any    // the call of a round and its result
	request func(said []any) any // with all that was said
}

type fields = map[string]any

var dialects = map[string]dialect{
	"anthropic": {
		[]any{message{Role: "user", Content: "go"}},
		func(i int) []any {
			return []any{
				message{Role: "assistant", Content: []block{{Type: "tool_use", ID: id(i), Name: "Bash", Input: args(i)}}},
				message{Role: "user", Content: []block{{Type: "tool_result", UseID: id(i), Content: []block{{Type: "text", Text: "(no output)"}}}}},
			}
		},
		func(said []any) any {
			return fields{"model": "local", "max_tokens": 1000, "stream": true, "messages": said}
		},
	},
	"responses": {
		[]any{message{Role: "user", Content: "go"}},
		func(i int) []any {
			return []any{
				item{Type: "function_call", ID: id(i), Name: "Bash", Arguments: command(i)},
				item{Type: "function_call_output", ID: id(i), Output: "(no output)"},
			}
		},
		func(said []any) any { return fields{"model": "local", "stream": true, "input": said} },
	},
	"chat": {
		[]any{message{Role: "user", Content: "go"}},
		func(i int) []any {
			return []any{
				message{Role: "assistant", Calls: []call{{"function", id(i), function{"Bash", command(i)}}}},
				message{Role: "tool", CallID: id(i), Content: "(no output)"},
			}
		},
		func(said []any) any { return fields{"model": "local", "stream": true, "messages": said} },
	},
	"gemini": {
		[]any{content{"user", []part{{Text: "go"}}}},
		func(i int) []any {
			return []any{
				content{"model", []part{{Call: fields{"id": id(i), "name": "Bash", "args": args(i)}}}},
				content{"user", []part{{Response: fields{"id": id(i), "name": "Bash", "response": fields{"output": ""}}}}},
			}
		},
		func(said []any) any { return fields{"contents": said} },
	},
}

type message struct {
	Role    string `json:"role"`
	Content any    `json:"content,omitempty"`
	Calls   []call `json:"tool_calls,omitempty"`
	CallID  string `json:"tool_call_id,omitempty"`
}

type block struct {
	Type    string  `json:"type"`
	Text    string  `json:"text,omitempty"`
	ID      string  `json:"id,omitempty"`
	Name    string  `json:"name,omitempty"`
	Input   any     `json:"input,omitempty"`
	UseID   string  `json:"tool_use_id,omitempty"`
	Content []block `json:"content,omitempty"`
}

type item struct {
	Type      string `json:"type"`
	ID        string `json:"call_id"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	Output    string `json:"output,omitempty"`
}

type call struct {
	Type     string   `json:"type"`
	ID       string   `json:"id"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type content struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

type part struct {
	Text     string `json:"text,omitempty"`
	Call     fields `json:"functionCall,omitempty"`
	Response fields `json:"functionResponse,omitempty"`
}

func id(i int) string { return "call_" + strconv.Itoa(i) }

func args(i int) fields { return fields{"command": "true " + strconv.Itoa(i)} }

func command(i int) string { return `{"command":"true ` + strconv.Itoa(i) + `"}` }
