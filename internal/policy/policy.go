// Package policy answers one question, purely: may this call run?
package policy

import "stave/internal/machine/tool"

// Modes of a conversation, fixed when it begins. A mode is the answer when no
// rule speaks: ask a person, refuse, or go ahead. Reading what is here is allowed
// in each; what reads from elsewhere tells others something, and is no mere read.
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
	Repeats    int // how often this very call was made in a row in its turn, this time included
	// Stage is the envelope of the stage the call is made in, nil outside of stages.
	Stage *Envelope
}

// Envelope is what a stage lets its agent do without a question. It answers in
// place of the mode: what is inside runs, what is not needs a person's grant, in
// every mode.
type Envelope struct {
	tool.Grant
	Allowed func(tool string) bool
}

// Allows reports whether a tool is inside; all are where there is no stage.
func (e *Envelope) Allows(tool string) bool { return e == nil || e.Allowed(tool) }

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
	protectedRule   = "rule:protected"
	repeatsRule     = "rule:repeats"
	stageRule       = "stage:" // and its name
)

// HeadlessRule names the refusals that come of nobody being there.
const HeadlessRule = "rule:headless"

const readOnly = "read_only"

// maxRepeats is how often the same call is made before a person is asked whether
// this leads anywhere.
const maxRepeats = 5

// Judge says whether a call runs, waits for a person, or is refused.
func Judge(p Posture, c tool.Call) tool.Verdict {
	steps := Explain(p, c)
	return steps[len(steps)-1].Then
}
