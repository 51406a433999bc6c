package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"strings"

	"stave/internal/model"
)

// gemini is the dialect of the Gemini API.
type gemini struct{ known *known }

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text      string `json:"text"`
	Thought   bool   `json:"thought"`
	Signature string `json:"thoughtSignature"`
	Inline    *struct {
		MediaType string `json:"mimeType"`
		Data      []byte `json:"data"`
	} `json:"inlineData"`
	Call *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string                     `json:"id"`
		Name     string                     `json:"name"`
		Response map[string]json.RawMessage `json:"response"`
		Parts    []geminiPart               `json:"parts"`
	} `json:"functionResponse"`
}

type geminiRequest struct {
	System   geminiContent   `json:"systemInstruction"`
	Contents []geminiContent `json:"contents"`
	Tools    []geminiTools   `json:"tools"`
	Config   struct {
		MaxTokens int64           `json:"maxOutputTokens"`
		Schema    json.RawMessage `json:"responseJsonSchema"`
		Thinking  struct {
			Level string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

type geminiTools struct {
	Functions []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"parametersJsonSchema"`
	} `json:"functionDeclarations"`
}

func (g gemini) read(req *http.Request, body []byte) (call, error) {
	var in geminiRequest
	if err := readRequest(body, &in, "contents", &in.Contents, &g.known.gemini, &in.Tools, &g.known.geminiTools); err != nil {
		return call{}, err
	}
	name, method, _ := strings.Cut(path.Base(req.URL.Path), ":")
	r := model.Request{Model: name, MaxTokens: in.Config.MaxTokens, Effort: in.Config.Thinking.Level}
	if in.Config.Schema != nil {
		r.Output = &model.OutputSchema{Schema: in.Config.Schema}
	}
	for _, p := range in.System.Parts {
		addSystem(&r, p.Text)
	}
	for _, set := range in.Tools {
		for _, f := range set.Functions {
			r.Tools = append(r.Tools, model.ToolSpec(f))
		}
	}
	for _, c := range in.Contents {
		addContent(&r, c)
	}
	return call{request: r, stream: method == "streamGenerateContent"}, nil
}

func addContent(r *model.Request, c geminiContent) {
	role := model.RoleUser
	if c.Role == "model" {
		role = model.RoleAssistant
	}
	var parts, results []model.Part
	for _, p := range c.Parts {
		switch {
		case p.Call != nil:
			parts = append(parts, model.Part{Call: &model.ToolCall{
				ID: p.Call.ID, Name: p.Call.Name, Args: p.Call.Args, Opaque: p.Signature, Origin: "gemini",
			}})
		case p.Response != nil:
			results = append(results, model.Part{Result: geminiResult(p)})
		case p.Inline != nil:
			parts = append(parts, model.Part{Image: &model.Image{MediaType: p.Inline.MediaType, Data: p.Inline.Data}})
		case p.Thought || p.Text == "":
			parts = append(parts, model.Part{Reasoning: &model.Reasoning{Text: p.Text, Opaque: p.Signature, Origin: "gemini"}})
		default:
			parts = append(parts, model.Part{Text: p.Text})
		}
	}
	add(r, model.RoleTool, results...)
	add(r, role, parts...)
}

func geminiResult(p geminiPart) *model.ToolResult {
	result := &model.ToolResult{ID: p.Response.ID}
	for name, value := range p.Response.Response {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		result.Text, result.IsError = text, name == "error"
	}
	for _, inner := range p.Response.Parts {
		if inner.Inline != nil {
			result.Images = append(result.Images, model.Image{MediaType: inner.Inline.MediaType, Data: inner.Inline.Data})
		}
	}
	return result
}

var geminiStatuses = map[int]string{
	http.StatusBadRequest:         "INVALID_ARGUMENT",
	http.StatusUnauthorized:       "UNAUTHENTICATED",
	http.StatusTooManyRequests:    "RESOURCE_EXHAUSTED",
	http.StatusServiceUnavailable: "UNAVAILABLE",
	http.StatusGatewayTimeout:     "DEADLINE_EXCEEDED",
}

func (gemini) refuse(e *model.Error) []byte {
	status := statusOf(e)
	name, ok := geminiStatuses[status]
	if !ok {
		name = "INTERNAL"
	}
	message := e.Message
	if e.Kind == model.ErrTooLong {
		message = "the input token count exceeds what the model takes: " + message
	}
	b := strconv.AppendInt([]byte(`{"error":{"code":`), int64(status), 10)
	b = appendQuoted(append(b, `,"message":`...), message)
	b = appendQuoted(append(b, `,"status":`...), name)
	b = append(b, `,"details":[`...)
	switch {
	case e.Kind == model.ErrQuota:
		b = append(b, `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"RequestsPerDay"}]}`...)
	case e.RetryAfter > 0:
		b = append(b, `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		b = strconv.AppendFloat(b, e.RetryAfter.Seconds(), 'f', -1, 64)
		b = append(b, `s"}`...)
	}
	return append(b, `]}}`...)
}

func (gemini) talk(out *stream, c call) speaker { return &geminiSpeaker{stream: out, call: c} }

type geminiSpeaker struct {
	*stream
	call      call
	usage     *model.Usage
	malformed bool // a call could not be written
}

func (s *geminiSpeaker) begin() {}

// part begins a chunk that holds one part.
func (s *geminiSpeaker) part() *stream {
	return s.stream.begin("").raw(`{"candidates":[{"content":{"parts":[`)
}

func (s *stream) endPart(c call) {
	s.raw(`],"role":"model"},"index":0}],"modelVersion":`).text(c.request.Model).raw(`}`).end()
}

func (s *geminiSpeaker) say(ev model.Event) {
	switch {
	case ev.Text != "":
		s.part().raw(`{"text":`).text(ev.Text).raw(`}`).endPart(s.call)
	case ev.Reasoning != nil:
		s.part().geminiThought(*ev.Reasoning).endPart(s.call)
	case ev.Call != nil:
		if !json.Valid([]byte(ev.Call.Args)) {
			s.malformed = true
			return
		}
		s.part().geminiCall(*ev.Call).endPart(s.call)
	case ev.Usage != nil:
		s.usage = ev.Usage
	case ev.Done != "":
		reason := geminiStop(ev.Done)
		if s.malformed {
			reason = "MALFORMED_FUNCTION_CALL"
		}
		s.stream.begin("").raw(`{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"`).raw(reason).
			raw(`","index":0}]`).geminiUsage(s.usage).raw(`,"modelVersion":`).text(s.call.request.Model).raw(`}`).end()
	}
}

func (s *geminiSpeaker) fail(e *model.Error) {
	s.stream.begin("").raw(string(gemini{}.refuse(e))).end()
}

func (s *stream) geminiThought(r model.Reasoning) *stream {
	s.raw(`{"text":`).text(r.Text).raw(`,"thought":true`)
	return s.geminiSignature(r.Opaque).raw(`}`)
}

func (s *stream) geminiCall(c model.RawCall) *stream {
	args := c.Args
	if strings.ContainsAny(args, "\r\n") { // a line of the stream must stay one
		var one bytes.Buffer
		if json.Compact(&one, []byte(args)) == nil {
			args = one.String()
		}
	}
	s.raw(`{"functionCall":{"name":`).text(c.Name).raw(`,"args":`).raw(args)
	if c.ID != "" {
		s.raw(`,"id":`).text(c.ID)
	}
	return s.raw(`}`).geminiSignature(c.Opaque).raw(`}`)
}

func (s *stream) geminiSignature(signature string) *stream {
	if signature != "" {
		s.raw(`,"thoughtSignature":`).text(signature)
	}
	return s
}

func (s *stream) geminiUsage(u *model.Usage) *stream {
	if u == nil {
		return s
	}
	s.raw(`,"usageMetadata":{"promptTokenCount":`).integer(u.InputTokens).
		raw(`,"candidatesTokenCount":`).integer(u.OutputTokens - u.ReasoningTokens).
		raw(`,"totalTokenCount":`).integer(u.InputTokens + u.OutputTokens)
	if u.CachedTokens != 0 {
		s.raw(`,"cachedContentTokenCount":`).integer(u.CachedTokens)
	}
	if u.ReasoningTokens != 0 {
		s.raw(`,"thoughtsTokenCount":`).integer(u.ReasoningTokens)
	}
	return s.raw(`}`)
}

func geminiStop(r model.StopReason) string {
	switch r {
	case model.StopLength:
		return "MAX_TOKENS"
	case model.StopRefusal:
		return "SAFETY"
	case model.StopEnd, model.StopToolCalls:
	}
	return "STOP"
}

func (gemini) whole(out *stream, c call, r model.Response) {
	out.raw(`{"candidates":[{"content":{"parts":[`)
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
		case p.Reasoning != nil:
			comma().geminiThought(*p.Reasoning)
		case p.Text != "":
			comma().raw(`{"text":`).text(p.Text).raw(`}`)
		}
	}
	reason := geminiStop(r.Stop)
	for _, made := range r.Calls {
		if !json.Valid([]byte(made.Args)) {
			reason = "MALFORMED_FUNCTION_CALL"
			continue
		}
		comma().geminiCall(made)
	}
	out.raw(`],"role":"model"},"finishReason":"`).raw(reason).raw(`","index":0}]`)
	if r.UsageReported {
		out.geminiUsage(&r.Usage)
	}
	out.raw(`,"modelVersion":`).text(c.request.Model).raw(`}`)
}
