package wire

import (
	"encoding/json"
	"net/http"

	"stave/internal/model"
)

// anthropic is the dialect of Anthropic Messages.
type anthropic struct{ known *known }

type anthropicRequest struct {
	Model     string             `json:"model"`
	MaxTokens int64              `json:"max_tokens"`
	System    blocks             `json:"system"`
	Messages  []anthropicMessage `json:"messages"`
	Tools     []anthropicTool    `json:"tools"`
	Output    struct {
		Effort string `json:"effort"`
		Format *struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Stream bool `json:"stream"`
}

type anthropicMessage struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

type anthropicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
}

func (a anthropic) read(_ *http.Request, body []byte) (call, error) {
	var in anthropicRequest
	if err := readRequest(body, &in, "messages", &in.Messages, &a.known.anthropic, &in.Tools, &a.known.anthropicTools); err != nil {
		return call{}, err
	}
	r := model.Request{Model: in.Model, MaxTokens: in.MaxTokens, System: in.System.text(), Effort: in.Output.Effort}
	if f := in.Output.Format; f != nil {
		r.Output = &model.OutputSchema{Schema: f.Schema}
	}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, model.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	for _, m := range in.Messages {
		if m.Role == "system" {
			addSystem(&r, m.Content.text())
			continue
		}
		role := model.RoleUser
		if m.Role == "assistant" {
			role = model.RoleAssistant
		}
		if err := addBlocks(&r, role, m.Content); err != nil {
			return call{}, err
		}
	}
	return call{request: r, stream: in.Stream}, nil
}

// addBlocks adds one message. Results are a user's words in this dialect and a
// message of their own in ours.
func addBlocks(r *model.Request, role model.Role, list blocks) error {
	var parts, results []model.Part
	for _, b := range list {
		switch b.Type {
		case "thinking":
			parts = append(parts, model.Part{Reasoning: &model.Reasoning{Text: b.Thinking, Opaque: b.Signature, Origin: "anthropic"}})
		case "redacted_thinking":
			parts = append(parts, model.Part{Reasoning: &model.Reasoning{Opaque: b.Data, Redacted: true, Origin: "anthropic"}})
		case "tool_use":
			parts = append(parts, model.Part{Call: &model.ToolCall{ID: b.ID, Name: b.Name, Args: b.Input}})
		case "tool_result":
			images, err := b.Content.images()
			if err != nil {
				return err
			}
			results = append(results, model.Part{Result: &model.ToolResult{
				ID: b.UseID, Text: b.Content.text(), IsError: b.IsError, Images: images,
			}})
		default:
			plain, err := plainParts(blocks{b})
			if err != nil {
				return err
			}
			parts = append(parts, plain...)
		}
	}
	add(r, model.RoleTool, results...)
	add(r, role, parts...)
	return nil
}

var anthropicErrors = map[model.ErrorKind]string{
	model.ErrRateLimited: "rate_limit_error",
	model.ErrOverloaded:  "overloaded_error",
	model.ErrTimeout:     "timeout_error",
	model.ErrAuth:        "authentication_error",
	model.ErrBadRequest:  "invalid_request_error",
	model.ErrTooLong:     "invalid_request_error",
	model.ErrLimit:       "invalid_request_error",
	model.ErrQuota:       "billing_error",
}

func (anthropic) refuse(e *model.Error) []byte {
	kind, ok := anthropicErrors[e.Kind]
	if !ok {
		kind = "api_error"
	}
	b := append([]byte(`{"type":"error","error":{"type":`), '"')
	b = append(b, kind...)
	b = append(b, `","message":`...)
	message := e.Message
	if e.Kind == model.ErrTooLong {
		message = "prompt is too long: " + message
	}
	b = appendQuoted(b, message)
	return append(b, `}}`...)
}

func (anthropic) talk(out *stream, c call) speaker { return &anthropicSpeaker{stream: out, call: c} }

type anthropicSpeaker struct {
	*stream
	call  call
	index int64  // of the present block
	open  string // its type; empty: none is open
	usage model.Usage
}

func (s *anthropicSpeaker) begin() {
	s.stream.begin("message_start").raw(`{"type":"message_start","message":{"id":`).text(s.number("msg")).
		raw(`,"type":"message","role":"assistant","model":`).text(s.call.request.Model).
		raw(`,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}}`).end()
}

func (s *anthropicSpeaker) say(ev model.Event) {
	switch {
	case ev.Text != "":
		s.start("text", `{"type":"text","text":""}`)
		s.delta("text_delta", "text", ev.Text)
	case ev.Reasoning != nil:
		s.think(*ev.Reasoning)
	case ev.ItemDone:
		s.stop()
	case ev.Call != nil:
		s.stop()
		s.blockStart().raw(`{"type":"tool_use","id":`).text(ev.Call.ID).raw(`,"name":`).text(ev.Call.Name).raw(`,"input":{}}}`).end()
		s.open = "tool_use"
		s.delta("input_json_delta", "partial_json", ev.Call.Args)
		s.stop()
	case ev.Usage != nil:
		s.usage = *ev.Usage
	case ev.Done != "":
		s.stop()
		s.stream.begin("message_delta").raw(`{"type":"message_delta","delta":{"stop_reason":"`).raw(anthropicStop(ev.Done)).
			raw(`","stop_sequence":null},"usage":`)
		s.anthropicUsage(s.usage).raw(`}`).end()
		s.stream.begin("message_stop").raw(`{"type":"message_stop"}`).end()
	}
}

func (s *anthropicSpeaker) think(r model.Reasoning) {
	if r.Redacted {
		s.stop()
		s.blockStart().raw(`{"type":"redacted_thinking","data":`).text(r.Opaque).raw(`}}`).end()
		s.open = "redacted_thinking"
		s.stop()
		return
	}
	s.start("thinking", `{"type":"thinking","thinking":"","signature":""}`)
	if r.Text != "" {
		s.delta("thinking_delta", "thinking", r.Text)
	}
	if r.Opaque != "" {
		s.delta("signature_delta", "signature", r.Opaque)
	}
}

func (s *anthropicSpeaker) blockStart() *stream {
	return s.stream.begin("content_block_start").raw(`{"type":"content_block_start","index":`).integer(s.index).raw(`,"content_block":`)
}

func (s *anthropicSpeaker) start(kind, block string) {
	if s.open == kind {
		return
	}
	s.stop()
	s.blockStart().raw(block).raw(`}`).end()
	s.open = kind
}

func (s *anthropicSpeaker) delta(kind, field, value string) {
	s.stream.begin("content_block_delta").raw(`{"type":"content_block_delta","index":`).integer(s.index).
		raw(`,"delta":{"type":"`).raw(kind).raw(`","`).raw(field).raw(`":`).text(value).raw(`}}`).end()
}

func (s *anthropicSpeaker) stop() {
	if s.open == "" {
		return
	}
	s.stream.begin("content_block_stop").raw(`{"type":"content_block_stop","index":`).integer(s.index).raw(`}`).end()
	s.open = ""
	s.index++
}

func (s *anthropicSpeaker) fail(e *model.Error) {
	s.stream.begin("error").raw(string(anthropic{}.refuse(e))).end()
}

// anthropicUsage writes a usage; this dialect counts what a cache gave apart.
func (s *stream) anthropicUsage(u model.Usage) *stream {
	return s.raw(`{"input_tokens":`).integer(u.InputTokens - u.CachedTokens - u.CacheWriteTokens).
		raw(`,"cache_read_input_tokens":`).integer(u.CachedTokens).
		raw(`,"cache_creation_input_tokens":`).integer(u.CacheWriteTokens).
		raw(`,"output_tokens":`).integer(u.OutputTokens).raw(`}`)
}

func anthropicStop(r model.StopReason) string {
	switch r {
	case model.StopToolCalls:
		return "tool_use"
	case model.StopLength:
		return "max_tokens"
	case model.StopRefusal:
		return "refusal"
	case model.StopEnd:
	}
	return "end_turn"
}

func (anthropic) whole(out *stream, c call, r model.Response) {
	out.raw(`{"id":`).text(out.number("msg")).raw(`,"type":"message","role":"assistant","model":`).text(c.request.Model).raw(`,"content":[`)
	first := true
	comma := func() *stream {
		if !first {
			out.raw(`,`)
		}
		first = false
		return out
	}
	for _, p := range r.Parts {
		switch {
		case p.Reasoning != nil && p.Reasoning.Redacted:
			comma().raw(`{"type":"redacted_thinking","data":`).text(p.Reasoning.Opaque).raw(`}`)
		case p.Reasoning != nil:
			comma().raw(`{"type":"thinking","thinking":`).text(p.Reasoning.Text).raw(`,"signature":`).text(p.Reasoning.Opaque).raw(`}`)
		case p.Text != "":
			comma().raw(`{"type":"text","text":`).text(p.Text).raw(`}`)
		}
	}
	for _, c := range r.Calls {
		comma().raw(`{"type":"tool_use","id":`).text(c.ID).raw(`,"name":`).text(c.Name).raw(`,"input":`).raw(string(arguments(c.Args))).raw(`}`)
	}
	out.raw(`],"stop_reason":"`).raw(anthropicStop(r.Stop)).raw(`","stop_sequence":null,"usage":`).anthropicUsage(r.Usage).raw(`}`)
}
