package openai

import (
	"context"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"stave/internal/model"
)

func (s *service) sendResponses(ctx context.Context, r model.Request) (*http.Response, error) {
	params, err := s.responsesParams(r)
	if err != nil {
		return nil, err
	}
	api := responses.NewResponseService(s.options...)
	return s.send(ctx, func(opts ...option.RequestOption) error {
		return api.NewStreaming(ctx, params, opts...).Err()
	})
}

func (s *service) responsesParams(r model.Request) (responses.ResponseNewParams, error) {
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
		schema, err := schemaOf("the answer", r.Output.Schema)
		if err != nil {
			return p, err
		}
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
			Name: formatName(r.Output.Name), Schema: schema, Strict: param.NewOpt(strictly(r.Output.Schema)),
		}
	}
	for _, t := range r.Tools {
		schema, err := schemaOf("the tool "+t.Name, t.Schema)
		if err != nil {
			return p, err
		}
		tool := responses.ToolParamOfFunction(t.Name, schema, false)
		tool.OfFunction.Description = param.NewOpt(t.Description)
		p.Tools = append(p.Tools, tool)
	}
	input, err := s.responsesInput(r.Messages)
	p.Input.OfInputItemList = input
	return p, err
}

// thinks tells the models that have thoughts to give back from the older ones,
// which refuse to be asked for them. What is unknown is taken for new.
func thinks(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, old := range []string{"gpt-3", "gpt-4", "chatgpt-4", "davinci", "babbage"} {
		if strings.HasPrefix(name, old) {
			return false
		}
	}
	return !(strings.HasPrefix(name, "gpt-") && strings.Contains(name, "-chat"))
}

func (s *service) responsesInput(messages []model.Message) (responses.ResponseInputParam, error) {
	input := responses.ResponseInputParam{}
	for _, m := range messages {
		var items []responses.ResponseInputItemUnionParam
		var err error
		switch m.Role {
		case model.RoleUser:
			items, err = userItems(m.Parts)
		case model.RoleAssistant:
			items = s.assistantItems(m.Parts)
		case model.RoleTool:
			items, err = resultItems(m.Parts)
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

func userItems(parts []model.Part) ([]responses.ResponseInputItemUnionParam, error) {
	var list responses.ResponseInputMessageContentListParam
	for _, p := range parts {
		switch {
		case p.Image != nil:
			link, err := dataURL(p.Image)
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

// assistantItems leaves out the items' own ids, thoughts excepted: an id obliges
// us to send its neighbours too. A call is known by the id of its result.
func (s *service) assistantItems(parts []model.Part) []responses.ResponseInputItemUnionParam {
	var items []responses.ResponseInputItemUnionParam
	settled := 0 // a thought that nothing follows is refused
	for _, p := range parts {
		switch {
		case p.Reasoning != nil:
			if thought, ok := s.thoughtItem(p.Reasoning); ok {
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

// thoughtItem gives a thought back to who had it. Without its sealed part the
// service would look for it in a store we do not use.
func (s *service) thoughtItem(r *model.Reasoning) (responses.ResponseInputItemUnionParam, bool) {
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

func resultItems(parts []model.Part) ([]responses.ResponseInputItemUnionParam, error) {
	var items []responses.ResponseInputItemUnionParam
	for _, p := range parts {
		if p.Result == nil {
			continue
		}
		item := responses.ResponseInputItemParamOfFunctionCallOutput(resultText(p.Result))
		if len(p.Result.Images) > 0 {
			list, err := resultWithImages(p.Result)
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

func resultWithImages(r *model.ToolResult) (responses.ResponseFunctionCallOutputItemListParam, error) {
	list := responses.ResponseFunctionCallOutputItemListParam{
		{OfInputText: &responses.ResponseInputTextContentParam{Text: resultText(r)}},
	}
	for i := range r.Images {
		link, err := dataURL(&r.Images[i])
		if err != nil {
			return nil, err
		}
		list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{
			OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: param.NewOpt(link)},
		})
	}
	return list, nil
}
