package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// lists is what a server says it offers.
type lists struct {
	title, version, protocol, instructions string

	tools     []definition
	prompts   []Prompt
	resources []Resource
	notes     []string
}

// readLists asks for everything the server says it has.
func (s *session) readLists(ctx context.Context, server string) (lists, error) {
	var l lists
	caps := s.describe(&l)
	if caps.Tools != nil {
		tools, cut, err := pages(ctx, s.limits.Tools, func(ctx context.Context, cursor string) ([]*sdk.Tool, string, error) {
			r, err := s.wire.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return r.Tools, r.NextCursor, nil
		})
		if err != nil {
			return l, fmt.Errorf("listing tools: %w", err)
		}
		l.cut(cut, "tools", s.limits.Tools)
		for _, t := range tools {
			l.tools = append(l.tools, define(server, t, s.limits))
		}
		refuseShadows(l.tools)
	}
	// Prompts and resources are extras: a server whose tools work is of use even
	// if these fail.
	if caps.Prompts != nil {
		if err := s.readPrompts(ctx, server, &l); err != nil {
			l.notes = append(l.notes, "prompts could not be listed: "+s.short(err))
		}
	}
	if caps.Resources != nil {
		if err := s.readResources(ctx, server, &l); err != nil {
			l.notes = append(l.notes, "resources could not be listed: "+s.short(err))
		}
	}
	if broken := s.gate.broken(); broken != nil {
		return l, broken
	}
	return l, ctx.Err()
}

func (s *session) short(err error) string { return cleanLine(s.redact.text(err.Error()), 300) }

func (l *lists) cut(cut bool, what string, most int) {
	if cut {
		l.notes = append(l.notes, fmt.Sprintf("the server has more than %d %s; the rest is left out", most, what))
	}
}

// describe takes what the server says about itself.
func (s *session) describe(l *lists) *sdk.ServerCapabilities {
	hello := s.wire.InitializeResult()
	if hello == nil {
		return &sdk.ServerCapabilities{}
	}
	l.protocol = cleanLine(hello.ProtocolVersion, 40)
	l.instructions = clean(s.redact.text(hello.Instructions), s.limits.DescriptionRunes)
	if info := hello.ServerInfo; info != nil {
		l.version = cleanLine(info.Version, 100)
		if l.title = cleanLine(info.Title, 100); l.title == "" {
			l.title = cleanLine(info.Name, 100)
		}
	}
	if hello.Capabilities == nil {
		return &sdk.ServerCapabilities{}
	}
	return hello.Capabilities
}

// pages reads a list that comes in parts, up to a number of items and of parts.
func pages[T any](ctx context.Context, most int, read func(context.Context, string) ([]*T, string, error)) (all []*T, cut bool, err error) {
	cursor := ""
	for range maxPages {
		part, next, err := read(ctx, cursor)
		if err != nil {
			return nil, false, err
		}
		for _, item := range part {
			if item == nil {
				continue
			}
			if len(all) == most {
				return all, true, nil
			}
			all = append(all, item)
		}
		if next == "" {
			return all, false, nil
		}
		cursor = next
	}
	return all, true, nil
}
