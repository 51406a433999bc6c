package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"stave/internal/model"
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

// schemaOf reads a schema for the SDK, leaving the values as they are written.
func schemaOf(what string, raw json.RawMessage) (map[string]any, error) {
	schema := map[string]any{}
	if len(raw) == 0 {
		return map[string]any{"type": "object", "properties": map[string]any{}}, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, badRequest("the schema of %s is not a JSON object: %v", what, err)
	}
	for name, value := range fields {
		schema[name] = value
	}
	return schema, nil
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

func dataURL(img *model.Image) (string, error) {
	switch img.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return "data:" + img.MediaType + ";base64," + base64.StdEncoding.EncodeToString(img.Data), nil
	}
	return "", badRequest("an image of type %.60q cannot be sent: it must be PNG, JPEG, GIF or WebP", img.MediaType)
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
