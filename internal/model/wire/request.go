package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"stave/internal/model"
)

// block is one piece of a message: the union of what the dialects of Anthropic
// and OpenAI have, which name different things differently.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`

	Source *struct { // Anthropic: image
		MediaType string `json:"media_type"`
		Data      []byte `json:"data"`
	} `json:"source"`
	ImageURL imageURL `json:"image_url"` // OpenAI

	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
	Data      string `json:"data"` // redacted_thinking

	ID      string          `json:"id"` // tool_use
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	UseID   string          `json:"tool_use_id"` // tool_result
	Content blocks          `json:"content"`
	IsError bool            `json:"is_error"`
	Refusal string          `json:"refusal"`
}

// blocks is a list of blocks, or a string that stands for one of text.
type blocks []block

// UnmarshalJSON takes both forms.
func (b *blocks) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*b = blocks{{Type: "text", Text: text}}
		return nil
	}
	var list []block
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*b = list
	return nil
}

// text joins the text of the blocks.
func (b blocks) text() string {
	if len(b) == 1 {
		return b[0].Text
	}
	var all strings.Builder
	for _, piece := range b {
		all.WriteString(piece.Text)
	}
	return all.String()
}

func (b blocks) images() ([]model.Image, error) {
	var all []model.Image
	for _, piece := range b {
		img, err := piece.image()
		if err != nil {
			return nil, err
		}
		if img != nil {
			all = append(all, *img)
		}
	}
	return all, nil
}

// image returns the picture of a block, nil if it has none.
func (b block) image() (*model.Image, error) {
	switch {
	case b.Source != nil:
		return &model.Image{MediaType: b.Source.MediaType, Data: b.Source.Data}, nil
	case b.ImageURL != "":
		return dataURL(string(b.ImageURL))
	}
	return nil, nil
}

// imageURL is a string, or an object that has it.
type imageURL string

// UnmarshalJSON takes both forms.
func (u *imageURL) UnmarshalJSON(data []byte) error {
	var object struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(data, &object) == nil {
		*u = imageURL(object.URL)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*u = imageURL(text)
	return nil
}

func dataURL(address string) (*model.Image, error) {
	media, encoded, ok := strings.Cut(strings.TrimPrefix(address, "data:"), ";base64,")
	if !ok || !strings.HasPrefix(address, "data:") {
		return nil, fmt.Errorf("the picture %.60q is no data: URL, and nothing is fetched here", address)
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("a picture is not base64: %w", err)
	}
	return &model.Image{MediaType: media, Data: data}, nil
}

// add appends parts to a request. What an assistant says in a row is one
// message, and so are the results of one round.
func add(r *model.Request, role model.Role, parts ...model.Part) {
	if len(parts) == 0 {
		return
	}
	if n := len(r.Messages); n > 0 && role != model.RoleUser && r.Messages[n-1].Role == role {
		r.Messages[n-1].Parts = append(r.Messages[n-1].Parts, parts...)
		return
	}
	r.Messages = append(r.Messages, model.Message{Role: role, Parts: parts})
}

// addSystem appends to the system prompt.
func addSystem(r *model.Request, text string) {
	if r.System != "" && text != "" {
		r.System += "\n"
	}
	r.System += text
}

// plainParts are the texts and pictures of blocks.
func plainParts(b blocks) ([]model.Part, error) {
	var parts []model.Part
	for _, piece := range b {
		img, err := piece.image()
		switch {
		case err != nil:
			return nil, err
		case img != nil:
			parts = append(parts, model.Part{Image: img})
		case piece.Text != "":
			parts = append(parts, model.Part{Text: piece.Text})
		case piece.Refusal != "":
			parts = append(parts, model.Part{Text: piece.Refusal})
		}
	}
	return parts, nil
}

// arguments returns the arguments of a call as JSON, whatever they are.
func arguments(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text)
	return quoted
}
