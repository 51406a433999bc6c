package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"

	"stave/internal/model"
	"stave/internal/model/codec"
)

func appendText(b []byte, s string) []byte {
	return append(codec.Field(append(b, `{"type":"text"`...), "text", s), '}')
}

// sendable says that a thought can be given back. One of another provider, or
// one that was cut before its signature, cannot.
func sendable(r *model.Reasoning) bool { return r.Origin == Origin && r.Opaque != "" }

// appendThought gives back a thought as it came.
func appendThought(b []byte, r *model.Reasoning) []byte {
	if r.Redacted {
		return append(codec.Field(append(b, `{"type":"redacted_thinking"`...), "data", r.Opaque), '}')
	}
	b = codec.Field(append(b, `{"type":"thinking"`...), "thinking", r.Text)
	return append(codec.Field(b, "signature", r.Opaque), '}')
}

func appendCall(b []byte, c *model.ToolCall, wire string) []byte {
	b = codec.Field(append(b, `{"type":"tool_use"`...), "id", wire)
	b = codec.Field(b, "name", wireName(c.Name))
	return append(appendInput(codec.Name(b, "input"), c.Args), '}')
}

// appendInput gives arguments back as a JSON object, which is all the API takes.
func appendInput(b []byte, args json.RawMessage) []byte {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		return append(b, "{}"...)
	}
	whole := b
	if args[0] != '{' {
		b = append(b, `{"value":`...)
	}
	b, err := codec.Raw(b, args)
	if err != nil {
		return append(whole, "{}"...)
	}
	if args[0] != '{' {
		b = append(b, '}')
	}
	return b
}

func appendResult(b []byte, id string, r *model.ToolResult) []byte {
	b = codec.Field(append(b, `{"type":"tool_result"`...), "tool_use_id", id)
	said := r.Text
	if r.IsError {
		b = codec.BoolField(b, "is_error", true)
		if strings.TrimSpace(said) == "" && len(r.Images) == 0 {
			said = "failed without saying why" // the API refuses an error without words
		}
	}
	speaks := strings.TrimSpace(said) != ""
	if !speaks && len(r.Images) == 0 {
		return append(b, '}')
	}
	b = append(codec.Name(b, "content"), '[')
	if speaks {
		b = appendText(b, said)
	}
	for i := range r.Images {
		b = codec.Comma(b)
		if showable(&r.Images[i]) {
			b = appendImage(b, &r.Images[i])
		} else {
			b = appendText(b, unseen(&r.Images[i]))
		}
	}
	return append(b, "]}"...)
}

// showable says that the API takes a picture.
func showable(i *model.Image) bool {
	switch i.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return len(i.Data) > 0
	}
	return false
}

func appendImage(b []byte, i *model.Image) []byte {
	b = codec.Field(append(b, `{"type":"image","source":{"type":"base64"`...), "media_type", i.MediaType)
	return append(codec.Base64(append(codec.Name(b, "data"), '"'), i.Data), `"}}`...)
}

func unseen(i *model.Image) string {
	return "[an image of type " + i.MediaType + ", which cannot be shown here]"
}
