package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"

	"stave/internal/model"
	"stave/internal/model/codec"
)

// maxSchemaDepth ends the walk through a schema that nests without end.
const maxSchemaDepth = 64

// cachedTurns is how many of the last turns of the user are marked to be cached:
// the one that the next request reads again, and the one that this request reads.
const cachedTurns = 2

// cacheMark is the field of a block up to which the API caches.
const cacheMark = `,"cache_control":{"type":"ephemeral"}`

// headRoom is about what a request needs besides its messages and its tools.
const headRoom = 1 << 10

// body is the JSON of a request. The same conversation always gives the same
// bytes at its beginning, for the API's cache and for thoughts bound to it.
func (p *Provider) body(r model.Request, thoughts bool) ([]byte, error) {
	said := p.conversation(r, thoughts)
	turns := said.turns
	if len(turns) == 0 {
		return nil, &model.Error{Kind: model.ErrBadRequest, Message: "the request has no message that can be sent"}
	}
	tools, err := p.tools.Text(r.Tools, appendTools)
	if err != nil {
		return nil, p.unwritable(err)
	}
	b := make([]byte, 0, said.size+len(tools)+len(r.System)+len(r.System)/8+headRoom)
	b = codec.IntField(append(b, '{'), "max_tokens", p.maxTokens(r))
	b = appendTurns(append(codec.Name(b, "messages"), '['), turns)
	b = codec.Field(append(b, ']'), "model", r.Model)
	if strings.TrimSpace(r.System) != "" {
		b = codec.Field(append(codec.Name(b, "system"), `[{"type":"text"`...), "text", r.System)
		b = append(append(b, cacheMark...), "}]"...)
	}
	b = p.appendThinking(b, r, turns)
	if b, err = appendOutput(b, r); err != nil {
		return nil, err
	}
	if len(r.Tools) > 0 {
		b = append(codec.Name(b, "tools"), tools...)
	}
	b = append(codec.BoolField(b, "stream", true), '}')
	p.keep(r, thoughts, said)
	return b, nil
}

func (p *Provider) unwritable(err error) error {
	return &model.Error{Kind: model.ErrBadRequest, Message: p.clean("encode the request: " + err.Error())}
}

// conversation returns the turns of a request. What was written of them for the
// request before is not written again.
func (p *Provider) conversation(r model.Request, thoughts bool) *conversation {
	said := &conversation{}
	if r.CacheKey != "" && thoughts {
		if kept, ok := p.said.Take(r.CacheKey); ok {
			said = kept
		}
	}
	said.follow(r.Messages, thoughts)
	return said
}

// keep keeps the turns for the next request of the same conversation. Without
// thoughts they are those of an exception.
func (p *Provider) keep(r model.Request, thoughts bool, said *conversation) {
	if r.CacheKey != "" && thoughts {
		p.said.Put(r.CacheKey, said, said.size+said.told.Size())
	}
}

// appendTurns writes the turns, the ends of the last ones of the user marked.
func appendTurns(b []byte, turns []turn) []byte {
	marked, from := 0, len(turns)
	for i := len(turns) - 1; i >= 0 && marked < cachedTurns; i-- {
		if !turns[i].assistant {
			marked, from = marked+1, i
		}
	}
	for i := range turns {
		t := &turns[i]
		b = codec.Comma(b)
		if i >= from && !t.assistant {
			b = append(b, t.text[:len(t.text)-len(turnEnd)]...)
			b = append(append(b, cacheMark...), turnEnd...)
		} else {
			b = append(b, t.text...)
		}
	}
	return b
}

// sizeOf is less than the size of a request once it is encoded.
func sizeOf(r model.Request) int {
	n := len(r.System)
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for i := range r.Messages {
		for j := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[j]
			n += len(p.Text)
			if p.Image != nil {
				n += len(p.Image.Data)
			}
			if p.Call != nil {
				n += len(p.Call.Name)
			}
			if p.Result != nil {
				n += len(p.Result.Text)
				for _, i := range p.Result.Images {
					n += len(i.Data)
				}
			}
		}
	}
	return n
}

func (p *Provider) maxTokens(r model.Request) int64 {
	if r.MaxTokens > 0 {
		return r.MaxTokens
	}
	if p.opt.MaxOutput != nil {
		if n := p.opt.MaxOutput(r.Model); n > 0 {
			return n
		}
	}
	return DefaultMaxTokens
}

func appendTools(tools []model.ToolSpec) ([]byte, error) {
	b := []byte{'['}
	for i, t := range tools {
		b = codec.Field(append(codec.Comma(b), '{'), "name", wireName(t.Name))
		if t.Description != "" {
			b = codec.Field(b, "description", t.Description)
		}
		var err error
		if b, err = appendSchema(codec.Name(b, "input_schema"), t.Schema); err != nil {
			return nil, err
		}
		if i == len(tools)-1 {
			b = append(b, cacheMark...)
		}
		b = append(b, '}')
	}
	return append(b, ']'), nil
}

// appendSchema passes a schema on as it is; the API wants one that says object.
func appendSchema(b []byte, schema json.RawMessage) ([]byte, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(schema, &fields) != nil || fields == nil {
		fields = map[string]json.RawMessage{}
	}
	if _, ok := fields["type"]; ok {
		return codec.Raw(b, schema)
	}
	fields["type"] = json.RawMessage(`"object"`)
	text, err := json.Marshal(fields)
	return append(b, text...), err
}

// appendOutput asks for an effort and for JSON with the API's own output format.
// A forced tool call would do the latter for older models, but newer ones refuse
// it while they think.
func appendOutput(b []byte, r model.Request) ([]byte, error) {
	mode := modeOf(r.Model)
	effort := r.Effort != "" && (mode == adaptiveThinking || mode == alwaysThinking)
	if !effort && r.Output == nil {
		return b, nil
	}
	b = append(codec.Name(b, "output_config"), '{')
	if effort {
		b = codec.Field(b, "effort", r.Effort)
	}
	if r.Output != nil {
		schema, err := closedSchema(r.Output.Schema)
		if err != nil {
			return nil, err
		}
		b = append(codec.Name(b, "format"), `{"type":"json_schema","schema":`...)
		b = append(append(b, schema...), '}')
	}
	return append(b, '}'), nil
}

func closedSchema(raw json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var schema map[string]any
	if err := d.Decode(&schema); err != nil || schema == nil {
		return nil, &model.Error{Kind: model.ErrBadRequest, Message: "the schema of the output is not a JSON object"}
	}
	closeObjects(schema, 0)
	return json.Marshal(schema)
}

// closeObjects adds what the API demands of every object in the schema of an output.
func closeObjects(schema any, depth int) {
	if depth > maxSchemaDepth {
		return
	}
	switch s := schema.(type) {
	case map[string]any:
		_, said := s["additionalProperties"]
		if _, has := s["properties"].(map[string]any); !said && (has || s["type"] == "object") {
			s["additionalProperties"] = false
		}
		for name, v := range s {
			if name != "enum" && name != "const" && name != "default" && name != "examples" {
				closeObjects(v, depth+1)
			}
		}
	case []any:
		for _, v := range s {
			closeObjects(v, depth+1)
		}
	}
}
