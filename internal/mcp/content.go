package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stave/internal/toolbox"
)

// maxAttachments is how many pictures and files of one result are kept.
const maxAttachments = 16

// attachment is a part of a result that is not text, kept as a blob.
type attachment struct {
	Kind     string `json:"kind"`
	MIMEType string `json:"mime_type"`
	Bytes    int    `json:"bytes"`
	SHA256   string `json:"sha256"`
	URI      string `json:"uri,omitempty"`
}

// output makes of a result what a model can read: all text, and a line for each
// thing that is kept elsewhere or left out.
func (s *session) output(ctx context.Context, env toolbox.Env, r *sdk.CallToolResult) (toolbox.Output, error) {
	if r.NeedsInput() {
		return toolbox.Output{}, errNeedsInput
	}
	var parts []string
	var kept []attachment
	for _, c := range r.Content {
		a, data := binary(c)
		if data == nil {
			parts = append(parts, describeContent(c))
			continue
		}
		if len(kept) == maxAttachments {
			parts = append(parts, fmt.Sprintf("[%s left out: a result may have %d]", a.Kind, maxAttachments))
			continue
		}
		sum, err := env.PutBlob(ctx, bytes.NewReader(data))
		if err != nil {
			parts = append(parts, fmt.Sprintf("[%s of %d bytes could not be kept]", a.Kind, len(data)))
			continue
		}
		a.SHA256, a.Bytes = sum, len(data)
		kept = append(kept, a)
		parts = append(parts, fmt.Sprintf("[%s %s, %d bytes, kept as %s]", a.Kind, a.MIMEType, a.Bytes, sum))
	}
	out := toolbox.Output{Meta: make(map[string]any)}
	structured := s.structured(r, &out)
	if len(parts) == 0 && structured != "" {
		parts = append(parts, structured)
	}
	whole := s.redact.text(strings.ToValidUTF8(strings.Join(parts, "\n"), "\uFFFD"))
	out.Text = cutText(whole, s.limits.ResultBytes)
	if len(out.Text) != len(whole) {
		sum, err := env.PutBlob(ctx, strings.NewReader(whole))
		if err != nil {
			return toolbox.Output{}, fmt.Errorf("keeping the whole result: %w", err)
		}
		out.Blob = sum
	}
	if len(kept) > 0 {
		out.Meta["attachments"] = kept
	}
	if r.IsError {
		if out.Text == "" {
			out.Text = "the tool failed and gave no reason"
		}
		return out, errors.New(cutText(out.Text, 4<<10))
	}
	return out, nil
}

// structured keeps structured content where it is small, and gives its text.
func (s *session) structured(r *sdk.CallToolResult, out *toolbox.Output) string {
	if r.StructuredContent == nil {
		return ""
	}
	text, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return ""
	}
	if len(text) <= maxMetaBytes {
		out.Meta["structured"] = json.RawMessage(s.redact.text(string(text)))
	}
	return string(text)
}

// binary gives the bytes of content that is not text.
func binary(c sdk.Content) (attachment, []byte) {
	switch c := c.(type) {
	case *sdk.ImageContent:
		return attachment{Kind: "image", MIMEType: cleanLine(c.MIMEType, 100)}, c.Data
	case *sdk.AudioContent:
		return attachment{Kind: "audio", MIMEType: cleanLine(c.MIMEType, 100)}, c.Data
	case *sdk.EmbeddedResource:
		if c.Resource != nil && len(c.Resource.Blob) > 0 {
			return attachment{Kind: "resource", MIMEType: cleanLine(c.Resource.MIMEType, 100), URI: cleanLine(c.Resource.URI, maxURI)}, c.Resource.Blob
		}
	}
	return attachment{}, nil
}

// describeContent is content as text, or what it is where it has none.
func describeContent(c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return fmt.Sprintf("[image %s, %d bytes]", cleanLine(c.MIMEType, 100), len(c.Data))
	case *sdk.AudioContent:
		return fmt.Sprintf("[audio %s, %d bytes]", cleanLine(c.MIMEType, 100), len(c.Data))
	case *sdk.ResourceLink:
		return fmt.Sprintf("[resource %s %s: %s]", cleanLine(c.URI, maxURI), cleanLine(c.Name, 200), cleanLine(c.Description, 500))
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return "[an empty resource]"
		}
		if len(c.Resource.Blob) > 0 {
			return fmt.Sprintf("[resource %s, %d bytes]", cleanLine(c.Resource.URI, maxURI), len(c.Resource.Blob))
		}
		return fmt.Sprintf("[resource %s]\n%s", cleanLine(c.Resource.URI, maxURI), c.Resource.Text)
	}
	return "[content of a kind that is not known here]"
}

func (s *session) shorten(text string) string { return clean(s.redact.text(text), 2000) }

const cutNote = "\n[cut: the rest is left out here]"

// cutText keeps the beginning of a text, in whole characters.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := max(0, most-len(cutNote))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cutNote
}
