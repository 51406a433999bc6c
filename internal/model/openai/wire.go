package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"stave/internal/model"
)

// text is a JSON string whose bytes are kept even where they are not UTF-8: a
// server may cut a rune in two, and the Assembler puts it together again or
// counts what it had to repair. What is not a string reads as empty.
type text string

// UnmarshalJSON reads a string.
func (t *text) UnmarshalJSON(data []byte) error {
	*t = ""
	if len(data) < 2 || data[0] != '"' {
		return nil
	}
	if utf8.Valid(data) {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*t = text(s)
		return nil
	}
	var all strings.Builder
	inner := data[1 : len(data)-1]
	for len(inner) > 0 {
		// Escapes are ASCII, so none is split by what is not UTF-8.
		if valid := validPrefix(inner); valid > 0 {
			var s string
			if err := json.Unmarshal(bytes.Join([][]byte{{'"'}, inner[:valid], {'"'}}, nil), &s); err != nil {
				return err
			}
			all.WriteString(s)
			inner = inner[valid:]
			continue
		}
		all.WriteByte(inner[0])
		inner = inner[1:]
	}
	*t = text(all.String())
	return nil
}

func validPrefix(b []byte) int {
	n := 0
	for n < len(b) {
		r, width := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && width == 1 {
			break
		}
		n += width
	}
	return n
}

// arguments are those of a call: a string of JSON, or with some servers the
// JSON itself, which is kept as it was written.
type arguments string

// UnmarshalJSON reads both forms.
func (a *arguments) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("null")):
		*a = ""
	case data[0] == '"':
		var t text
		if err := t.UnmarshalJSON(data); err != nil {
			return err
		}
		*a = arguments(t)
	default:
		*a = arguments(data)
	}
	return nil
}

// orEmpty gives the arguments of a call that came without any.
func orEmpty(args string) string {
	if strings.TrimSpace(args) == "" {
		return "{}"
	}
	return args
}

// content is a text, or a list of parts of which the texts count.
type content string

// UnmarshalJSON reads both forms and takes anything else for no text.
func (c *content) UnmarshalJSON(data []byte) error {
	*c = ""
	if data[0] == '[' {
		var parts []struct {
			Text text `json:"text"`
		}
		if json.Unmarshal(data, &parts) != nil {
			return nil
		}
		for _, p := range parts {
			*c += content(p.Text)
		}
		return nil
	}
	var t text
	err := t.UnmarshalJSON(data)
	*c = content(t)
	return err
}

// wireUsage is usage in the words of both dialects.
type wireUsage struct {
	InputTokens  *int64     `json:"input_tokens"`
	OutputTokens int64      `json:"output_tokens"`
	InputDetail  *inDetail  `json:"input_tokens_details"`
	OutputDetail *outDetail `json:"output_tokens_details"`

	PromptTokens     *int64     `json:"prompt_tokens"`
	CompletionTokens int64      `json:"completion_tokens"`
	PromptDetail     *inDetail  `json:"prompt_tokens_details"`
	CompletionDetail *outDetail `json:"completion_tokens_details"`
}

type inDetail struct {
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
}

type outDetail struct {
	Reasoning int64 `json:"reasoning_tokens"`
}

// usageOf returns nil for what does not say how much was used: the caller
// charges its own estimate then.
func usageOf(data json.RawMessage) *model.Usage {
	if !present(data) {
		return nil
	}
	w, ok := quickUsage(data)
	if !ok {
		w = wireUsage{}
		if json.Unmarshal(data, &w) != nil {
			return nil
		}
	}
	in, out := w.InputDetail, w.OutputDetail
	var u model.Usage
	switch {
	case w.InputTokens != nil:
		u.InputTokens, u.OutputTokens = *w.InputTokens, w.OutputTokens
	case w.PromptTokens != nil:
		u.InputTokens, u.OutputTokens = *w.PromptTokens, w.CompletionTokens
		in, out = w.PromptDetail, w.CompletionDetail
	default:
		return nil
	}
	if in != nil {
		u.CachedTokens, u.CacheWriteTokens = in.Cached, in.CacheWrite
	}
	if out != nil {
		u.ReasoningTokens = out.Reasoning
	}
	return &u
}

// notJSON is the error for an event that cannot be read. The data is not
// repeated: it may hold anything.
func notJSON(data []byte) error {
	return broken(fmt.Sprintf("an event of %d bytes is not the JSON it should be", len(data)))
}

// broken is a stream that was cut or makes no sense.
func broken(message string) *model.Error {
	return &model.Error{Kind: model.ErrStream, Message: message, Retryable: true}
}

func overLimit(most int64, what string) error {
	return &model.Error{Kind: model.ErrLimit, Message: fmt.Sprintf("the response has more than %d %s", most, what)}
}

func isDone(data []byte) bool { return bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) }
