package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"stave/internal/model"
)

// maxSchemaDepth ends the walk through a schema that nests without end.
const maxSchemaDepth = 64

// cachedTurns is how many of the last turns of the user are marked to be cached:
// the one that the next request reads again, and the one that this request reads.
const cachedTurns = 2

// body is the JSON of a request. The same conversation always gives the same
// bytes at its beginning, for the API's cache and for thoughts bound to it.
func (p *Provider) body(r model.Request, thoughts bool) ([]byte, error) {
	turns := turnsOf(r.Messages, thoughts)
	if len(turns) == 0 {
		return nil, &model.Error{Kind: model.ErrBadRequest, Message: "the request has no message that can be sent"}
	}
	params := sdk.MessageNewParams{Model: r.Model, MaxTokens: p.maxTokens(r)}
	if strings.TrimSpace(r.System) != "" {
		params.System = []sdk.TextBlockParam{{Text: r.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	for i, t := range r.Tools {
		spec := sdk.ToolParam{Name: wireName(t.Name), InputSchema: inputSchema(t.Schema)}
		if t.Description != "" {
			spec.Description = param.NewOpt(t.Description)
		}
		if i == len(r.Tools)-1 {
			spec.CacheControl = sdk.NewCacheControlEphemeralParam()
		}
		params.Tools = append(params.Tools, sdk.ToolUnionParam{OfTool: &spec})
	}
	markCached(turns)
	for _, t := range turns {
		params.Messages = append(params.Messages, t.param())
	}
	setThinking(&params, r.Effort, turns)
	if err := setOutput(&params, r.Output); err != nil {
		return nil, err
	}
	params.SetExtraFields(map[string]any{"stream": true})
	data, err := params.MarshalJSON()
	if err != nil {
		return nil, &model.Error{Kind: model.ErrBadRequest, Message: p.clean("encode the request: " + err.Error())}
	}
	return data, nil
}

// sizeOf is less than the size of a request once it is encoded.
func sizeOf(r model.Request) int {
	n := len(r.System)
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
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

// inputSchema passes a schema on as it is; the API wants one that says object.
func inputSchema(schema json.RawMessage) sdk.ToolInputSchemaParam {
	var fields map[string]json.RawMessage
	if json.Unmarshal(schema, &fields) != nil || fields == nil {
		fields = map[string]json.RawMessage{}
	}
	if _, ok := fields["type"]; ok {
		return param.Override[sdk.ToolInputSchemaParam](json.RawMessage(schema))
	}
	fields["type"] = json.RawMessage(`"object"`)
	return param.Override[sdk.ToolInputSchemaParam](fields)
}

// setOutput asks for JSON with the API's own output format. A forced tool call
// would do the same for older models, but newer ones refuse it while they think.
func setOutput(params *sdk.MessageNewParams, o *model.OutputSchema) error {
	if o == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(o.Schema))
	d.UseNumber()
	var schema map[string]any
	if err := d.Decode(&schema); err != nil || schema == nil {
		return &model.Error{Kind: model.ErrBadRequest, Message: "the schema of the output is not a JSON object"}
	}
	closeObjects(schema, 0)
	params.OutputConfig.Format = sdk.JSONOutputFormatParam{Schema: schema}
	return nil
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

// markCached marks the ends of the last turns of the user.
func markCached(turns []turn) {
	marked := 0
	for i := len(turns) - 1; i >= 0 && marked < cachedTurns; i-- {
		if turns[i].assistant {
			continue
		}
		if c := turns[i].blocks[len(turns[i].blocks)-1].GetCacheControl(); c != nil {
			*c = sdk.NewCacheControlEphemeralParam()
			marked++
		}
	}
}

func (t turn) param() sdk.MessageParam {
	if t.assistant {
		return sdk.NewAssistantMessage(t.blocks...)
	}
	return sdk.NewUserMessage(t.blocks...)
}
