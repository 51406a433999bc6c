package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"

	"stave/internal/model"
)

// What follows writes a request with package json, all of it at once. It is
// slower than our writer and shows that both say the same.

type request struct {
	System   *content  `json:"systemInstruction,omitempty"`
	Contents []content `json:"contents"`
	Tools    []tools   `json:"tools,omitempty"`
	Config   *config   `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Text      *string   `json:"text,omitempty"`
	Thought   bool      `json:"thought,omitempty"`
	Signature string    `json:"thoughtSignature,omitempty"`
	Inline    *blob     `json:"inlineData,omitempty"`
	Call      *call     `json:"functionCall,omitempty"`
	Response  *response `json:"functionResponse,omitempty"`
}

type blob struct {
	MediaType string `json:"mimeType"`
	Data      []byte `json:"data"`
}

type response struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
	Parts    []part            `json:"parts,omitempty"`
}

type tools struct {
	Functions []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type config struct {
	MaxTokens int64           `json:"maxOutputTokens,omitempty"`
	MediaType string          `json:"responseMimeType,omitempty"`
	Schema    json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking  *thinking       `json:"thinkingConfig,omitempty"`
}

type thinking struct {
	Include bool   `json:"includeThoughts"`
	Level   string `json:"thinkingLevel,omitempty"`
	Budget  int    `json:"thinkingBudget,omitempty"`
}

func encodeWhole(r model.Request) ([]byte, error) {
	out := request{Contents: []content{}}
	if r.System != "" {
		out.System = &content{Parts: []part{{Text: &r.System}}}
	}
	w := wholeWriter{later: takesLevels(r.Model), names: map[string]string{}}
	for _, m := range r.Messages {
		w.message(m)
	}
	out.Contents = w.contents
	if len(r.Tools) > 0 {
		declared := tools{Functions: make([]function, len(r.Tools))}
		for i, t := range r.Tools {
			declared.Functions[i] = function(t)
		}
		out.Tools = []tools{declared}
	}
	var err error
	if out.Config, err = configPart(r); err != nil {
		return nil, err
	}
	// HTML escapes would only make what the model reads longer on the wire.
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, &model.Error{Kind: model.ErrBadRequest, Message: "a schema or the arguments of a call are not JSON: " + err.Error()}
	}
	return body.Bytes(), nil
}

type wholeWriter struct {
	later    bool              // the model is of a later generation
	names    map[string]string // of the tools called, by the id of the call
	contents []content
	results  bool // the last content holds results and may take more
}

func (w *wholeWriter) message(m model.Message) {
	var parts []part
	foreign := true // until a call of our own is seen, the first must be excused
	for i, p := range m.Parts {
		switch {
		case p.Reasoning != nil:
			parts = addWhole(parts, *p.Reasoning, i > 0 && m.Parts[i-1].Text != "")
		case p.Call != nil:
			parts = append(parts, w.call(*p.Call, foreign))
			foreign = false
		case p.Result != nil:
			parts = append(parts, w.result(*p.Result)...)
		case p.Image != nil:
			parts = append(parts, part{Inline: &blob{p.Image.MediaType, p.Image.Data}})
		case p.Text != "":
			parts = append(parts, part{Text: &p.Text})
		}
	}
	if len(parts) == 0 {
		return // a content without parts is refused
	}
	// All results of one round belong into one content.
	if m.Role == model.RoleTool && w.results {
		last := &w.contents[len(w.contents)-1]
		last.Parts = append(last.Parts, parts...)
		return
	}
	role := "user"
	if m.Role == model.RoleAssistant {
		role = "model"
	}
	w.contents = append(w.contents, content{role, parts})
	w.results = m.Role == model.RoleTool
}

func addWhole(parts []part, r model.Reasoning, afterText bool) []part {
	if r.Origin != Origin || r.Opaque == "" {
		return parts
	}
	switch {
	case r.ID == signsText && afterText && len(parts) > 0:
		parts[len(parts)-1].Signature = r.Opaque
		return parts
	case r.ID == signsText || r.ID == signsVoid:
		return append(parts, part{Text: new(string), Signature: r.Opaque})
	}
	return append(parts, part{Text: &r.Text, Thought: true, Signature: r.Opaque})
}

func (w *wholeWriter) call(c model.ToolCall, first bool) part {
	w.names[c.ID] = c.Name
	p := part{Call: &call{ID: c.ID, Name: c.Name, Args: object(c.Args)}}
	switch {
	case c.Origin == Origin:
		p.Signature = c.Opaque
	case first && w.later:
		p.Signature = unsigned
	}
	return p
}

func (w *wholeWriter) result(r model.ToolResult) []part {
	field := "output"
	if r.IsError {
		field = "error"
	}
	resp := &response{ID: r.ID, Name: w.names[r.ID], Response: map[string]string{field: r.Text}}
	parts := []part{{Response: resp}}
	for _, img := range r.Images {
		picture := part{Inline: &blob{img.MediaType, img.Data}}
		if w.later {
			resp.Parts = append(resp.Parts, picture)
		} else {
			parts = append(parts, picture)
		}
	}
	return parts
}

func configPart(r model.Request) (*config, error) {
	var c config
	c.MaxTokens = max(r.MaxTokens, 0)
	if r.Output != nil {
		c.MediaType, c.Schema = "application/json", r.Output.Schema
	}
	if r.Effort != "" {
		budget, known := thinkingBudgets[r.Effort]
		if !known {
			return nil, &model.Error{Kind: model.ErrBadRequest, Message: fmt.Sprintf("the effort %.40q is not known: use low, medium or high", r.Effort)}
		}
		c.Thinking = &thinking{Include: true, Budget: int(budget)}
		if takesLevels(r.Model) {
			c.Thinking = &thinking{Include: true, Level: r.Effort}
		}
	}
	if c.MaxTokens == 0 && c.MediaType == "" && c.Thinking == nil {
		return nil, nil
	}
	return &c, nil
}
