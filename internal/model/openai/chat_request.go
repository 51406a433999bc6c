package openai

import (
	"context"
	"net/http"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"stave/internal/model"
)

func (s *service) sendChat(ctx context.Context, r model.Request) (*http.Response, error) {
	params, err := s.chatParams(r)
	if err != nil {
		return nil, err
	}
	api := sdk.NewChatCompletionService(s.options...)
	return s.send(ctx, func(opts ...option.RequestOption) error {
		return api.NewStreaming(ctx, params, opts...).Err()
	})
}

func (s *service) chatParams(r model.Request) (sdk.ChatCompletionNewParams, error) {
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
		schema, err := schemaOf("the answer", r.Output.Schema)
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
		schema, err := schemaOf("the tool "+t.Name, t.Schema)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: param.NewOpt(t.Description), Parameters: schema,
		}))
	}
	messages, err := s.chatMessages(r)
	p.Messages = messages
	return p, err
}

type chatMessage = sdk.ChatCompletionMessageParamUnion

func (s *service) chatMessages(r model.Request) ([]chatMessage, error) {
	all := []chatMessage{}
	if r.System != "" {
		all = append(all, sdk.SystemMessage(r.System))
	}
	loop := lastUserMessage(r.Messages)
	for i, m := range r.Messages {
		var list []chatMessage
		var err error
		switch m.Role {
		case model.RoleUser:
			list, err = chatUser(m.Parts)
		case model.RoleAssistant:
			list = s.chatAssistant(m.Parts, i > loop)
		case model.RoleTool:
			list, err = chatResults(m.Parts)
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

// lastUserMessage is where the running tool loop began.
func lastUserMessage(messages []model.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == model.RoleUser {
			return i
		}
	}
	return -1
}

// chatUser sends text as a plain string: many a local server knows nothing else.
func chatUser(parts []model.Part) ([]chatMessage, error) {
	var list []sdk.ChatCompletionContentPartUnionParam
	var texts []string
	pictures := false
	for _, p := range parts {
		switch {
		case p.Image != nil:
			picture, err := chatImage(p.Image)
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
		return []chatMessage{sdk.UserMessage(list)}, nil
	case len(texts) > 0:
		return []chatMessage{sdk.UserMessage(strings.Join(texts, "\n\n"))}, nil
	}
	return nil, nil
}

func chatImage(img *model.Image) (sdk.ChatCompletionContentPartUnionParam, error) {
	link, err := dataURL(img)
	if err != nil {
		return sdk.ChatCompletionContentPartUnionParam{}, err
	}
	return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: link}), nil
}

func (s *service) chatAssistant(parts []model.Part, inLoop bool) []chatMessage {
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
	return []chatMessage{{OfAssistant: &m}}
}

// chatResults sends the images of results after all of them, as a user's: a
// tool's message holds only text, and nothing may stand between two of them.
func chatResults(parts []model.Part) ([]chatMessage, error) {
	var list []chatMessage
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
			picture, err := chatImage(&p.Result.Images[i])
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
