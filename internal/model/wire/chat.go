package wire

import (
	"encoding/json"
	"net/http"
	"time"

	"stave/internal/model"
)

// chat is the dialect of OpenAI Chat Completions.
type chat struct{ known *known }

type chatRequest struct {
	Model      string        `json:"model"`
	Messages   []chatMessage `json:"messages"`
	Tools      []chatTool    `json:"tools"`
	MaxTokens  int64         `json:"max_tokens"`
	MostTokens int64         `json:"max_completion_tokens"`
	Effort     string        `json:"reasoning_effort"`
	CacheKey   string        `json:"prompt_cache_key"`
	Format     struct {
		Schema *model.OutputSchema `json:"json_schema"`
	} `json:"response_format"`
	Stream  bool `json:"stream"`
	Options struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatMessage struct {
	Role      string `json:"role"`
	Content   blocks `json:"content"`
	Reasoning string `json:"reasoning_content"`
	Calls     []struct {
		ID       string `json:"id"`
		Function struct {
			Name string `json:"name"`
			Args string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	CallID string `json:"tool_call_id"`
}

type chatTool struct {
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func (c chat) read(_ *http.Request, body []byte) (call, error) {
	var in chatRequest
	if err := readRequest(body, &in, "messages", &in.Messages, &c.known.chat, &in.Tools, &c.known.chatTools); err != nil {
		return call{}, err
	}
	r := model.Request{
		Model: in.Model, MaxTokens: max(in.MaxTokens, in.MostTokens), Effort: in.Effort,
		CacheKey: in.CacheKey, Output: in.Format.Schema,
	}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, model.ToolSpec(t.Function))
	}
	for _, m := range in.Messages {
		parts, err := plainParts(m.Content)
		if err != nil {
			return call{}, err
		}
		switch m.Role {
		case "system", "developer":
			addSystem(&r, m.Content.text())
		case "tool":
			add(&r, model.RoleTool, model.Part{Result: &model.ToolResult{ID: m.CallID, Text: m.Content.text()}})
		case "assistant":
			if m.Reasoning != "" {
				parts = append([]model.Part{{Reasoning: &model.Reasoning{Text: m.Reasoning}}}, parts...)
			}
			for _, c := range m.Calls {
				parts = append(parts, model.Part{Call: &model.ToolCall{ID: c.ID, Name: c.Function.Name, Args: arguments(c.Function.Args)}})
			}
			add(&r, model.RoleAssistant, parts...)
		default:
			add(&r, model.RoleUser, parts...)
		}
	}
	return call{request: r, stream: in.Stream, usage: in.Options.Usage}, nil
}

var openAIErrors = map[model.ErrorKind]string{
	model.ErrRateLimited: "rate_limit_exceeded",
	model.ErrOverloaded:  "server_is_overloaded",
	model.ErrAuth:        "invalid_api_key",
	model.ErrBadRequest:  "invalid_value",
	model.ErrTooLong:     "context_length_exceeded",
	model.ErrQuota:       "insufficient_quota",
}

func openAICode(e *model.Error) string {
	if code, ok := openAIErrors[e.Kind]; ok {
		return code
	}
	return "server_error"
}

func (chat) refuse(e *model.Error) []byte {
	kind := "invalid_request_error"
	switch {
	case e.Kind == model.ErrQuota:
		kind = "insufficient_quota"
	case statusOf(e) == http.StatusTooManyRequests:
		kind = "requests"
	case statusOf(e) >= 500:
		kind = "server_error"
	}
	b := appendQuoted([]byte(`{"error":{"message":`), e.Message)
	b = appendQuoted(append(b, `,"type":`...), kind)
	b = appendQuoted(append(b, `,"param":null,"code":`...), openAICode(e))
	return append(b, `}}`...)
}

func (chat) talk(out *stream, c call) speaker {
	return &chatSpeaker{stream: out, call: c, id: out.number("chatcmpl"), created: time.Now().Unix()}
}

type chatSpeaker struct {
	*stream
	call    call
	id      string
	created int64
	calls   int64
	usage   *model.Usage
}

// chunk begins a chunk, up to its choices.
func (s *chatSpeaker) chunk() *stream {
	return s.stream.begin("").raw(`{"id":"`).raw(s.id).raw(`","object":"chat.completion.chunk","created":`).integer(s.created).
		raw(`,"model":`).text(s.call.request.Model).raw(`,"choices":[`)
}

func (s *chatSpeaker) delta(field, value string) {
	s.chunk().raw(`{"index":0,"delta":{"`).raw(field).raw(`":`).text(value).raw(`},"finish_reason":null}]}`).end()
}

func (s *chatSpeaker) begin() {
	s.chunk().raw(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`).end()
}

func (s *chatSpeaker) say(ev model.Event) {
	switch {
	case ev.Text != "":
		s.delta("content", ev.Text)
	case ev.Reasoning != nil && ev.Reasoning.Text != "":
		s.delta("reasoning_content", ev.Reasoning.Text)
	case ev.Call != nil:
		s.chunk().raw(`{"index":0,"delta":{"tool_calls":[{"index":`).integer(s.calls).raw(`,"id":`).text(ev.Call.ID).
			raw(`,"type":"function","function":{"name":`).text(ev.Call.Name).raw(`,"arguments":""}}]},"finish_reason":null}]}`).end()
		s.chunk().raw(`{"index":0,"delta":{"tool_calls":[{"index":`).integer(s.calls).raw(`,"function":{"arguments":`).
			text(ev.Call.Args).raw(`}}]},"finish_reason":null}]}`).end()
		s.calls++
	case ev.Usage != nil:
		s.usage = ev.Usage
	case ev.Done != "":
		s.chunk().raw(`{"index":0,"delta":{},"finish_reason":"`).raw(chatStop(ev.Done)).raw(`"}]}`).end()
		if s.call.usage && s.usage != nil {
			s.chunk().raw(`],"usage":`).chatUsage(*s.usage).raw(`}`).end()
		}
		s.stream.begin("").raw(`[DONE]`).end()
	}
}

func (s *chatSpeaker) fail(e *model.Error) { s.stream.begin("").raw(string(chat{}.refuse(e))).end() }

func (s *stream) chatUsage(u model.Usage) *stream {
	return s.raw(`{"prompt_tokens":`).integer(u.InputTokens).raw(`,"completion_tokens":`).integer(u.OutputTokens).
		raw(`,"total_tokens":`).integer(u.InputTokens + u.OutputTokens).
		raw(`,"prompt_tokens_details":{"cached_tokens":`).integer(u.CachedTokens).
		raw(`},"completion_tokens_details":{"reasoning_tokens":`).integer(u.ReasoningTokens).raw(`}}`)
}

func chatStop(r model.StopReason) string {
	switch r {
	case model.StopToolCalls:
		return "tool_calls"
	case model.StopLength:
		return "length"
	case model.StopRefusal:
		return "content_filter"
	case model.StopEnd:
	}
	return "stop"
}

func (chat) whole(out *stream, c call, r model.Response) {
	out.raw(`{"id":`).text(out.number("chatcmpl")).raw(`,"object":"chat.completion","created":`).integer(time.Now().Unix()).
		raw(`,"model":`).text(c.request.Model).raw(`,"choices":[{"index":0,"message":{"role":"assistant","content":`).text(r.Text)
	for i, made := range r.Calls {
		if i == 0 {
			out.raw(`,"tool_calls":[`)
		} else {
			out.raw(`,`)
		}
		out.raw(`{"id":`).text(made.ID).raw(`,"type":"function","function":{"name":`).text(made.Name).raw(`,"arguments":`).text(made.Args).raw(`}}`)
	}
	if len(r.Calls) > 0 {
		out.raw(`]`)
	}
	out.raw(`},"finish_reason":"`).raw(chatStop(r.Stop)).raw(`"}],"usage":`).chatUsage(r.Usage).raw(`}`)
}
