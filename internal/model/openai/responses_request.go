package openai

import (
	"strings"

	"stave/internal/model"
	"stave/internal/model/codec"
)

// responsesBody writes a request of the Responses dialect.
func (s *service) responsesBody(r model.Request) ([]byte, error) {
	tools, err := s.tools.Text(r.Tools, responsesTools)
	if err != nil {
		return nil, err
	}
	said := s.conversation(r)
	items, err := said.list.Follow(r.Messages, len(r.Messages), func(b []byte, i, _ int) ([]byte, error) {
		return s.responsesItems(b, &r.Messages[i])
	})
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(items)+len(tools)+roomFor(r))
	b = codec.Field(append(b, '{'), "model", r.Model)
	b = append(append(append(codec.Name(b, "input"), '['), items...), ']')
	s.keep(r, said)
	b = codec.BoolField(b, "store", false)
	summary := ""
	if thinks(r.Model) {
		b = append(codec.Name(b, "include"), `["reasoning.encrypted_content"]`...)
		summary = s.Summary
	}
	b = appendReasoning(b, summary, r.Effort)
	if r.System != "" {
		b = codec.Field(b, "instructions", r.System)
	}
	if r.MaxTokens > 0 {
		b = codec.IntField(b, "max_output_tokens", r.MaxTokens)
	}
	if r.CacheKey != "" {
		b = codec.Field(b, "prompt_cache_key", said.key)
	}
	if r.Output != nil {
		b = append(codec.Name(b, "text"), `{"format":{"type":"json_schema"`...)
		if b, err = appendFormat(b, r.Output); err != nil {
			return nil, err
		}
		b = append(b, "}}"...)
	}
	if len(r.Tools) > 0 {
		b = append(codec.Name(b, "tools"), tools...)
	}
	return append(codec.BoolField(b, "stream", true), '}'), nil
}

func appendReasoning(b []byte, summary, effort string) []byte {
	if summary == "" && effort == "" {
		return b
	}
	b = append(codec.Name(b, "reasoning"), '{')
	if summary != "" {
		b = codec.Field(b, "summary", summary)
	}
	if effort != "" {
		b = codec.Field(b, "effort", effort)
	}
	return append(b, '}')
}

func responsesTools(tools []model.ToolSpec) ([]byte, error) {
	b := []byte{'['}
	for _, t := range tools {
		b = codec.Field(append(codec.Comma(b), `{"type":"function","strict":false`...), "name", t.Name)
		b = codec.Field(b, "description", t.Description)
		var err error
		if b, err = appendSchema(codec.Name(b, "parameters"), "the tool "+t.Name, t.Schema); err != nil {
			return nil, err
		}
		b = append(b, '}')
	}
	return append(b, ']'), nil
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

func (s *service) responsesItems(b []byte, m *model.Message) ([]byte, error) {
	switch m.Role {
	case model.RoleUser:
		return userItem(b, m.Parts)
	case model.RoleAssistant:
		return s.assistantItems(b, m.Parts), nil
	case model.RoleTool:
		return resultItems(b, m.Parts)
	}
	return nil, badRequest("a message has the unknown role %.40q", m.Role)
}

func userItem(b []byte, parts []model.Part) ([]byte, error) {
	before := len(b)
	b = append(codec.Comma(b), `{"role":"user","content":[`...)
	empty := len(b)
	for i := range parts {
		var err error
		switch p := &parts[i]; {
		case p.Image != nil:
			b, err = inputImage(b, `"detail":"auto",`, p.Image)
		case p.Text != "":
			b = inputText(b, p.Text)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(b) == empty {
		return b[:before], nil
	}
	return append(b, "]}"...), nil
}

func inputText(b []byte, s string) []byte {
	return append(codec.Field(append(codec.Comma(b), `{"type":"input_text"`...), "text", s), '}')
}

func inputImage(b []byte, more string, img *model.Image) ([]byte, error) {
	b = append(append(codec.Comma(b), `{"type":"input_image",`...), more...)
	b, err := appendDataURL(append(b, `"image_url":`...), img)
	return append(b, '}'), err
}

// assistantItems leaves out the items' own ids, thoughts excepted: an id obliges
// us to send its neighbours too. A call is known by the id of its result.
func (s *service) assistantItems(b []byte, parts []model.Part) []byte {
	settled := len(b) // a thought that nothing follows is refused
	for i := range parts {
		switch p := &parts[i]; {
		case p.Reasoning != nil:
			b = s.thoughtItem(b, p.Reasoning)
			continue
		case p.Call != nil:
			b = codec.Field(append(codec.Comma(b), `{"type":"function_call"`...), "call_id", shortID(p.Call.ID))
			b = codec.Field(b, "name", p.Call.Name)
			b = append(codec.Field(b, "arguments", argsText(p.Call)), '}')
		case p.Text != "":
			b = append(codec.Field(append(codec.Comma(b), `{"role":"assistant"`...), "content", p.Text), '}')
		}
		settled = len(b)
	}
	return b[:settled]
}

// thoughtItem gives a thought back to who had it. Without its sealed part the
// service would look for it in a store we do not use.
func (s *service) thoughtItem(b []byte, r *model.Reasoning) []byte {
	if r.Origin != s.Name || r.Opaque == "" || r.ID == "" {
		return b
	}
	b = codec.Field(append(codec.Comma(b), `{"type":"reasoning"`...), "id", r.ID)
	b = append(codec.Name(b, "summary"), '[')
	if r.Text != "" {
		b = append(codec.Field(append(b, `{"type":"summary_text"`...), "text", r.Text), '}')
	}
	return append(codec.Field(append(b, ']'), "encrypted_content", r.Opaque), '}')
}

func resultItems(b []byte, parts []model.Part) ([]byte, error) {
	for i := range parts {
		r := parts[i].Result
		if r == nil {
			continue
		}
		b = codec.Field(append(codec.Comma(b), `{"type":"function_call_output"`...), "call_id", shortID(r.ID))
		b = codec.Name(b, "output")
		if len(r.Images) == 0 {
			b = append(codec.String(b, resultText(r)), '}')
			continue
		}
		b = inputText(append(b, '['), resultText(r))
		for j := range r.Images {
			var err error
			if b, err = inputImage(b, "", &r.Images[j]); err != nil {
				return nil, err
			}
		}
		b = append(b, "]}"...)
	}
	return b, nil
}
