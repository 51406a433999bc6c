package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

const (
	schemaURL = "https://schema.invalid/" // names, never fetched
	partsURL  = "https://parts.invalid/"
	draft     = "https://json-schema.org/draft/2020-12/schema"

	maxFaults       = 20  // of a payload told at once
	maxFault        = 300 // bytes of one
	maxPayloadDepth = 32
)

// compileSchema reads a schema that is whole in its definition.
func compileSchema(raw json.RawMessage) (*tree, error) {
	switch {
	case len(raw) > MaxSchema:
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed; shorten it", len(raw), MaxSchema)
	case !jsontext.Value(raw).IsValid():
		return nil, errors.New("it is not JSON with unique names in UTF-8")
	case depth(raw) > maxDepth:
		return nil, fmt.Errorf("it is nested more than %d deep; make it flatter", maxDepth)
	}
	doc, err := decodeNumbers(raw)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	top, ok := doc.(map[string]any)
	switch {
	case !ok || top["type"] != "object":
		return nil, errors.New("it has to describe an object, because a tool's arguments are one; write type: object")
	case top["$schema"] != nil && top["$schema"] != draft:
		return nil, fmt.Errorf("$schema is %.80q; write %s or leave it out", fmt.Sprint(top["$schema"]), draft)
	}
	var looked shaper
	if looked.schema("", doc); len(looked.faults) > 0 {
		all := &PayloadError{Faults: firstFaults(looked.faults, true)}
		return nil, fmt.Errorf("it is not a JSON Schema of draft 2020-12: %s", strings.Join(all.lines("the schema"), "; "))
	}
	root := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, root); err != nil {
		return nil, fmt.Errorf("it is not a JSON Schema of draft 2020-12: %w", err)
	}
	t, err := plant(root)
	if err != nil {
		return nil, err
	}
	if t.weight = (weigher{t, map[weighed]int{}}).weigh(root, maxPayloadDepth); t.weight > maxWork {
		return nil, errors.New("checking a payload against it could take for ever, because its references multiply or lead in a circle; write each $ref once")
	}
	if t.library, err = root.Resolve(&jsonschema.ResolveOptions{BaseURI: schemaURL}); err != nil {
		return nil, errors.New(clean(err.Error()))
	}
	return t, nil
}

// Fault is one thing wrong with a payload.
type Fault struct {
	Pointer string `json:"pointer"` // JSON pointer; empty is the payload itself
	Text    string `json:"text"`
}

// PayloadError is a completion payload that is not what the stage asks for. Its
// text is for the model.
type PayloadError struct {
	Tool   string  `json:"tool"`
	Faults []Fault `json:"faults"`
}

func (e *PayloadError) lines(whole string) []string {
	lines := make([]string, 0, len(e.Faults))
	for _, f := range e.Faults {
		where := whole
		if f.Pointer != "" {
			where = f.Pointer
		}
		lines = append(lines, where+": "+f.Text)
	}
	return lines
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("%s was not accepted:\n- %s\nCall %s again with the whole payload, corrected.",
		e.Tool, strings.Join(e.lines("the payload"), "\n- "), e.Tool)
}

// Accept checks a completion payload. A *PayloadError says what is wrong with it;
// any other error says that the definition is.
func (s Stage) Accept(payload []byte) error {
	refuse := func(format string, args ...any) error {
		return &PayloadError{Tool: s.CompletionTool, Faults: []Fault{{Text: fmt.Sprintf(format, args...)}}}
	}
	if len(payload) > MaxPayload {
		return refuse("it has %d bytes, at most %d are taken; write large results to files and name them", len(payload), MaxPayload)
	}
	if !jsontext.Value(payload).IsValid() {
		return refuse("it is not one JSON object with unique names in UTF-8")
	}
	if depth(payload) > maxPayloadDepth {
		return refuse("it is nested more than %d deep; make it flatter", maxPayloadDepth)
	}
	schema, err := compileSchema(s.CompletionSchema)
	if err != nil {
		return fmt.Errorf("stage %s, completionSchema: %w", s.ID, err)
	}
	if most := schema.effort(payload); most > maxEffort {
		return refuse("it takes %d checks, because the schema has so many alternatives, and at most %d are made; make it smaller, or write large results to files and name them", most, maxEffort)
	}
	if wrong := schema.faults(payload); len(wrong) > 0 {
		return &PayloadError{Tool: s.CompletionTool, Faults: wrong}
	}
	return nil
}

// depth is how deep valid JSON is nested.
func depth(b []byte) int {
	deepest, _ := measure(b)
	return deepest
}

// measure tells how deep valid JSON is nested and about how many values it has.
func measure(b []byte) (deepest, values int) {
	now, text := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			now++
			values++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		case c == ',':
			values++
		}
	}
	return deepest, values + 1
}

// firstFaults bounds what is told at once: more than that nobody corrects in one
// go. Unless these are all, more of them may not have been looked for.
func firstFaults(found []Fault, all bool) []Fault {
	more := len(found) - maxFaults
	if more <= 0 {
		return found
	}
	text := fmt.Sprintf("and %d more faults", more)
	if !all {
		text = fmt.Sprintf("and at least %d more faults", more)
	}
	return append(slices.Clone(found[:maxFaults]), Fault{Text: text})
}

func shorten(text string) string { return cut(text, maxFault) }

func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// pointerTo is a name as a step of a JSON pointer.
func pointerTo(name string) string {
	return "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
