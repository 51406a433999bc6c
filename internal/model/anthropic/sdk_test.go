package anthropic

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"stave/internal/model"
)

// What follows writes a request with the types of Anthropic's own library. It is
// slower than our writer and shows that both say the same.

func (p *Provider) sdkBody(r model.Request, thoughts bool) ([]byte, error) {
	turns := sdkTurnsOf(r.Messages, thoughts)
	if len(turns) == 0 {
		return nil, &model.Error{Kind: model.ErrBadRequest, Message: "the request has no message that can be sent"}
	}
	params := sdk.MessageNewParams{Model: r.Model, MaxTokens: p.maxTokens(r)}
	if strings.TrimSpace(r.System) != "" {
		params.System = []sdk.TextBlockParam{{Text: r.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	for i, t := range r.Tools {
		spec := sdk.ToolParam{Name: wireName(t.Name), InputSchema: sdkInputSchema(t.Schema)}
		if t.Description != "" {
			spec.Description = param.NewOpt(t.Description)
		}
		if i == len(r.Tools)-1 {
			spec.CacheControl = sdk.NewCacheControlEphemeralParam()
		}
		params.Tools = append(params.Tools, sdk.ToolUnionParam{OfTool: &spec})
	}
	sdkMark(turns)
	for _, t := range turns {
		params.Messages = append(params.Messages, t.param())
	}
	sdkSetThinking(&params, r.Effort, turns)
	if err := sdkSetOutput(&params, r.Output); err != nil {
		return nil, err
	}
	params.SetExtraFields(map[string]any{"stream": true})
	data, err := params.MarshalJSON()
	if err != nil {
		return nil, &model.Error{Kind: model.ErrBadRequest, Message: p.clean("encode the request: " + err.Error())}
	}
	return data, nil
}

func sdkInputSchema(schema json.RawMessage) sdk.ToolInputSchemaParam {
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

func sdkSetOutput(params *sdk.MessageNewParams, o *model.OutputSchema) error {
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

func sdkMark(turns []sdkTurn) {
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

func (t sdkTurn) param() sdk.MessageParam {
	if t.assistant {
		return sdk.NewAssistantMessage(t.blocks...)
	}
	return sdk.NewUserMessage(t.blocks...)
}

type sdkTurn struct {
	assistant bool
	blocks    []sdk.ContentBlockParamUnion
	calls     []madeCall         // of the assistant, as they stand in blocks
	results   []model.ToolResult // of the user's side; blocks once they are paired
}

func sdkTurnsOf(messages []model.Message, thoughts bool) []sdkTurn {
	var turns []sdkTurn
	taken := map[string]bool{} // ids of calls
	for _, m := range messages {
		t := sdkTurn{assistant: m.Role == model.RoleAssistant}
		for _, part := range m.Parts {
			t.add(part, thoughts, taken)
		}
		t.trimThoughts()
		if len(t.blocks)+len(t.results) == 0 {
			continue
		}
		if n := len(turns); n > 0 && turns[n-1].assistant == t.assistant {
			turns[n-1].join(t)
		} else {
			turns = append(turns, t)
		}
	}
	if n := len(turns); n > 0 && len(turns[n-1].calls) > 0 {
		turns = append(turns, sdkTurn{})
	}
	for i := range turns {
		if !turns[i].assistant {
			var calls []madeCall
			if i > 0 {
				calls = turns[i-1].calls
			}
			turns[i].pair(calls)
		}
	}
	return turns
}

func (t *sdkTurn) add(part model.Part, thoughts bool, taken map[string]bool) {
	switch {
	case part.Reasoning != nil:
		if b, ok := sdkThought(*part.Reasoning); ok && t.assistant && thoughts {
			t.blocks = append(t.blocks, b)
		}
	case part.Call != nil && t.assistant:
		t.addCall(*part.Call, taken)
	case part.Result != nil && !t.assistant:
		t.results = append(t.results, *part.Result)
	case part.Image != nil:
		t.addImage(*part.Image)
	case strings.TrimSpace(part.Text) != "":
		t.blocks = append(t.blocks, sdk.NewTextBlock(part.Text))
	}
}

func (t *sdkTurn) addCall(c model.ToolCall, taken map[string]bool) {
	wire := c.ID
	if c.Origin == Origin && validID(c.Opaque) && !taken[c.Opaque] {
		wire = c.Opaque
	}
	wire = freeID(wire, taken)
	taken[wire] = true
	t.calls = append(t.calls, madeCall{c.ID, wire})
	t.blocks = append(t.blocks, sdk.NewToolUseBlock(wire, sdkInput(c.Args), wireName(c.Name)))
}

func (t *sdkTurn) addImage(i model.Image) {
	if b, ok := sdkImage(i); ok && !t.assistant {
		t.blocks = append(t.blocks, sdk.ContentBlockParamUnion{OfImage: b})
		return
	}
	t.blocks = append(t.blocks, sdk.NewTextBlock(unseen(&i)))
}

func (t *sdkTurn) trimThoughts() {
	for n := len(t.blocks); n > 0 && sdkIsThought(t.blocks[n-1]); n-- {
		t.blocks = t.blocks[:n-1]
	}
}

func (t *sdkTurn) join(next sdkTurn) {
	t.blocks = append(t.blocks, next.blocks...)
	t.calls = append(t.calls, next.calls...)
	t.results = append(t.results, next.results...)
}

func (t *sdkTurn) pair(calls []madeCall) {
	answered := make(map[string]*model.ToolResult, len(calls))
	var spare sdkTurn
	for i, r := range t.results {
		asked := slices.ContainsFunc(calls, func(c madeCall) bool { return c.id == r.ID })
		if asked && answered[r.ID] == nil {
			answered[r.ID] = &t.results[i]
			continue
		}
		spare.blocks = append(spare.blocks, sdk.NewTextBlock("[the result of an earlier call]\n"+r.Text))
		for _, image := range r.Images {
			spare.addImage(image)
		}
	}
	var first []sdk.ContentBlockParamUnion
	for _, c := range calls {
		r := answered[c.id]
		if r == nil {
			r = &model.ToolResult{Text: "no result of this call is recorded", IsError: true}
		}
		first = append(first, sdk.ContentBlockParamUnion{OfToolResult: sdkResult(c.wire, *r)})
	}
	t.blocks = slices.Concat(first, t.blocks, spare.blocks)
	t.results = nil
}

func sdkIsThought(b sdk.ContentBlockParamUnion) bool {
	return b.OfThinking != nil || b.OfRedactedThinking != nil
}

func sdkThought(r model.Reasoning) (sdk.ContentBlockParamUnion, bool) {
	if r.Origin != Origin || r.Opaque == "" {
		return sdk.ContentBlockParamUnion{}, false
	}
	if r.Redacted {
		return sdk.NewRedactedThinkingBlock(r.Opaque), true
	}
	return sdk.NewThinkingBlock(r.Opaque, r.Text), true
}

func sdkInput(args json.RawMessage) any {
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) == nil && fields != nil {
		return args
	}
	if len(args) == 0 || !json.Valid(args) || string(args) == "null" {
		return json.RawMessage(`{}`)
	}
	return map[string]json.RawMessage{"value": args}
}

func sdkResult(id string, r model.ToolResult) *sdk.ToolResultBlockParam {
	b := &sdk.ToolResultBlockParam{ToolUseID: id}
	said := r.Text
	if r.IsError {
		b.IsError = param.NewOpt(true)
		if strings.TrimSpace(said) == "" && len(r.Images) == 0 {
			said = "failed without saying why" // the API refuses an error without words
		}
	}
	if strings.TrimSpace(said) != "" {
		b.Content = append(b.Content, sdkText(said))
	}
	for _, image := range r.Images {
		if picture, ok := sdkImage(image); ok {
			b.Content = append(b.Content, sdk.ToolResultBlockParamContentUnion{OfImage: picture})
		} else {
			b.Content = append(b.Content, sdkText(unseen(&image)))
		}
	}
	return b
}

func sdkText(s string) sdk.ToolResultBlockParamContentUnion {
	return sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: s}}
}

func sdkImage(i model.Image) (*sdk.ImageBlockParam, bool) {
	switch i.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, false
	}
	if len(i.Data) == 0 {
		return nil, false
	}
	return &sdk.ImageBlockParam{Source: sdk.ImageBlockParamSourceUnion{OfBase64: &sdk.Base64ImageSourceParam{
		Data: base64.StdEncoding.EncodeToString(i.Data), MediaType: sdk.Base64ImageSourceMediaType(i.MediaType),
	}}}, true
}

func sdkSetThinking(params *sdk.MessageNewParams, effort string, turns []sdkTurn) {
	mode := modeOf(params.Model)
	if effort == "" && mode != alwaysThinking {
		return
	}
	switch mode {
	case noThinking:
	case budgetThinking:
		budget, known := budgets[effort]
		if !known {
			budget = budgets["high"]
		}
		if budget = min(budget, params.MaxTokens/2); budget >= minBudget && sdkMayThink(turns) {
			params.Thinking = sdk.ThinkingConfigParamOfEnabled(budget)
		}
	case adaptiveThinking, alwaysThinking:
		params.Thinking.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}
		params.OutputConfig.Effort = sdk.OutputConfigEffort(effort)
	}
}

func sdkMayThink(turns []sdkTurn) bool {
	n := len(turns)
	if n < 2 || turns[n-1].assistant || turns[n-1].blocks[0].OfToolResult == nil {
		return true
	}
	return sdkIsThought(turns[n-2].blocks[0])
}
