package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"stave/internal/model"
	"stave/internal/model/codec"
)

// maxIDBytes is the longest id OpenAI takes, of a call or of a cache.
const maxIDBytes = 64

// badRequest is a request that no service was asked: it cannot be written.
func badRequest(format string, args ...any) error {
	return &model.Error{Kind: model.ErrBadRequest, Message: fmt.Sprintf(format, args...)}
}

// shortID keeps an id within bounds; the same id always becomes the same.
func shortID(id string) string {
	if len(id) <= maxIDBytes {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "id_" + hex.EncodeToString(sum[:24])
}

// conversation is what was written of one.
type conversation struct {
	list codec.List
	loop int    // Chat: the message with which the running tool loop began
	key  string // of the service's cache
}

// conversation returns what was written for the request before, if it is kept.
func (s *service) conversation(r model.Request) *conversation {
	if r.CacheKey != "" {
		if said, ok := s.said.Take(r.CacheKey); ok {
			return said
		}
	}
	return &conversation{loop: -1, key: shortID(r.CacheKey)}
}

// keep keeps it for the next request.
func (s *service) keep(r model.Request, said *conversation) {
	if r.CacheKey != "" {
		s.said.Put(r.CacheKey, said, said.list.Size())
	}
}

// reuse takes up the loop of messages and says how many of them are written as
// they were in the loop before: with another loop other thoughts are sent.
func (c *conversation) reuse(s *service, messages []model.Message) int {
	loop := lastUserMessage(messages)
	before := min(loop, c.loop)
	moved := loop != c.loop
	c.loop = loop
	if moved && s.ThoughtField != "" {
		return before + 1
	}
	return len(messages)
}

// roomFor is about what a request needs besides its messages and its tools.
func roomFor(r model.Request) int {
	n := 1<<10 + len(r.System) + len(r.System)/8
	if r.Output != nil {
		n += len(r.Output.Schema)
	}
	return n
}

// appendSchema passes a schema on as it is.
func appendSchema(b []byte, what string, raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return append(b, `{"type":"object","properties":{}}`...), nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, badRequest("the schema of %s is not a JSON object: %v", what, err)
	}
	if fields == nil { // null
		return append(b, "{}"...), nil
	}
	return codec.Raw(b, raw)
}

// appendFormat writes the fields of a format that both dialects have.
func appendFormat(b []byte, o *model.OutputSchema) ([]byte, error) {
	b = codec.BoolField(codec.Field(b, "name", formatName(o.Name)), "strict", strictly(o.Schema))
	return appendSchema(codec.Name(b, "schema"), "the answer", o.Schema)
}

// formatName makes a name that the API takes.
func formatName(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if clean == "" {
		return "answer"
	}
	return clean[:min(len(clean), maxIDBytes)]
}

// strictly reports whether a schema keeps the rules under which the API
// promises to follow it: objects closed, every property required, none of the
// keywords it does not know. Any other schema would be refused when strict, so
// it is only asked for.
func strictly(raw json.RawMessage) bool {
	var schema any
	if json.Unmarshal(raw, &schema) != nil {
		return false
	}
	object, ok := schema.(map[string]any)
	return ok && object["type"] == "object" && strictIn(schema)
}

func strictIn(node any) bool {
	switch node := node.(type) {
	case []any:
		return !slices.ContainsFunc(node, func(n any) bool { return !strictIn(n) })
	case map[string]any:
		for _, unknown := range []string{"allOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas", "patternProperties"} {
			if _, has := node[unknown]; has {
				return false
			}
		}
		properties, _ := node["properties"].(map[string]any)
		if (node["type"] == "object" || properties != nil) && !closed(node, properties) {
			return false
		}
		for key, value := range node {
			if key == "enum" || key == "const" || key == "default" || key == "examples" {
				continue // data, not schemas
			}
			if !strictIn(value) {
				return false
			}
		}
	}
	return true
}

func closed(object, properties map[string]any) bool {
	if object["additionalProperties"] != false {
		return false
	}
	required, _ := object["required"].([]any)
	for name := range properties {
		if !slices.Contains(required, any(name)) {
			return false
		}
	}
	return true
}

func appendDataURL(b []byte, img *model.Image) ([]byte, error) {
	switch img.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		b = append(append(append(b, `"data:`...), img.MediaType...), ";base64,"...)
		return append(codec.Base64(b, img.Data), '"'), nil
	}
	return nil, badRequest("an image of type %.60q cannot be sent: it must be PNG, JPEG, GIF or WebP", img.MediaType)
}

// resultText is what the model reads of a result. The API has no mark for a
// failure, so the text carries it.
func resultText(r *model.ToolResult) string {
	switch {
	case r.IsError && !strings.HasPrefix(strings.ToLower(r.Text), "error"):
		return "error: " + r.Text
	case r.Text == "" && len(r.Images) > 0:
		return "(see the image)"
	case r.Text == "":
		return "(no output)"
	}
	return r.Text
}

func argsText(c *model.ToolCall) string { return orEmpty(string(c.Args)) }
