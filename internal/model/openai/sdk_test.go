package openai

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"stave/internal/model"
)

// What follows writes requests with the types of OpenAI's own library. It is
// slower than our writers and shows that both say the same.

func (s *service) sdkChatParams(r model.Request) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{Model: r.Model, ReasoningEffort: shared.ReasoningEffort(r.Effort)}
	if !s.NoStreamOptions {
		p.StreamOptions.IncludeUsage = param.NewOpt(true)
	}
	switch {
	case r.MaxTokens <= 0:
	case s.UseMaxTokens:
		p.MaxTokens = param.NewOpt(r.MaxTokens)
	default:
		p.MaxCompletionTokens = param.NewOpt(r.MaxTokens)
	}
	if r.CacheKey != "" && s.own() {
		p.PromptCacheKey = param.NewOpt(shortID(r.CacheKey))
	}
	if r.Output != nil {
		schema, err := sdkSchemaOf("the answer", r.Output.Schema)
		if err != nil {
			return p, err
		}
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: formatName(r.Output.Name), Schema: schema, Strict: param.NewOpt(strictly(r.Output.Schema)),
			},
		}
	}
	for _, t := range r.Tools {
		schema, err := sdkSchemaOf("the tool "+t.Name, t.Schema)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: param.NewOpt(t.Description), Parameters: schema,
		}))
	}
	messages, err := s.sdkChatMessages(r)
	p.Messages = messages
	return p, err
}

type sdkMessage = sdk.ChatCompletionMessageParamUnion

func (s *service) sdkChatMessages(r model.Request) ([]sdkMessage, error) {
	all := []sdkMessage{}
	if r.System != "" {
		all = append(all, sdk.SystemMessage(r.System))
	}
	loop := lastUserMessage(r.Messages)
	for i, m := range r.Messages {
		var list []sdkMessage
		var err error
		switch m.Role {
		case model.RoleUser:
			list, err = sdkChatUser(m.Parts)
		case model.RoleAssistant:
			list = s.sdkChatAssistant(m.Parts, i > loop)
		case model.RoleTool:
			list, err = sdkChatResults(m.Parts)
		default:
			err = badRequest("a message has the unknown role %.40q", m.Role)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

func sdkChatUser(parts []model.Part) ([]sdkMessage, error) {
	var list []sdk.ChatCompletionContentPartUnionParam
	var texts []string
	pictures := false
	for _, p := range parts {
		switch {
		case p.Image != nil:
			picture, err := sdkChatImage(p.Image)
			if err != nil {
				return nil, err
			}
			list, pictures = append(list, picture), true
		case p.Text != "":
			list = append(list, sdk.TextContentPart(p.Text))
			texts = append(texts, p.Text)
		}
	}
	switch {
	case pictures:
		return []sdkMessage{sdk.UserMessage(list)}, nil
	case len(texts) > 0:
		return []sdkMessage{sdk.UserMessage(strings.Join(texts, "\n\n"))}, nil
	}
	return nil, nil
}

func sdkChatImage(img *model.Image) (sdk.ChatCompletionContentPartUnionParam, error) {
	link, err := sdkDataURL(img)
	if err != nil {
		return sdk.ChatCompletionContentPartUnionParam{}, err
	}
	return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: link}), nil
}

func (s *service) sdkChatAssistant(parts []model.Part, inLoop bool) []sdkMessage {
	var m sdk.ChatCompletionAssistantMessageParam
	var texts, thoughts []string
	for _, p := range parts {
		switch {
		case p.Call != nil:
			m.ToolCalls = append(m.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID:       shortID(p.Call.ID),
					Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: p.Call.Name, Arguments: argsText(p.Call)},
				},
			})
		case p.Reasoning != nil:
			if p.Reasoning.Origin == s.Name && p.Reasoning.Text != "" {
				thoughts = append(thoughts, p.Reasoning.Text)
			}
		case p.Text != "":
			texts = append(texts, p.Text)
		}
	}
	if len(texts) == 0 && len(m.ToolCalls) == 0 {
		return nil
	}
	if len(texts) > 0 {
		m.Content.OfString = param.NewOpt(strings.Join(texts, "\n\n"))
	}
	if s.ThoughtField != "" && inLoop && len(thoughts) > 0 {
		m.SetExtraFields(map[string]any{s.ThoughtField: strings.Join(thoughts, "\n\n")})
	}
	return []sdkMessage{{OfAssistant: &m}}
}

func sdkChatResults(parts []model.Part) ([]sdkMessage, error) {
	var list []sdkMessage
	var pictures []sdk.ChatCompletionContentPartUnionParam
	for _, p := range parts {
		if p.Result == nil {
			continue
		}
		id := shortID(p.Result.ID)
		list = append(list, sdk.ToolMessage(resultText(p.Result), id))
		if len(p.Result.Images) > 0 {
			pictures = append(pictures, sdk.TextContentPart("The images of the result of "+id+":"))
		}
		for i := range p.Result.Images {
			picture, err := sdkChatImage(&p.Result.Images[i])
			if err != nil {
				return nil, err
			}
			pictures = append(pictures, picture)
		}
	}
	if len(pictures) > 0 {
		list = append(list, sdk.UserMessage(pictures))
	}
	return list, nil
}

func (s *service) sdkResponsesParams(r model.Request) (responses.ResponseNewParams, error) {
	p := responses.ResponseNewParams{Model: r.Model, Store: param.NewOpt(false)}
	if thinks(r.Model) {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
		p.Reasoning.Summary = shared.ReasoningSummary(s.Summary)
	}
	p.Reasoning.Effort = shared.ReasoningEffort(r.Effort)
	if r.System != "" {
		p.Instructions = param.NewOpt(r.System)
	}
	if r.MaxTokens > 0 {
		p.MaxOutputTokens = param.NewOpt(r.MaxTokens)
	}
	if r.CacheKey != "" {
		p.PromptCacheKey = param.NewOpt(shortID(r.CacheKey))
	}
	if r.Output != nil {
		schema, err := sdkSchemaOf("the answer", r.Output.Schema)
		if err != nil {
			return p, err
		}
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
			Name: formatName(r.Output.Name), Schema: schema, Strict: param.NewOpt(strictly(r.Output.Schema)),
		}
	}
	for _, t := range r.Tools {
		schema, err := sdkSchemaOf("the tool "+t.Name, t.Schema)
		if err != nil {
			return p, err
		}
		tool := responses.ToolParamOfFunction(t.Name, schema, false)
		tool.OfFunction.Description = param.NewOpt(t.Description)
		p.Tools = append(p.Tools, tool)
	}
	input, err := s.sdkResponsesInput(r.Messages)
	p.Input.OfInputItemList = input
	return p, err
}

func (s *service) sdkResponsesInput(messages []model.Message) (responses.ResponseInputParam, error) {
	input := responses.ResponseInputParam{}
	for _, m := range messages {
		var items []responses.ResponseInputItemUnionParam
		var err error
		switch m.Role {
		case model.RoleUser:
			items, err = sdkUserItems(m.Parts)
		case model.RoleAssistant:
			items = s.sdkAssistantItems(m.Parts)
		case model.RoleTool:
			items, err = sdkResultItems(m.Parts)
		default:
			err = badRequest("a message has the unknown role %.40q", m.Role)
		}
		if err != nil {
			return nil, err
		}
		input = append(input, items...)
	}
	return input, nil
}

func sdkUserItems(parts []model.Part) ([]responses.ResponseInputItemUnionParam, error) {
	var list responses.ResponseInputMessageContentListParam
	for _, p := range parts {
		switch {
		case p.Image != nil:
			link, err := sdkDataURL(p.Image)
			if err != nil {
				return nil, err
			}
			image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
			image.OfInputImage.ImageURL = param.NewOpt(link)
			list = append(list, image)
		case p.Text != "":
			list = append(list, responses.ResponseInputContentParamOfInputText(p.Text))
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return []responses.ResponseInputItemUnionParam{
		responses.ResponseInputItemParamOfMessage(list, responses.EasyInputMessageRoleUser),
	}, nil
}

func (s *service) sdkAssistantItems(parts []model.Part) []responses.ResponseInputItemUnionParam {
	var items []responses.ResponseInputItemUnionParam
	settled := 0 // a thought that nothing follows is refused
	for _, p := range parts {
		switch {
		case p.Reasoning != nil:
			if thought, ok := s.sdkThoughtItem(p.Reasoning); ok {
				items = append(items, thought)
			}
			continue
		case p.Call != nil:
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(argsText(p.Call), shortID(p.Call.ID), p.Call.Name))
		case p.Text != "":
			items = append(items, responses.ResponseInputItemParamOfMessage(p.Text, responses.EasyInputMessageRoleAssistant))
		}
		settled = len(items)
	}
	return items[:settled]
}

func (s *service) sdkThoughtItem(r *model.Reasoning) (responses.ResponseInputItemUnionParam, bool) {
	if r.Origin != s.Name || r.Opaque == "" || r.ID == "" {
		return responses.ResponseInputItemUnionParam{}, false
	}
	summary := []responses.ResponseReasoningItemSummaryParam{}
	if r.Text != "" {
		summary = append(summary, responses.ResponseReasoningItemSummaryParam{Text: r.Text})
	}
	item := responses.ResponseInputItemParamOfReasoning(r.ID, summary)
	item.OfReasoning.EncryptedContent = param.NewOpt(r.Opaque)
	return item, true
}

func sdkResultItems(parts []model.Part) ([]responses.ResponseInputItemUnionParam, error) {
	var items []responses.ResponseInputItemUnionParam
	for _, p := range parts {
		if p.Result == nil {
			continue
		}
		item := responses.ResponseInputItemParamOfFunctionCallOutput(resultText(p.Result))
		if len(p.Result.Images) > 0 {
			list, err := sdkResultWithImages(p.Result)
			if err != nil {
				return nil, err
			}
			item = responses.ResponseInputItemParamOfFunctionCallOutput(list)
		}
		item.OfFunctionCallOutput.CallID = param.NewOpt(shortID(p.Result.ID))
		items = append(items, item)
	}
	return items, nil
}

func sdkResultWithImages(r *model.ToolResult) (responses.ResponseFunctionCallOutputItemListParam, error) {
	list := responses.ResponseFunctionCallOutputItemListParam{
		{OfInputText: &responses.ResponseInputTextContentParam{Text: resultText(r)}},
	}
	for i := range r.Images {
		link, err := sdkDataURL(&r.Images[i])
		if err != nil {
			return nil, err
		}
		list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{
			OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: param.NewOpt(link)},
		})
	}
	return list, nil
}

func sdkSchemaOf(what string, raw json.RawMessage) (map[string]any, error) {
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

func sdkDataURL(img *model.Image) (string, error) {
	switch img.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return "data:" + img.MediaType + ";base64," + base64.StdEncoding.EncodeToString(img.Data), nil
	}
	return "", badRequest("not a picture")
}
