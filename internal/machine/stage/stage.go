package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"stave/internal/machine"
)

// What a phase can come to.
const (
	Proceed = "proceed"
	OK      = "ok"
	Retry   = "retry"
	Skip    = "skip"
	Fail    = "fail"
)

// Data is what a stage execution remembers. All below Attempt is of the present
// attempt.
type Data struct {
	Begun
	Attempt int             `json:"attempt"`
	Context json.RawMessage `json:"context,omitzero"`
	Tools   []string        `json:"tools,omitzero"`
	All     bool            `json:"all,omitzero"`
	Prompt  string          `json:"prompt,omitzero"`
	AgentID string          `json:"agent_id,omitzero"`
	Used    int             `json:"used,omitzero"` // model requests
	Gate    string          `json:"gate,omitzero"` // why it did not act
	CapHit  bool            `json:"cap_hit,omitzero"`
	Error   string          `json:"error,omitzero"` // why its agent could not go on
	Output  json.RawMessage `json:"output,omitzero"`
	Verdict string          `json:"verdict,omitzero"`
	Reason  string          `json:"reason,omitzero"` // of the verdict; while it retries, of the last one
}

// The jobs of the phases. Each may be done again: they change nothing outside.
type (
	// SetUp looks up the tools and fills the context.
	SetUp struct{ Attempt int }
	// Render writes the prompt.
	Render struct{ Attempt int }
	// CheckGate asks the rule whether the stage begins.
	CheckGate struct{ Attempt int }
	// Judge asks the rule what the attempt came to.
	Judge struct{ Attempt int }
	// Wait lets the time pass that lies before an attempt.
	Wait struct{ Attempt int }
)

// Key tells one phase and attempt from the next.
func (j SetUp) Key() string { return fmt.Sprintf("setup.%d", j.Attempt) }

// Key tells one phase and attempt from the next.
func (j Render) Key() string { return fmt.Sprintf("init.%d", j.Attempt) }

// Key tells one phase and attempt from the next.
func (j CheckGate) Key() string { return fmt.Sprintf("gate.%d", j.Attempt) }

// Key tells one phase and attempt from the next.
func (j Judge) Key() string { return fmt.Sprintf("assert.%d", j.Attempt) }

// Key tells one phase and attempt from the next.
func (j Wait) Key() string { return fmt.Sprintf("wait.%d", j.Attempt) }

func due(s machine.State, d Data) any {
	switch s {
	case setup:
		return SetUp{d.Attempt}
	case initial:
		return Render{d.Attempt}
	case gate:
		return CheckGate{d.Attempt}
	case asserting:
		return Judge{d.Attempt}
	default:
		return Wait{d.Attempt}
	}
}

// Left is how many model requests the present attempt has.
func (d Data) Left() int { return d.TurnCap - d.Used }

// Allows reports whether a tool is in the envelope. The stage alone decides: who
// asks for anything else needs a grant.
func (d Data) Allows(tool string) bool {
	return tool == d.Completion || d.All || slices.Contains(d.Tools, tool)
}

// Result is what others learn of the stage as it stands.
func (d Data) Result() Result {
	return Result{d.Stage, d.Verdict, d.Attempt, d.Visit, d.Used, d.CapHit, d.Output}
}

// AgentPrefix begins the names of all agents that work for a stage.
const AgentPrefix = "stg_"

// AgentID names the agent of an attempt. Names of stages and runs have no
// character in them that a path could be cut at.
func AgentID(execution string, attempt int) string {
	return fmt.Sprintf("%s%s_%d", AgentPrefix, strings.ReplaceAll(execution, ".", "_"), attempt)
}

func decide(s machine.State, d Data, c machine.Command) ([]machine.Event, error) {
	switch c := c.(type) {
	case Begin:
		return one(c.Begun)
	case Prepare:
		return one(c.whole())
	case Initialize:
		return one(Initialized(c))
	case Gate:
		if c.Verdict == Proceed {
			return one(ActStarted{AgentID(d.ExecutionID, d.Attempt), d.Attempt})
		}
		return one(GateChecked(c))
	case Submit:
		if d.Output != nil {
			return nil, nil // two in one answer: the first counts
		}
		return one(CompletionAccepted(c))
	case Reject:
		return one(CompletionRejected(c))
	case EndTurn:
		return d.endTurn(c)
	case AgentGone:
		if s == stopping {
			return d.cancelled(d.Reason)
		}
		return one(ActEnded{Error: c.Reason})
	case Assert:
		return d.assert(c)
	case Again:
		return one(Reentered{d.Attempt})
	case Exit:
		if d.Verdict == Fail {
			return d.failed(exiting, d.Reason)
		}
		return one(Exited{d.ExecutionID, d.Result()})
	case Break:
		return d.failed(s, c.Error)
	case Cancel:
		if s == acting {
			return one(Stopping(c))
		}
		return d.cancelled(c.Reason)
	}
	return nil, fmt.Errorf("no rule for %T", c)
}

// whole has no part that reads back as another: nothing is an empty list.
func (p Prepared) whole() Prepared {
	if p.Context == nil {
		p.Context = json.RawMessage("{}")
	}
	if p.Tools == nil {
		p.Tools = []string{}
	}
	return p
}

// endTurn decides whether Act is over: the result is there, the cap is reached,
// or the agent cannot go on. A model that merely stopped is reminded.
func (d Data) endTurn(c EndTurn) ([]machine.Event, error) {
	left := d.Left() - c.Requests
	switch {
	case d.Output != nil:
		return one(ActEnded{Requests: c.Requests})
	case left <= 0:
		return one(ActEnded{Requests: c.Requests, CapHit: true})
	case c.Cut:
		return one(TurnTaken{c.Requests})
	case c.Outcome == "completed":
		return one(Reminded{c.Requests, left})
	}
	return one(ActEnded{Requests: c.Requests, Error: c.Outcome + ": " + c.Reason})
}

func (d Data) assert(c Assert) ([]machine.Event, error) {
	reason := c.Reason
	if reason == "" {
		reason = d.outcome()
	}
	switch {
	case c.Verdict == Fail:
		return one(Asserted{Fail, reason})
	case c.Verdict != Retry:
		return one(Asserted(c))
	case d.Attempt < d.MaxAttempts:
		return one(Retried{d.Attempt + 1, reason})
	}
	return one(Asserted{Fail, fmt.Sprintf("%s (attempt %d of %d)", reason, d.Attempt, d.MaxAttempts)})
}

// outcome says why an attempt is not good enough, where no rule does.
func (d Data) outcome() string {
	switch {
	case d.Error != "":
		return d.Error
	case d.CapHit:
		return fmt.Sprintf("its %d turns were used up", d.TurnCap)
	case d.Gate != "":
		return "its gate did not open"
	}
	return "its assertion does not hold"
}

func (d Data) failed(phase machine.State, why string) ([]machine.Event, error) {
	d.Verdict = Fail
	switch {
	case phase == exiting && d.Error != "":
		phase = acting
	case phase == exiting:
		phase = asserting
	}
	return one(Failed{d.ExecutionID, string(phase), why, d.Result()})
}

func (d Data) cancelled(reason string) ([]machine.Event, error) {
	d.Verdict = Fail
	return one(Cancelled{d.ExecutionID, reason, d.Result()})
}

func one(e machine.Event) ([]machine.Event, error) { return []machine.Event{e}, nil }

func evolve(d Data, _ machine.Arrow, e machine.Event) (Data, error) {
	switch e := e.(type) {
	case Begun:
		if e.ExecutionID == "" || e.Stage == "" || e.Completion == "" || e.TurnCap < 1 || e.MaxAttempts < 1 {
			return d, errors.New("a stage needs an id, a name, a completion tool, a turn cap and an attempt")
		}
		d.Begun, d.Attempt = e, 1
	case Prepared:
		d.Context, d.Tools, d.All = e.Context, e.Tools, e.All
	case Initialized:
		d.Prompt = e.Prompt
	case GateChecked:
		if e.Verdict != Skip && e.Verdict != Retry {
			return d, fmt.Errorf("a gate says proceed, skip or retry, not %q", e.Verdict)
		}
		d.Gate = e.Verdict
	case ActStarted:
		if e.Attempt != d.Attempt || e.AgentID == "" {
			return d, fmt.Errorf("attempt %d begins while attempt %d is under way", e.Attempt, d.Attempt)
		}
		d.AgentID = e.AgentID
	case CompletionAccepted:
		if d.Output != nil || len(e.Payload) == 0 {
			return d, errors.New("an attempt has one result")
		}
		d.Output = e.Payload
	case TurnTaken:
		return d.use(e.Requests)
	case Reminded:
		return d.use(e.Requests)
	case ActEnded:
		d.CapHit, d.Error = e.CapHit, e.Error
		return d.use(e.Requests)
	case Asserted:
		if e.Verdict != OK && e.Verdict != Skip && e.Verdict != Fail {
			return d, fmt.Errorf("an attempt comes to ok, skip or fail, not to %q", e.Verdict)
		}
		d.Verdict, d.Reason = e.Verdict, e.Reason
	case Retried:
		if e.Next != d.Attempt+1 || e.Next > d.MaxAttempts {
			return d, fmt.Errorf("attempt %d of %d after %d", e.Next, d.MaxAttempts, d.Attempt)
		}
		d = Data{Begun: d.Begun, Attempt: e.Next, Reason: e.Reason}
	case Stopping:
		d.Reason = e.Reason
	}
	return d, nil
}

// use counts model requests: an attempt never has more than its cap.
func (d Data) use(requests int) (Data, error) {
	if d.Used += requests; requests < 0 || d.Used > d.TurnCap {
		return d, fmt.Errorf("%d model requests, and %d are allowed", d.Used, d.TurnCap)
	}
	return d, nil
}
