// Package policy answers one question, purely: may this call run?
package policy

import "stave/internal/machine/tool"

// Modes of a conversation, fixed when it begins. A mode is the answer when no
// rule speaks: ask a person, refuse, or go ahead. Reading is allowed in each.
const (
	ModeAsk       = "ask"
	ModeAllowlist = "allowlist"
	ModeYolo      = "yolo"
)

// Posture is what the gate knows of the conversation a call belongs to.
type Posture struct {
	Mode       string
	ReadOnly   bool // an absolute filter: nothing may change anything
	Headless   bool // nobody will answer a question
	Dir        string
	Rules      Rules
	Remembered []Memory
	Taint      Taint
}

// Taint is what a conversation has seen so far. It only grows.
type Taint struct {
	Private   bool `json:"private,omitzero"`   // the user's own data
	Untrusted bool `json:"untrusted,omitzero"` // text that others wrote
}

// After returns the taint once a call with these traits has run.
func (t Taint) After(traits []string) Taint {
	for _, trait := range traits {
		t.Private = t.Private || trait == tool.Private
		t.Untrusted = t.Untrusted || trait == tool.Untrusted
	}
	return t
}

// Names of the rules that are built in. No file may use them.
const (
	readsRule       = "rule:reads"
	readOnlyRule    = "rule:read-only"
	yoloRule        = "rule:yolo"
	allowlistRule   = "rule:allowlist"
	rememberedRule  = "rule:remembered"
	guardRule       = "rule:guard"
	taintRule       = "rule:taint"
	destructiveRule = "rule:destructive"
)

// HeadlessRule names the refusals that come of nobody being there.
const HeadlessRule = "rule:headless"

const readOnly = "read_only"

// Judge says whether a call runs, waits for a person, or is refused.
func Judge(p Posture, c tool.Call) tool.Verdict {
	steps := Explain(p, c)
	return steps[len(steps)-1].Then
}
