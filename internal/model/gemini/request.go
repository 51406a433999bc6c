package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"stave/internal/model"
	"stave/internal/model/codec"
)

// Where a signature came without a thought, its Reasoning has one of these ids:
// a part must be sent back with the signature it had, and with no other.
const (
	signsText = "text" // the text part right before it
	signsVoid = "void" // a part of its own, with no text
)

// unsigned stands, by Google's rule, for the signature of a call that another
// model made.
const unsigned = "skip_thought_signature_validator"

// thinkingBudgets are the tokens of thought for models that take no level.
var thinkingBudgets = map[string]int64{"low": 1 << 10, "medium": 8 << 10, "high": 24 << 10}

// conversation is what was written of one.
type conversation struct {
	list  codec.List
	later bool // for a model of a later generation
}

// body writes a call as the body of a request. What was written of the
// conversation for the request before is not written again.
func (p *Provider) body(r model.Request) ([]byte, error) {
	tools, err := p.tools.Text(r.Tools, appendTools)
	if err != nil {
		return nil, notJSON(err)
	}
	said := &conversation{}
	if r.CacheKey != "" {
		if kept, ok := p.said.Take(r.CacheKey); ok {
			said = kept
		}
	}
	w := writer{messages: r.Messages, later: takesLevels(r.Model)}
	reuse := len(r.Messages)
	if said.later != w.later {
		reuse = 0
	}
	said.later = w.later
	contents, err := said.list.Follow(r.Messages, reuse, w.message)
	if err != nil {
		return nil, notJSON(err)
	}
	b := make([]byte, 0, len(contents)+len(tools)+len(r.System)+len(r.System)/8+1<<10)
	b = append(b, '{')
	if r.System != "" {
		b = codec.Field(append(codec.Name(b, "systemInstruction"), `{"parts":[{`...), "text", r.System)
		b = append(b, "}]}"...)
	}
	b = append(append(codec.Name(b, "contents"), '['), contents...)
	if len(contents) > 0 {
		b = append(b, contentEnd...)
	}
	b = append(b, ']')
	if r.CacheKey != "" {
		p.said.Put(r.CacheKey, said, said.list.Size())
	}
	if len(r.Tools) > 0 {
		b = append(codec.Name(b, "tools"), tools...)
	}
	if b, err = appendConfig(b, r); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

func notJSON(err error) error {
	return &model.Error{Kind: model.ErrBadRequest, Message: "a schema or the arguments of a call are not JSON: " + err.Error()}
}

func appendTools(tools []model.ToolSpec) ([]byte, error) {
	b := []byte(`[{"functionDeclarations":[`)
	for _, t := range tools {
		b = codec.Field(append(codec.Comma(b), '{'), "name", t.Name)
		if t.Description != "" {
			b = codec.Field(b, "description", t.Description)
		}
		if len(t.Schema) > 0 {
			var err error
			if b, err = codec.Raw(codec.Name(b, "parametersJsonSchema"), t.Schema); err != nil {
				return nil, err
			}
		}
		b = append(b, '}')
	}
	return append(b, "]}]"...), nil
}

func appendConfig(b []byte, r model.Request) ([]byte, error) {
	budget, known := thinkingBudgets[r.Effort]
	if r.Effort != "" && !known {
		return nil, &model.Error{Kind: model.ErrBadRequest, Message: fmt.Sprintf("the effort %.40q is not known: use low, medium or high", r.Effort)}
	}
	if r.MaxTokens <= 0 && r.Output == nil && r.Effort == "" {
		return b, nil
	}
	b = append(codec.Name(b, "generationConfig"), '{')
	if r.MaxTokens > 0 {
		b = codec.IntField(b, "maxOutputTokens", r.MaxTokens)
	}
	if r.Output != nil {
		b = codec.Field(b, "responseMimeType", "application/json")
		if len(r.Output.Schema) > 0 {
			var err error
			if b, err = codec.Raw(codec.Name(b, "responseJsonSchema"), r.Output.Schema); err != nil {
				return nil, notJSON(err)
			}
		}
	}
	if r.Effort != "" {
		b = append(codec.Name(b, "thinkingConfig"), `{"includeThoughts":true`...)
		if takesLevels(r.Model) {
			b = codec.Field(b, "thinkingLevel", r.Effort)
		} else {
			b = codec.IntField(b, "thinkingBudget", budget)
		}
		b = append(b, '}')
	}
	return append(b, '}'), nil
}

// takesLevels reports whether a model is of the third generation or later: it
// thinks by levels, wants signatures and takes pictures inside of results.
func takesLevels(name string) bool {
	name = strings.TrimPrefix(name, "models/")
	for _, early := range []string{"gemini-1", "gemini-2", "gemma", "tunedModels/"} {
		if strings.HasPrefix(name, early) {
			return false
		}
	}
	return true
}

// writer turns messages into contents.
type writer struct {
	messages []model.Message
	later    bool // the model is of a later generation
}

// contentEnd ends a content. It is written before the next one, because more
// results of the same round may follow.
const contentEnd = "]}"

// message appends the i-th message; before is the one before it that was written.
func (w *writer) message(b []byte, i, before int) ([]byte, error) {
	m := &w.messages[i]
	start := len(b)
	switch {
	// All results of one round belong into one content.
	case m.Role == model.RoleTool && before >= 0 && w.messages[before].Role == model.RoleTool:
	case before >= 0:
		b = append(append(b, contentEnd...), ',')
		fallthrough
	default:
		role := "user"
		if m.Role == model.RoleAssistant {
			role = "model"
		}
		b = append(codec.Name(codec.Field(append(b, '{'), "role", role), "parts"), '[')
	}
	empty := len(b)
	b, err := w.parts(b, i)
	if len(b) == empty {
		return b[:start], err // a content without parts is refused
	}
	return b, err
}

func (w *writer) parts(b []byte, i int) ([]byte, error) {
	m := &w.messages[i]
	foreign := true // until a call of our own is seen, the first must be excused
	empty := len(b)
	for j := range m.Parts {
		var err error
		switch p := &m.Parts[j]; {
		case p.Reasoning != nil:
			b = addThought(b, p.Reasoning, j > 0 && m.Parts[j-1].Text != "" && len(b) > empty)
		case p.Call != nil:
			b, err = w.call(b, p.Call, foreign)
			foreign = false
		case p.Result != nil:
			b = w.result(b, p.Result, w.nameOf(p.Result.ID, i, j))
		case p.Image != nil:
			b = appendImage(b, p.Image)
		case p.Text != "":
			b = append(codec.Field(append(codec.Comma(b), '{'), "text", p.Text), '}')
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

// addThought sends a thought back if it is signed; what is not signed, or by
// someone else, means nothing to the service.
func addThought(b []byte, r *model.Reasoning, afterText bool) []byte {
	if r.Origin != Origin || r.Opaque == "" {
		return b
	}
	switch {
	case r.ID == signsText && afterText:
		return append(codec.Field(b[:len(b)-1], "thoughtSignature", r.Opaque), '}')
	case r.ID == signsText || r.ID == signsVoid:
		b = append(codec.Comma(b), `{"text":""`...)
	default:
		b = codec.Field(append(codec.Comma(b), `{"thought":true`...), "text", r.Text)
	}
	return append(codec.Field(b, "thoughtSignature", r.Opaque), '}')
}

func (w *writer) call(b []byte, c *model.ToolCall, first bool) ([]byte, error) {
	b = append(codec.Comma(b), `{"functionCall":{`...)
	if c.ID != "" {
		b = codec.Field(b, "id", c.ID)
	}
	b = codec.Name(codec.Field(b, "name", c.Name), "args")
	b, err := codec.Raw(b, object(c.Args))
	if err != nil {
		return b, err
	}
	b = append(b, '}')
	switch {
	case c.Origin == Origin:
		if c.Opaque != "" {
			b = codec.Field(b, "thoughtSignature", c.Opaque)
		}
	case first && w.later:
		b = codec.Field(b, "thoughtSignature", unsigned)
	}
	return append(b, '}'), nil
}

// object returns arguments as the object they must be.
func object(args json.RawMessage) json.RawMessage {
	args = bytes.TrimSpace(args)
	switch {
	case len(args) == 0 || string(args) == "null":
		return json.RawMessage(`{}`)
	case args[0] == '{':
		return args
	}
	return append(append(json.RawMessage(`{"value":`), args...), '}')
}

func (w *writer) result(b []byte, r *model.ToolResult, name string) []byte {
	field := "output"
	if r.IsError {
		field = "error"
	}
	b = append(codec.Comma(b), `{"functionResponse":{`...)
	if r.ID != "" {
		b = codec.Field(b, "id", r.ID)
	}
	b = codec.Field(b, "name", name)
	b = append(codec.Field(append(codec.Name(b, "response"), '{'), field, r.Text), '}')
	if w.later && len(r.Images) > 0 {
		b = append(appendImages(append(codec.Name(b, "parts"), '['), r.Images), ']')
	}
	b = append(b, "}}"...)
	if !w.later {
		b = appendImages(b, r.Images)
	}
	return b
}

// nameOf is the name of the tool whose call has an id: of the last call before
// that part of that message, which mostly stands right before it.
func (w *writer) nameOf(id string, message, part int) string {
	for ; message >= 0; message-- {
		parts := w.messages[message].Parts
		for j := min(part, len(parts)) - 1; j >= 0; j-- {
			if c := parts[j].Call; c != nil && c.ID == id {
				return c.Name
			}
		}
		part = math.MaxInt
	}
	return ""
}

func appendImages(b []byte, images []model.Image) []byte {
	for i := range images {
		b = appendImage(b, &images[i])
	}
	return b
}

func appendImage(b []byte, i *model.Image) []byte {
	b = codec.Field(append(codec.Comma(b), `{"inlineData":{`...), "mimeType", i.MediaType)
	b = append(codec.Name(b, "data"), '"')
	return append(codec.Base64(b, i.Data), `"}}`...)
}
