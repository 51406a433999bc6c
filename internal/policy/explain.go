package policy

import (
	"fmt"
	"slices"

	"stave/internal/machine/tool"
)

// Step is one station of the gate: what it said and what held after it.
type Step struct {
	Name string       `json:"name"`
	Said tool.Verdict `json:"said"` // an empty answer: it had nothing to say, perhaps for a reason
	Then tool.Verdict `json:"then"`
}

// gate is one call on its way.
type gate struct {
	Posture
	subject
	verdict tool.Verdict
	// explicit says that a rule or a person named this very call or tool.
	explicit bool
}

// stations is the order of the gate. A stage's envelope comes before the mode:
// what it answers, neither the mode nor a memory is asked. Everything after the
// memory can only tighten, and in a stage the rules can as well.
var stations = []struct {
	name string
	says func(*gate) tool.Verdict
}{
	{"read-only", (*gate).filter},
	{"stage", (*gate).stage},
	{"mode", (*gate).mode},
	{"rules", (*gate).rules},
	{"remembered", (*gate).memory},
	{"guards", (*gate).guards},
	{"taint", (*gate).taint},
	{"destructive", (*gate).destructive},
	{"protected", (*gate).protected},
	{"repeats", (*gate).repeats},
	{"headless", (*gate).headless},
}

// Explain leads a call through the gate and tells every step of it. The last
// step holds the verdict. A refusal is final: later steps have nothing to say.
func Explain(p Posture, c tool.Call) []Step {
	g := gate{Posture: p, subject: subjectOf(p.Dir, c, p.Rules)}
	steps := make([]Step, 0, len(stations))
	for _, station := range stations {
		var said tool.Verdict
		if g.verdict.Answer != tool.Refuse || station.name == "rules" && g.verdict.By == allowlistRule {
			said = station.says(&g)
		}
		if said.Answer != "" {
			g.verdict = said
		}
		steps = append(steps, Step{station.name, said, g.verdict})
	}
	return steps
}

// filter is absolute: no rule and no person lifts it.
func (g *gate) filter() tool.Verdict {
	if g.ReadOnly && g.call.Safety != readOnly {
		return tool.Verdict{Answer: tool.Refuse, By: readOnlyRule, Reason: "this conversation is read-only: nothing may be changed"}
	}
	return tool.Verdict{}
}

// stage lets its own tools run and wants a person's grant for any other.
func (g *gate) stage() tool.Verdict {
	switch {
	case g.Stage == nil:
		return tool.Verdict{}
	case g.Stage.Allows(g.call.Tool):
		return tool.Verdict{Answer: tool.Allow, By: stageRule + g.Stage.Stage}
	}
	return tool.Verdict{Answer: tool.Ask, Reason: g.call.Tool + " is not among the tools of stage " + g.Stage.Stage, Grant: g.Stage.Grant}
}

// mode does not go ahead with what sends something out of a read-only
// conversation: it changes nothing, but it is not what such a person expects.
func (g *gate) mode() tool.Verdict {
	switch {
	case g.Stage != nil:
		return tool.Verdict{}
	case g.call.Safety == readOnly && !g.has(tool.External):
		return tool.Verdict{Answer: tool.Allow, By: readsRule}
	case g.Mode == ModeYolo && !g.ReadOnly:
		return tool.Verdict{Answer: tool.Allow, By: yoloRule}
	case g.Mode == ModeAllowlist:
		return tool.Verdict{Answer: tool.Refuse, By: allowlistRule, Reason: "no rule allows this call, and this conversation runs only what a rule allows"}
	default:
		return tool.Verdict{Answer: tool.Ask, Reason: g.ordinary()}
	}
}

// ordinary is why a call is asked about that has nothing special to it.
func (g *gate) ordinary() string {
	if g.call.Safety == readOnly {
		return g.call.Tool + " sends what it asks for out of the conversation"
	}
	return g.call.Tool + " can change things outside the conversation"
}

func (g *gate) has(trait string) bool { return slices.Contains(g.call.Traits, trait) }

// rules lets an allow rule answer in place of the mode. An ask rule never turns a
// refusal into a question, so that more rules of that kind never allow more.
func (g *gate) rules() tool.Verdict {
	if len(g.Rules) == 0 {
		return tool.Verdict{}
	}
	f := g.Rules.judge(g.subject)
	g.explicit = f.exact
	switch {
	case f.verdict.Answer == tool.Ask && g.verdict.Answer == tool.Refuse:
		return tool.Verdict{}
	case g.Stage != nil && f.verdict.Answer == tool.Allow:
		return tool.Verdict{} // no rule widens a stage
	case g.Stage != nil && f.verdict.Answer == tool.Ask:
		return g.ask(f.verdict.Reason)
	}
	return f.verdict
}

// memory answers a question that a person has answered before.
func (g *gate) memory() tool.Verdict {
	if g.verdict.Answer != tool.Ask || !g.Stage.Allows(g.call.Tool) {
		return tool.Verdict{} // a grant is never remembered
	}
	for _, m := range g.Remembered {
		if m.covers(g.call) {
			g.explicit = true // no memory of a whole tool covers a destructive call
			return tool.Verdict{Answer: tool.Allow, By: rememberedRule}
		}
	}
	return tool.Verdict{}
}

// guards hears what the guard hooks said. An answer nobody knows is a refusal.
func (g *gate) guards() tool.Verdict {
	var said tool.Verdict
	for _, v := range g.call.Guards {
		switch v.Answer {
		case tool.Allow:
		case tool.Ask:
			said = g.ask(or(v.Reason, or(v.By, "a guard")+" wants a person to decide"))
		default:
			return tool.Verdict{Answer: tool.Refuse, By: or(v.By, guardRule), Reason: or(v.Reason, "a guard refused it")}
		}
	}
	return said
}

// taint keeps private data in when strangers' words may be steering: then
// whatever can send data out needs a person, in every mode. A call that reads
// private data and sends in one go counts as well.
func (g *gate) taint() tool.Verdict {
	private := g.Taint.Private || g.has(tool.Private)
	if !g.Taint.Untrusted || !private || !g.has(tool.External) {
		return tool.Verdict{}
	}
	return g.ask("it can send data out, and this conversation has read private data and text that others wrote (" + taintRule + ")")
}

// destructive wants a person for what cannot be undone, also in yolo, unless a
// rule or a person named exactly this.
func (g *gate) destructive() tool.Verdict {
	if g.explicit || !g.has(tool.Destructive) {
		return tool.Verdict{}
	}
	return g.ask("what it does cannot be undone (" + destructiveRule + ")")
}

// protected wants a person for what makes other programs run something later. No
// rule speaks for it: who wrote one for files did not think of these.
func (g *gate) protected() tool.Verdict {
	if !g.has(tool.Protected) || slices.ContainsFunc(g.Remembered, func(m Memory) bool { return m.names(g.call) }) {
		return tool.Verdict{}
	}
	return g.ask("it changes files that make other programs run something later, outside every wall (" + protectedRule + ")")
}

// repeats wants a person when the model goes round in circles, also by reading.
func (g *gate) repeats() tool.Verdict {
	if g.Repeats < maxRepeats {
		return tool.Verdict{}
	}
	return g.ask(fmt.Sprintf("this very call was made %d times in a row (%s)", g.Repeats, repeatsRule))
}

// headless turns every question into a refusal: nobody will answer it.
func (g *gate) headless() tool.Verdict {
	if !g.Headless || g.verdict.Answer != tool.Ask {
		return tool.Verdict{}
	}
	reason := "this call needs a person's permission and nobody is there to give it"
	if g.verdict.Reason != g.ordinary() {
		reason += ": " + g.verdict.Reason
	}
	return tool.Verdict{Answer: tool.Refuse, By: HeadlessRule, Reason: reason}
}

// ask adds a reason to a question that stands, or asks one.
func (g *gate) ask(reason string) tool.Verdict {
	if g.verdict.Answer == tool.Ask {
		reason = g.verdict.Reason + "; " + reason
	}
	g.verdict = tool.Verdict{Answer: tool.Ask, Reason: reason, Grant: g.verdict.Grant}
	return g.verdict
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
