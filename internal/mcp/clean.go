package mcp

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes a stranger's text fit to be shown: valid, without control
// characters and without characters that hide or reorder others, and no longer
// than most.
func clean(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if hidden(r) {
			continue
		}
		if n == most {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// hidden says that a reader would not see the character, or see it elsewhere.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == utf8.RuneError:
		return false
	case unicode.IsControl(r):
		return true
	case unicode.Is(unicode.Cf, r):
		// Format characters: bidirectional marks, zero width, tags.
		return true
	case r == '\u2028' || r == '\u2029' || r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0':
		return true
	case r >= '\ufe00' && r <= '\ufe0f' || r >= 0xe0100 && r <= 0xe01ef:
		// Variation selectors can carry any text unseen.
		return true
	}
	return false
}

// cleanLine is clean for what must stay on one line.
func cleanLine(s string, most int) string {
	return clean(strings.Join(strings.Fields(s), " "), most)
}

// cleanSchema cleans the prose inside a JSON schema and leaves what decides
// about values alone.
func cleanSchema(v any, most int) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = cleanSchema(item, most)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			text, isText := item.(string)
			switch {
			case isText && (k == "description" || k == "title" || k == "$comment"):
				out[k] = clean(text, most)
			case k == "const" || k == "enum" || k == "default" || k == "examples":
				out[k] = item
			default:
				out[k] = cleanSchema(item, most)
			}
		}
		return out
	}
	return v
}

// redactor takes secrets out of what people and models are shown.
type redactor struct {
	fixed []string
	more  func() []string // those that change while a connection lives
}

// minSecret is the length below which a value is too common to be a secret.
const minSecret = 6

func (r redactor) text(s string) string {
	all := r.fixed
	if r.more != nil {
		all = append(slices.Clone(all), r.more()...)
	}
	for _, secret := range all {
		if len(secret) >= minSecret {
			s = strings.ReplaceAll(s, secret, "[redacted]")
		}
	}
	return s
}
