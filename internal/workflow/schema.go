package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	schemaURL = "https://schema.invalid/" // a name, never fetched
	draft     = "https://json-schema.org/draft/2020-12/schema"

	maxFaults       = 20  // of a payload told at once
	maxFault        = 300 // bytes of one
	maxPayloadDepth = 32
)

// sealed is a loader that loads nothing: a schema is whole in its definition.
type sealed struct{}

func (sealed) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref to %s leads out of the schema, which is not followed; copy that schema under $defs and write #/$defs/name", strings.TrimPrefix(url, schemaURL))
}

func compileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	if len(raw) > MaxSchema {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed; shorten it", len(raw), MaxSchema)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
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
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(sealed{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	schema, err := c.Compile(schemaURL)
	if err != nil {
		return nil, schemaError(err)
	}
	if cost := (weigher{}).weigh(schema, maxPayloadDepth); cost > maxWork {
		return nil, errors.New("checking a payload against it could take for ever, because its references multiply or lead in a circle; write each $ref once")
	}
	return schema, nil
}

func schemaError(err error) error {
	var load *jsonschema.LoadURLError
	var invalid *jsonschema.SchemaValidationError
	var broken *jsonschema.ValidationError
	switch {
	case errors.As(err, &load):
		return load.Err
	case errors.As(err, &invalid) && errors.As(invalid.Err, &broken):
		all := &PayloadError{Faults: firstFaults(broken)}
		return fmt.Errorf("it is not a JSON Schema of draft 2020-12: %s", strings.Join(all.lines(), "; "))
	}
	return errors.New(strings.ReplaceAll(err.Error(), schemaURL, ""))
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

func (e *PayloadError) lines() []string {
	lines := make([]string, 0, len(e.Faults))
	for _, f := range e.Faults {
		where := "the payload"
		if f.Pointer != "" {
			where = f.Pointer
		}
		lines = append(lines, where+": "+f.Text)
	}
	return lines
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("%s was not accepted:\n- %s\nCall %s again with the whole payload, corrected.",
		e.Tool, strings.Join(e.lines(), "\n- "), e.Tool)
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
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return refuse("it is not JSON: %v", err)
	}
	var wrong *jsonschema.ValidationError
	if err := schema.Validate(v); errors.As(err, &wrong) {
		return &PayloadError{Tool: s.CompletionTool, Faults: firstFaults(wrong)}
	} else if err != nil {
		return fmt.Errorf("stage %s, completionSchema: %w", s.ID, err)
	}
	return nil
}

// depth is how deep valid JSON is nested.
func depth(b []byte) int {
	deepest, now, text := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// firstFaults bounds what is told at once: more than that nobody corrects in one go.
func firstFaults(e *jsonschema.ValidationError) []Fault {
	all := faultsOf(e, nil)
	if more := len(all) - maxFaults; more > 0 {
		all = append(slices.Clone(all[:maxFaults]), Fault{Text: fmt.Sprintf("and %d more faults", more)})
	}
	return all
}

// faultsOf flattens an error to what a reader can correct. Alternatives stay one
// fault: none of them alone has to be met.
func faultsOf(e *jsonschema.ValidationError, all []Fault) []Fault {
	pointer := pointerTo(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		var ways []string
		for _, c := range e.Causes {
			for _, f := range faultsOf(c, nil) {
				ways = append(ways, strings.TrimPrefix(f.Pointer+": "+f.Text, pointer+": "))
			}
		}
		if len(ways) == 0 { // more than one of oneOf fits
			ways = []string{"it fits more than one of the alternatives"}
		}
		return append(all, Fault{pointer, shorten("one of these has to be put right: " + strings.Join(ways, " | "))})
	case *kind.Type:
		text := fmt.Sprintf("it is %s, but has to be %s", k.Got, strings.Join(k.Want, " or "))
		if k.Got == "string" && (slices.Contains(k.Want, "array") || slices.Contains(k.Want, "object")) {
			text += " (the value itself, not JSON inside a string)"
		}
		return append(all, Fault{pointer, text})
	}
	if len(e.Causes) == 0 {
		return append(all, Fault{pointer, shorten(e.BasicOutput().Error.String())})
	}
	for _, c := range e.Causes {
		all = faultsOf(c, all)
	}
	return all
}

func shorten(text string) string {
	if len(text) > maxFault {
		return strings.ToValidUTF8(text[:maxFault], "") + "…"
	}
	return text
}

func pointerTo(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
	}
	return b.String()
}
