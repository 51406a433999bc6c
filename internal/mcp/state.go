package mcp

import (
	"encoding/json"
	"slices"
	"strings"
)

// Status says how it stands with a server or a tool.
type Status string

// What a server or tool can be.
const (
	Disabled      Status = "disabled"       // switched off in the configuration
	Connecting    Status = "connecting"     // being started for the first time
	Connected     Status = "connected"      // a server that can be used
	Failed        Status = "failed"         // it is tried again by itself; Why says what happened
	NeedsApproval Status = "needs_approval" // a person has not approved it as it is now
	NeedsSignIn   Status = "needs_sign_in"  // a person must sign in
	Available     Status = "approved"       // a tool that models may be offered
	Refused       Status = "refused"        // a tool that can never be offered; Why says the reason
)

// Review is what a person is asked to approve: how it was when it was approved
// last, nil if never, and how it is now.
type Review struct {
	Digest string          `json:"digest"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// ServerState describes one server to people. All text in it that comes from the
// server is cleaned and must still be treated as a stranger's word.
type ServerState struct {
	Name         string      `json:"name"`
	Status       Status      `json:"status"`
	Why          string      `json:"why,omitempty"`
	Review       *Review     `json:"review,omitempty"` // set if the server itself needs approval
	Walls        string      `json:"walls,omitempty"`  // around the program of the server
	Title        string      `json:"title,omitempty"`
	Version      string      `json:"version,omitempty"`
	Protocol     string      `json:"protocol,omitempty"`
	Instructions string      `json:"instructions,omitempty"`
	Tools        []ToolState `json:"tools,omitempty"`
	Prompts      int         `json:"prompts,omitempty"`
	Resources    int         `json:"resources,omitempty"`
	Notes        []string    `json:"notes,omitempty"` // what was left out, and why
}

// ToolState describes one tool to people.
type ToolState struct {
	Name   string  `json:"name"` // as models know it
	Tool   string  `json:"tool"` // as the server knows it
	Status Status  `json:"status"`
	Why    string  `json:"why,omitempty"`
	About  string  `json:"about,omitempty"`
	Review *Review `json:"review,omitempty"` // set if it needs approval
}

func (s *server) state() ServerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := ServerState{
		Name: s.name, Status: s.status, Why: s.why, Review: s.review,
		Prompts: len(s.lists.prompts), Resources: len(s.lists.resources), Notes: slices.Clone(s.lists.notes),
		Title: s.lists.title, Version: s.lists.version, Protocol: s.lists.protocol, Instructions: s.lists.instructions,
	}
	if s.opt.Walls != nil && s.config.Command != "" {
		out.Walls = s.opt.Walls(s.name, s.config)
	}
	for _, d := range s.lists.tools {
		out.Tools = append(out.Tools, s.toolState(d))
	}
	slices.SortFunc(out.Tools, func(a, b ToolState) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// toolState needs the lock.
func (s *server) toolState(d definition) ToolState {
	out := ToolState{Name: d.name, Tool: d.tool, About: d.doc, Status: Available}
	approved, known := s.pin.Tools[d.tool]
	switch {
	case d.refusal != "":
		out.Status, out.Why = Refused, d.refusal
	case !known:
		out.Status, out.Why = NeedsApproval, "nobody has approved it yet"
		out.Review = &Review{Digest: d.digest, After: d.text}
	case approved.Digest != d.digest:
		out.Status, out.Why = NeedsApproval, "its definition changed after it was approved"
		out.Review = &Review{Digest: d.digest, Before: approved.Text, After: d.text}
	}
	return out
}
