// Package policy answers one question, purely: may this call run?
package policy

import "stave/internal/machine/tool"

// Modes of a conversation, fixed when it begins.
const (
	ModeAsk  = "ask"
	ModeYolo = "yolo"
)

// Posture is what the gate knows of the conversation a call belongs to.
type Posture struct {
	Mode     string
	ReadOnly bool // an absolute filter: nothing may change anything
	Headless bool // nobody will answer a question
}

const readOnly = "read_only"

// Judge says whether a call runs, waits for a person, or is refused.
func Judge(p Posture, c tool.Call) tool.Verdict {
	switch {
	case c.Safety == readOnly:
		return tool.Verdict{Answer: tool.Allow, By: "rule:reads"}
	case p.ReadOnly:
		return tool.Verdict{Answer: tool.Refuse, By: "rule:read-only", Reason: "this conversation is read-only: nothing may be changed"}
	case p.Mode == ModeYolo:
		return tool.Verdict{Answer: tool.Allow, By: "rule:yolo"}
	case p.Headless:
		return tool.Verdict{Answer: tool.Refuse, By: HeadlessRule, Reason: "this call needs a person's permission and nobody is there to give it"}
	default:
		return tool.Verdict{Answer: tool.Ask, Reason: c.Tool + " can change things outside the conversation"}
	}
}

// HeadlessRule names the refusals that come of nobody being there.
const HeadlessRule = "rule:headless"
