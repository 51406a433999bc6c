package mcp

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Prompt is a template a server offers. Only a person may ask for one: what it
// gives back is untrusted content.
type Prompt struct {
	Server      string           `json:"server"`
	Name        string           `json:"name"`
	Title       string           `json:"title,omitzero"`
	Description string           `json:"description,omitzero"`
	Arguments   []PromptArgument `json:"arguments,omitzero"`
}

// PromptArgument is one value a prompt wants.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Required    bool   `json:"required,omitzero"`
}

// PromptText is a prompt that was filled in.
type PromptText struct {
	Description string          `json:"description,omitzero"`
	Messages    []PromptMessage `json:"messages"`
}

// PromptMessage is one message of a prompt, as text.
type PromptMessage struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// Resource is something a server lets us read. A template has a URI with places
// to fill in.
type Resource struct {
	Server      string `json:"server"`
	URI         string `json:"uri"`
	Name        string `json:"name,omitzero"`
	Description string `json:"description,omitzero"`
	MIMEType    string `json:"mime_type,omitzero"`
	Template    bool   `json:"template,omitzero"`
}

// ResourceContent is a part of a resource: text or bytes.
type ResourceContent struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mime_type,omitzero"`
	Text     string `json:"text,omitzero"`
	Bytes    []byte `json:"bytes,omitzero"`
}

const (
	maxPromptArguments = 64
	maxURI             = 4096
)

func (s *session) readPrompts(ctx context.Context, server string, l *lists) error {
	found, cut, err := pages(ctx, s.limits.Prompts, func(ctx context.Context, cursor string) ([]*sdk.Prompt, string, error) {
		r, err := s.wire.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Prompts, r.NextCursor, nil
	})
	if err != nil {
		return err
	}
	l.cut(cut, "prompts", s.limits.Prompts)
	for _, p := range found {
		if p.Name != cleanLine(p.Name, maxToolName) || len(p.Arguments) > maxPromptArguments {
			l.notes = append(l.notes, fmt.Sprintf("prompt %q is left out: its name or its arguments are out of bounds", cleanLine(p.Name, maxToolName)))
			continue
		}
		out := Prompt{Server: server, Name: p.Name, Title: cleanLine(p.Title, 200), Description: clean(p.Description, s.limits.DescriptionRunes)}
		for _, a := range p.Arguments {
			if a != nil {
				out.Arguments = append(out.Arguments, PromptArgument{Name: a.Name, Description: clean(a.Description, s.limits.DescriptionRunes), Required: a.Required})
			}
		}
		l.prompts = append(l.prompts, out)
	}
	return nil
}

func (s *session) readResources(ctx context.Context, server string, l *lists) error {
	found, cut, err := pages(ctx, s.limits.Resources, func(ctx context.Context, cursor string) ([]*sdk.Resource, string, error) {
		r, err := s.wire.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Resources, r.NextCursor, nil
	})
	if err != nil {
		return err
	}
	l.cut(cut, "resources", s.limits.Resources)
	for _, r := range found {
		l.addResource(Resource{Server: server, URI: r.URI, Name: r.Name, Description: r.Description, MIMEType: r.MIMEType}, s.limits)
	}
	room := s.limits.Resources - len(l.resources)
	templates, cut, err := pages(ctx, room, func(ctx context.Context, cursor string) ([]*sdk.ResourceTemplate, string, error) {
		r, err := s.wire.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.ResourceTemplates, r.NextCursor, nil
	})
	if err != nil {
		return err
	}
	l.cut(cut, "resources", s.limits.Resources)
	for _, t := range templates {
		l.addResource(Resource{Server: server, URI: t.URITemplate, Name: t.Name, Description: t.Description, MIMEType: t.MIMEType, Template: true}, s.limits)
	}
	return nil
}

// addResource leaves out an address that would not look like what it is.
func (l *lists) addResource(r Resource, limits Limits) {
	if r.URI != cleanLine(r.URI, maxURI) {
		l.notes = append(l.notes, fmt.Sprintf("resource %q is left out: its address is too long or holds hidden characters", cleanLine(r.URI, 100)))
		return
	}
	r.Name = cleanLine(r.Name, 200)
	r.Description = clean(r.Description, limits.DescriptionRunes)
	r.MIMEType = cleanLine(r.MIMEType, 100)
	l.resources = append(l.resources, r)
}

// Prompts gives the prompts of all servers.
func (h *Hub) Prompts() []Prompt {
	var all []Prompt
	for _, s := range h.sorted() {
		s.mu.Lock()
		all = append(all, s.lists.prompts...)
		s.mu.Unlock()
	}
	return all
}

// Resources gives the resources of all servers.
func (h *Hub) Resources() []Resource {
	var all []Resource
	for _, s := range h.sorted() {
		s.mu.Lock()
		all = append(all, s.lists.resources...)
		s.mu.Unlock()
	}
	return all
}

// GetPrompt fills in a prompt. What is not text is described in its place.
func (h *Hub) GetPrompt(ctx context.Context, server, name string, args map[string]string) (PromptText, error) {
	var out PromptText
	err := h.ask(ctx, server, "getting prompt "+cleanLine(name, maxToolName), func(ctx context.Context, s *session) error {
		r, err := s.wire.GetPrompt(ctx, &sdk.GetPromptParams{Name: name, Arguments: args})
		if err != nil {
			return err
		}
		if r.NeedsInput() {
			return errNeedsInput
		}
		out.Description = clean(r.Description, s.limits.DescriptionRunes)
		room := s.limits.ResultBytes
		for _, m := range r.Messages {
			if m == nil || room <= 0 {
				continue
			}
			text := cutText(describeContent(m.Content), room)
			room -= len(text)
			out.Messages = append(out.Messages, PromptMessage{Role: cleanLine(string(m.Role), 20), Text: text})
		}
		return nil
	})
	return out, err
}

// ReadResource reads a resource. Its size is bounded like that of any message.
func (h *Hub) ReadResource(ctx context.Context, server, uri string) ([]ResourceContent, error) {
	var out []ResourceContent
	err := h.ask(ctx, server, "reading "+cleanLine(uri, 200), func(ctx context.Context, s *session) error {
		r, err := s.wire.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		if err != nil {
			return err
		}
		if r.NeedsInput() {
			return errNeedsInput
		}
		for _, c := range r.Contents {
			if c != nil {
				out = append(out, ResourceContent{URI: cleanLine(c.URI, maxURI), MIMEType: cleanLine(c.MIMEType, 100), Text: c.Text, Bytes: c.Blob})
			}
		}
		return nil
	})
	return out, err
}

// ask puts a question that changes nothing to a server.
func (h *Hub) ask(ctx context.Context, name, doing string, question func(context.Context, *session) error) error {
	s, err := h.server(name)
	if err != nil {
		return err
	}
	live, err := s.live()
	if err != nil {
		return err
	}
	ctx, stop := live.bound(ctx, s.timeLimit())
	defer stop()
	if err := question(ctx, live); err != nil {
		return fmt.Errorf("%s from MCP server %s: %s", doing, name, live.short(err))
	}
	return nil
}

// timeLimit is how long one call may take.
func (s *server) timeLimit() time.Duration {
	if s.config.TimeoutSeconds > 0 {
		return time.Duration(s.config.TimeoutSeconds) * time.Second
	}
	return s.opt.Limits.Call
}

// bound is a context that ends with the call, its time limit or the session.
func (s *session) bound(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(ctx, limit)
	unhook := context.AfterFunc(s.ctx, stop)
	return ctx, func() {
		unhook()
		stop()
	}
}
