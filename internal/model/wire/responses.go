package wire

import (
	"encoding/json"
	"net/http"
	"strings"

	"stave/internal/model"
)

// responses is the dialect of OpenAI Responses.
type responses struct{ known *known }

type responsesRequest struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions"`
	Input        responsesInput  `json:"input"`
	Tools        []responsesTool `json:"tools"`
	MaxTokens    int64           `json:"max_output_tokens"`
	CacheKey     string          `json:"prompt_cache_key"`
	Reasoning    struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
	Text struct {
		Format struct {
			Type   string          `json:"type"`
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"text"`
	Stream bool `json:"stream"`
}

type responsesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"parameters"`
}

type responsesItem struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Role      string `json:"role"`
	Content   blocks `json:"content"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Output    blocks `json:"output"`
	Summary   blocks `json:"summary"`
	Encrypted string `json:"encrypted_content"`
}

// responsesInput is a list of items, or a string that stands for a user's message.
type responsesInput []responsesItem

// UnmarshalJSON takes both forms.
func (in *responsesInput) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*in = responsesInput{{Role: "user", Content: blocks{{Text: text}}}}
		return nil
	}
	var list []responsesItem
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*in = list
	return nil
}

func (d responses) read(_ *http.Request, body []byte) (call, error) {
	var in responsesRequest
	if err := readRequest(body, &in, "input", (*[]responsesItem)(&in.Input), &d.known.responses, &in.Tools, &d.known.responsesTools); err != nil {
		return call{}, err
	}
	r := model.Request{
		Model: in.Model, System: in.Instructions, MaxTokens: in.MaxTokens,
		CacheKey: in.CacheKey, Effort: in.Reasoning.Effort,
	}
	if f := in.Text.Format; f.Type == "json_schema" {
		r.Output = &model.OutputSchema{Name: f.Name, Schema: f.Schema}
	}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, model.ToolSpec(t))
	}
	for _, item := range in.Input {
		if err := addItem(&r, item); err != nil {
			return call{}, err
		}
	}
	return call{request: r, stream: in.Stream}, nil
}

func addItem(r *model.Request, item responsesItem) error {
	switch item.Type {
	case "function_call":
		add(r, model.RoleAssistant, model.Part{Call: &model.ToolCall{ID: item.CallID, Name: item.Name, Args: arguments(item.Arguments)}})
		return nil
	case "function_call_output":
		images, err := item.Output.images()
		add(r, model.RoleTool, model.Part{Result: &model.ToolResult{ID: item.CallID, Text: item.Output.text(), Images: images}})
		return err
	case "reasoning":
		add(r, model.RoleAssistant, model.Part{Reasoning: &model.Reasoning{
			ID: item.ID, Text: item.Summary.text(), Opaque: item.Encrypted, Origin: "openai",
		}})
		return nil
	}
	parts, err := plainParts(item.Content)
	if err != nil {
		return err
	}
	switch item.Role {
	case "system", "developer":
		addSystem(r, item.Content.text())
	case "assistant":
		add(r, model.RoleAssistant, parts...)
	default:
		add(r, model.RoleUser, parts...)
	}
	return nil
}

func (responses) refuse(e *model.Error) []byte { return chat{}.refuse(e) }

func (responses) talk(out *stream, c call) speaker {
	return &responsesSpeaker{stream: out, call: c, id: out.number("resp")}
}

type responsesSpeaker struct {
	*stream
	call     call
	id       string
	sequence int64
	usage    *model.Usage

	open   string // the type of the open item; empty: none
	itemID string
	index  int64  // of the open item, or of the next
	said   []byte // the text of the open item
	opaque string // of the open item
	output []byte // the finished items, as JSON
}

// event begins an event; its data goes on with the first field of its own.
func (s *responsesSpeaker) event(kind string) *stream {
	s.stream.begin(kind).raw(`{"type":"`).raw(kind).raw(`","sequence_number":`).integer(s.sequence).raw(`,`)
	s.sequence++
	return s.stream
}

// inItem is event for something that happens to the open item.
func (s *responsesSpeaker) inItem(kind string) *stream {
	return s.event(kind).raw(`"item_id":"`).raw(s.itemID).raw(`","output_index":`).integer(s.index).raw(`,`)
}

func (s *responsesSpeaker) begin() {
	for _, kind := range []string{"response.created", "response.in_progress"} {
		s.event(kind).raw(`"response":`)
		s.response("in_progress", "")
		s.raw(`}`).end()
	}
}

// response writes the whole response as it is now; more are its further fields.
func (s *responsesSpeaker) response(status, more string) {
	s.raw(`{"id":"`).raw(s.id).raw(`","object":"response","created_at":0,"status":"`).raw(status).raw(`","model":`).
		text(s.call.request.Model).raw(`,"output":[`).raw(string(s.output)).raw(`]`).raw(more)
	if u := s.usage; u != nil {
		s.raw(`,"usage":{"input_tokens":`).integer(u.InputTokens).
			raw(`,"input_tokens_details":{"cached_tokens":`).integer(u.CachedTokens).
			raw(`},"output_tokens":`).integer(u.OutputTokens).
			raw(`,"output_tokens_details":{"reasoning_tokens":`).integer(u.ReasoningTokens).
			raw(`},"total_tokens":`).integer(u.InputTokens + u.OutputTokens).raw(`}`)
	}
	s.raw(`}`)
}

func (s *responsesSpeaker) say(ev model.Event) {
	switch {
	case ev.Text != "":
		s.start("message")
		s.add(ev.Text)
		s.inItem("response.output_text.delta").raw(`"content_index":0,"delta":`).text(ev.Text).raw(`}`).end()
	case ev.Reasoning != nil:
		s.start("reasoning")
		s.opaque += ev.Reasoning.Opaque
		if t := ev.Reasoning.Text; t != "" {
			s.add(t)
			s.inItem("response.reasoning_summary_text.delta").raw(`"summary_index":0,"delta":`).text(t).raw(`}`).end()
		}
	case ev.ItemDone:
		s.stop()
	case ev.Call != nil:
		s.makeCall(*ev.Call)
	case ev.Usage != nil:
		s.usage = ev.Usage
	case ev.Done != "":
		s.stop()
		s.finish(ev.Done)
	}
}

// ended is the status of a response that stopped, and the field that says why.
func ended(stop model.StopReason) (status, more string) {
	switch stop {
	case model.StopLength:
		return "incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`
	case model.StopRefusal:
		return "incomplete", `,"incomplete_details":{"reason":"content_filter"}`
	case model.StopEnd, model.StopToolCalls:
	}
	return "completed", ""
}

func (s *responsesSpeaker) finish(stop model.StopReason) {
	status, more := ended(stop)
	s.event("response." + status).raw(`"response":`)
	s.response(status, more)
	s.raw(`}`).end()
}

func (s *responsesSpeaker) fail(e *model.Error) {
	var more strings.Builder
	more.WriteString(`,"error":{"code":`)
	more.Write(appendQuoted(nil, openAICode(e)))
	more.WriteString(`,"message":`)
	more.Write(appendQuoted(nil, e.Message))
	more.WriteString(`}`)
	s.event("response.failed").raw(`"response":`)
	s.response("failed", more.String())
	s.raw(`}`).end()
}

func (s *responsesSpeaker) makeCall(c model.RawCall) {
	s.stop()
	s.open, s.itemID = "function_call", s.number("fc")
	s.event("response.output_item.added").raw(`"output_index":`).integer(s.index).raw(`,"item":`)
	s.raw(s.callItem(c, "in_progress", "")).raw(`}`).end()
	s.inItem("response.function_call_arguments.delta").raw(`"delta":`).text(c.Args).raw(`}`).end()
	s.inItem("response.function_call_arguments.done").raw(`"name":`).text(c.Name).raw(`,"arguments":`).text(c.Args).raw(`}`).end()
	s.done(s.callItem(c, "completed", c.Args))
}

func (s *responsesSpeaker) callItem(c model.RawCall, status, args string) string {
	b := append([]byte(`{"id":"`), s.itemID...)
	b = append(b, `","type":"function_call","status":"`...)
	b = append(b, status...)
	b = appendQuoted(append(b, `","call_id":`...), c.ID)
	b = appendQuoted(append(b, `,"name":`...), c.Name)
	b = appendQuoted(append(b, `,"arguments":`...), args)
	return string(append(b, '}'))
}
