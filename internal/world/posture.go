package world

import (
	"bytes"
	"strings"

	"stave/internal/machine/agent"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/policy"
)

// posture is what the gate knows of this conversation.
func (w *World) posture() policy.Posture {
	s := w.Session()
	p := policy.Posture{
		Mode: s.Config.Mode, ReadOnly: s.Config.ReadOnly, Headless: s.Headless, Dir: s.Config.Dir,
		Rules: w.rules(s.Config.Rules), Taint: policy.Taint{Private: s.Taint.Private, Untrusted: s.Taint.Untrusted},
	}
	for _, r := range s.Remembered {
		p.Remembered = append(p.Remembered, policy.Memory{Tool: r.Tool, Scope: r.Scope, Digest: r.Digest})
	}
	return p
}

// rules returns the frozen rules of the conversation, read once. Where they cannot
// be read, what comes back asks about every call.
func (w *World) rules(frozen []byte) policy.Rules {
	for w.base != nil {
		w = w.base
	}
	if len(frozen) > 0 && !bytes.Equal(w.frozen, frozen) {
		w.frozen = frozen
		w.thawed, _ = policy.ParseSnapshot(frozen)
	}
	if len(frozen) == 0 {
		return nil
	}
	return w.thawed
}

// verdict is the gate's answer to a call.
func (w *World) verdict(at Path, c tool.Call, repeats int) tool.Verdict {
	envelope := w.envelope(AgentOf(at))
	if c.Safety != tool.Question || !envelope.Allows(c.Tool) {
		p := w.posture()
		p.Repeats, p.Stage = repeats, envelope
		return policy.Judge(p, c)
	}
	if w.Session().Headless {
		return tool.Verdict{Answer: tool.Refuse, By: policy.HeadlessRule, Reason: "nobody is there to answer"}
	}
	return tool.Verdict{Answer: tool.Ask, Reason: "the agent asks"}
}

// Explain tells how the gate comes to its answer to a call at a path.
func (w *World) Explain(at Path, c tool.Call) []policy.Step {
	p := w.posture()
	p.Stage = w.envelope(AgentOf(at))
	return policy.Explain(p, c)
}

// Who is the agent that makes a model call.
type Who struct {
	ID     string
	Model  string
	System string
	Tools  []string // nil for all
	Depth  int
	Stage  Path // that it works for, "" for none
}

// Agent returns who works at a path.
func (w *World) Agent(at Path) Who {
	cfg := w.Session().Config
	d := data[agent.Data](w, AgentOf(at))
	who := Who{ID: d.AgentID, Model: cfg.Model, System: cfg.System, Tools: d.Tools, Depth: d.Depth}
	if d.ParentID == "" {
		return who
	}
	if d.Model != "" {
		who.Model = d.Model
	}
	if d.Stage != "" {
		s := data[stage.Data](w, Path(d.Stage))
		who.Stage, who.System = Path(d.Stage), s.Prompt
		return who
	}
	who.System = strings.TrimSpace(cfg.System + "\n\n" + helperNote)
	return who
}

const helperNote = "You work for another agent, which gave you the task below and sees only your final answer. " +
	"Do exactly the task; say in the answer what you found or did and what remains unknown."

// AgentState is what an agent that works for another has come to.
type AgentState struct {
	ID      string `json:"id"`
	Alive   bool   `json:"alive"`
	Busy    bool   `json:"busy"` // it works, or has something left to do
	Outcome string `json:"outcome,omitzero"`
	Answer  string `json:"answer,omitzero"`
	Parent  string `json:"parent,omitzero"`
	Stage   bool   `json:"stage,omitzero"` // it works for a stage
}

// AgentState returns what the agent of an id is doing.
func (w *World) AgentState(id string) AgentState {
	p := w.agentPath(id)
	n, ok := w.find(p)
	if !ok {
		return AgentState{ID: id}
	}
	d := data[agent.Data](w, p)
	return AgentState{
		ID: id, Alive: true, Busy: n.State() != "idle" || len(d.Tasks) > 0,
		Outcome: d.Outcome, Answer: d.Answer, Parent: d.ParentID, Stage: d.Stage != "",
	}
}

// Judgement returns what the gate knows and would say of a call now.
func (w *World) Judgement(c tool.Call) (policy.Posture, tool.Verdict) {
	p := w.posture()
	return p, policy.Judge(p, c)
}
