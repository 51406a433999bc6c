package openai

import (
	"strings"

	"stave/internal/model"
	"stave/internal/model/codec"
)

// chatBody writes a request of the Chat Completions dialect.
func (s *service) chatBody(r model.Request) ([]byte, error) {
	tools, err := s.tools.Text(r.Tools, chatTools)
	if err != nil {
		return nil, err
	}
	said := s.conversation(r)
	messages, err := said.list.Follow(r.Messages, said.reuse(s, r.Messages), func(b []byte, i, _ int) ([]byte, error) {
		return s.chatMessage(b, &r.Messages[i], i > said.loop)
	})
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(messages)+len(tools)+roomFor(r))
	b = codec.Field(append(b, '{'), "model", r.Model)
	b = append(codec.Name(b, "messages"), '[')
	if r.System != "" {
		b = append(codec.Field(append(b, `{"role":"system"`...), "content", r.System), '}')
	}
	if len(messages) > 0 {
		b = append(codec.Comma(b), messages...)
	}
	b = append(b, ']')
	s.keep(r, said)
	if r.Effort != "" {
		b = codec.Field(b, "reasoning_effort", r.Effort)
	}
	if len(r.Tools) > 0 {
		b = append(codec.Name(b, "tools"), tools...)
	}
	switch {
	case r.MaxTokens <= 0:
	case s.UseMaxTokens:
		b = codec.IntField(b, "max_tokens", r.MaxTokens)
	default:
		b = codec.IntField(b, "max_completion_tokens", r.MaxTokens)
	}
	if r.CacheKey != "" && s.own() {
		b = codec.Field(b, "prompt_cache_key", said.key)
	}
	if r.Output != nil {
		b = append(codec.Name(b, "response_format"), `{"type":"json_schema","json_schema":{`...)
		if b, err = appendFormat(b, r.Output); err != nil {
			return nil, err
		}
		b = append(b, "}}"...)
	}
	b = codec.BoolField(b, "stream", true)
	if !s.NoStreamOptions {
		b = append(codec.Name(b, "stream_options"), `{"include_usage":true}`...)
	}
	return append(b, '}'), nil
}

func chatTools(tools []model.ToolSpec) ([]byte, error) {
	b := []byte{'['}
	for _, t := range tools {
		b = codec.Field(append(codec.Comma(b), `{"type":"function","function":{`...), "name", t.Name)
		b = codec.Field(b, "description", t.Description)
		var err error
		if b, err = appendSchema(codec.Name(b, "parameters"), "the tool "+t.Name, t.Schema); err != nil {
			return nil, err
		}
		b = append(b, "}}"...)
	}
	return append(b, ']'), nil
}

func (s *service) chatMessage(b []byte, m *model.Message, inLoop bool) ([]byte, error) {
	switch m.Role {
	case model.RoleUser:
		return chatUser(b, m.Parts)
	case model.RoleAssistant:
		return s.chatAssistant(b, m.Parts, inLoop), nil
	case model.RoleTool:
		return chatResults(b, m.Parts)
	}
	return nil, badRequest("a message has the unknown role %.40q", m.Role)
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
func chatUser(b []byte, parts []model.Part) ([]byte, error) {
	var texts []string
	pictures := false
	for i := range parts {
		pictures = pictures || parts[i].Image != nil
		if parts[i].Image == nil && parts[i].Text != "" {
			texts = append(texts, parts[i].Text)
		}
	}
	switch {
	case !pictures && len(texts) == 0:
		return b, nil
	case !pictures:
		b = codec.Field(append(codec.Comma(b), `{"role":"user"`...), "content", strings.Join(texts, "\n\n"))
		return append(b, '}'), nil
	}
	b = append(codec.Comma(b), `{"role":"user","content":[`...)
	for i := range parts {
		var err error
		switch p := &parts[i]; {
		case p.Image != nil:
			b, err = chatImage(b, p.Image)
		case p.Text != "":
			b = chatText(b, p.Text)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, "]}"...), nil
}

func chatText(b []byte, s string) []byte {
	return append(codec.Field(append(codec.Comma(b), `{"type":"text"`...), "text", s), '}')
}

func chatImage(b []byte, img *model.Image) ([]byte, error) {
	b, err := appendDataURL(append(codec.Comma(b), `{"type":"image_url","image_url":{"url":`...), img)
	return append(b, "}}"...), err
}

func (s *service) chatAssistant(b []byte, parts []model.Part, inLoop bool) []byte {
	var texts, thoughts []string
	calls := 0
	for i := range parts {
		switch p := &parts[i]; {
		case p.Call != nil:
			calls++
		case p.Reasoning != nil:
			if p.Reasoning.Origin == s.Name && p.Reasoning.Text != "" {
				thoughts = append(thoughts, p.Reasoning.Text)
			}
		case p.Text != "":
			texts = append(texts, p.Text)
		}
	}
	if len(texts) == 0 && calls == 0 {
		return b
	}
	b = append(codec.Comma(b), `{"role":"assistant"`...)
	if len(texts) > 0 {
		b = codec.Field(b, "content", strings.Join(texts, "\n\n"))
	}
	if s.ThoughtField != "" && inLoop && len(thoughts) > 0 {
		b = codec.String(append(b, ','), s.ThoughtField)
		b = codec.String(append(b, ':'), strings.Join(thoughts, "\n\n"))
	}
	if calls > 0 {
		b = chatCallList(append(codec.Name(b, "tool_calls"), '['), parts)
	}
	return append(b, '}')
}

func chatCallList(b []byte, parts []model.Part) []byte {
	for i := range parts {
		c := parts[i].Call
		if c == nil {
			continue
		}
		b = codec.Field(append(codec.Comma(b), `{"type":"function"`...), "id", shortID(c.ID))
		b = codec.Field(append(codec.Name(b, "function"), '{'), "name", c.Name)
		b = append(codec.Field(b, "arguments", argsText(c)), "}}"...)
	}
	return append(b, ']')
}

// chatResults sends the images of results after all of them, as a user's: a
// tool's message holds only text, and nothing may stand between two of them.
func chatResults(b []byte, parts []model.Part) ([]byte, error) {
	pictures := false
	for i := range parts {
		if r := parts[i].Result; r != nil {
			b = codec.Field(append(codec.Comma(b), `{"role":"tool"`...), "content", resultText(r))
			b = append(codec.Field(b, "tool_call_id", shortID(r.ID)), '}')
			pictures = pictures || len(r.Images) > 0
		}
	}
	if !pictures {
		return b, nil
	}
	b = append(codec.Comma(b), `{"role":"user","content":[`...)
	for i := range parts {
		r := parts[i].Result
		if r == nil || len(r.Images) == 0 {
			continue
		}
		b = chatText(b, "The images of the result of "+shortID(r.ID)+":")
		for j := range r.Images {
			var err error
			if b, err = chatImage(b, &r.Images[j]); err != nil {
				return nil, err
			}
		}
	}
	return append(b, "]}"...), nil
}
