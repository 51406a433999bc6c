package tool

import (
	"encoding/json"
	"errors"
	"fmt"

	"stave/internal/machine"
)

// Answer is what the gate says of a call.
type Answer string

// Answers.
const (
	Allow  Answer = "allow"
	Ask    Answer = "ask"
	Refuse Answer = "deny"
)

// Verdict is the gate's answer with who or which rule gave it, and why.
type Verdict struct {
	Answer Answer `json:"answer"`
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
	Plain  bool   `json:"plain,omitzero"` // a plain shell command: it runs as argv, without a shell
	Grant  Grant  `json:"grant,omitzero"` // of a question that only a grant answers
}

// Grant names the stage attempt whose tools a call is not among. A person may
// grant it that one call: never remembered, and gone with the attempt.
type Grant struct {
	ExecutionID string `json:"stage_execution_id"`
	Stage       string `json:"stage"`
	Attempt     int    `json:"attempt"`
}

// Traits a call may have.
const (
	Private     = "private"     // it reads the user's files
	Untrusted   = "untrusted"   // it brings in content that others wrote
	External    = "external"    // it can send data out
	Destructive = "destructive" // what it does cannot be undone
	Protected   = "protected"   // it changes what makes other programs run something later
)

// Data is what a call remembers.
type Data struct {
	Call    Call            `json:"call"`
	Attempt int             `json:"attempt"`
	Reason  string          `json:"reason,omitzero"` // why a person is asked
	Intent  json.RawMessage `json:"intent,omitzero"`
	Known   string          `json:"known,omitzero"` // about a lost outcome
	Status  Status          `json:"status,omitzero"`
	Plain   bool            `json:"plain,omitzero"`
	Grant   Grant           `json:"grant,omitzero"`
	// Attached counts how often a run outlived our process, and Streamed what
	// people have been shown of its output, in bytes.
	Attached int   `json:"attached,omitzero"`
	Streamed int64 `json:"streamed,omitzero"`
}

// RunTool is the job of an executing call.
type RunTool struct {
	Call    Call
	Attempt int
	Intent  json.RawMessage
	Plain   bool // a plain shell command, allowed by a rule: it runs without a shell
	// Again says that this attempt was begun by a process that died; Streamed is
	// how much of its output people have seen.
	Again    bool
	Streamed int64

	attached int
}

// Key tells one run of the job from the next.
func (j RunTool) Key() string {
	if j.attached == 0 {
		return fmt.Sprint(j.Attempt)
	}
	return fmt.Sprintf("%d.%d", j.Attempt, j.attached)
}

// MayRun asks a person whether a call may run.
type MayRun struct {
	Call   Call
	Reason string
}

// GrantStageTool asks a person to let a stage make one call that is not among its
// tools.
type GrantStageTool struct {
	Grant
	Call   Call
	Reason string
}

// WhatToSay asks a person for words.
type WhatToSay struct{ Call Call }

// WhatHappened asks a person about a lost effect.
type WhatHappened struct {
	Call  Call
	Known string
}

const readOnly, idempotent = "read_only", "idempotent"

// Question is the safety of a call that does nothing but ask a person.
const Question = "question"

// How long an approval is remembered.
const (
	RememberCall = "call" // for the same arguments
	RememberTool = "tool" // for whatever the tool is asked
)

// Harmless reports whether a run changes nothing, however it ends.
func (d Data) Harmless() bool { return d.Call.Safety == readOnly }

// Repeatable reports whether a lost run may simply be done again.
func (d Data) Repeatable() bool { return d.Call.Safety == readOnly || d.Call.Safety == idempotent }

func decide(s machine.State, d Data, c machine.Command) ([]machine.Event, error) {
	events, err := d.answer(s, c)
	for i, e := range events {
		if r, ok := e.(Result); ok && (s == executing || s == outcomeUnknown) {
			r.Tool, r.Arguments, r.Traits = d.Call.Tool, d.Call.Arguments, d.Call.Traits
			events[i] = r
		}
	}
	return events, err
}

func (d Data) answer(s machine.State, c machine.Command) ([]machine.Event, error) {
	switch c := c.(type) {
	case Propose:
		return one(c.Call)
	case Judge:
		return d.judge(c.Verdict)
	case Approve:
		return d.approve(c)
	case Reply:
		return d.reply(c)
	case Deny:
		return d.deny(c.By, c.Reason)
	case Defer:
		if d.Grant == (Grant{}) {
			return nil, errors.New("only a grant can be deferred: approve or deny it")
		}
		return d.deny(c.By, "deferred by "+c.By)
	case Report:
		return one(Progress{d.Call.CallID, c.Stream, c.Chunk, c.Bytes, c.Intent})
	case machine.Lost:
		if d.Repeatable() {
			return d.restart("the process ended while it ran; it is safe to repeat")
		}
		return one(OutcomeUnknown{d.Call.CallID, "the process ended while it ran"})
	case Doubt:
		return one(OutcomeUnknown{d.Call.CallID, c.Known})
	case Reattach:
		return one(Reattached{d.Call.CallID, d.Attached + 1})
	case Retry:
		return d.restart("run again by order of " + c.By)
	}
	return d.end(s, c)
}

// end decides the commands that lead straight to a result.
func (d Data) end(s machine.State, c machine.Command) ([]machine.Event, error) {
	r := Result{CallID: d.Call.CallID}
	switch c := c.(type) {
	case Succeed:
		r.Status, r.Output = Success, c.Output
	case Fail:
		r.Status, r.Error, r.Output = Error, c.Error, c.Output
	case Crash:
		r.Status, r.Error, r.Crashed = Error, c.Error, true
	case Expire:
		r.Status, r.Error, r.Output = Timeout, "time limit reached", c.Output
	case Happened:
		r.Status, r.Text = Success, c.Output
		r.Error = "outcome stated by " + c.By + " after the process had ended"
	case NotHappened:
		r.Status, r.Error = Error, "it did not happen (stated by "+c.By+" after the process had ended)"
	case GiveUp:
		r.Status, r.Error = Unknown, d.unknownText(c.Reason)
	case Cancel:
		r.Status, r.Error = Cancelled, c.Reason
	case Withdraw:
		r.Status, r.Error = Cancelled, c.Reason
	case machine.Late:
		if s == awaitingApproval && d.Grant != (Grant{}) {
			return d.deny("rule:timeout", "nobody answered in time")
		}
		r.Status, r.Error = Timeout, "nobody answered in time"
		if s == executing {
			r.Error = "it ran past its limit"
		}
	default:
		return nil, fmt.Errorf("no rule for %T", c)
	}
	if s == outcomeUnknown && (r.Status == Cancelled || r.Status == Timeout) {
		r.Status, r.Error = Unknown, d.unknownText(r.Error)
	}
	return one(r)
}

func (d Data) judge(v Verdict) ([]machine.Event, error) {
	if d.Call.Invalid != "" {
		return one(Result{CallID: d.Call.CallID, Status: Error, Error: d.Call.Invalid})
	}
	switch v.Answer {
	case Allow:
		return one(Approved{CallID: d.Call.CallID, Approver: v.By, Digest: d.Call.Digest, Plain: v.Plain})
	case Ask:
		return one(ApprovalRequested{d.Call.CallID, d.Call.Digest, v.Reason, v.Grant})
	default:
		return d.deny(v.By, v.Reason)
	}
}

func (d Data) approve(c Approve) ([]machine.Event, error) {
	switch {
	case c.Digest != "" && c.Digest != d.Call.Digest:
		return nil, errors.New("the answer is for other arguments than the call has")
	case d.Call.Safety == Question:
		return nil, errors.New("it is a question: answer it with words")
	case c.Remember != "" && d.Grant != (Grant{}):
		return nil, errors.New("a grant is for this one call and is never remembered")
	case c.Remember != "" && c.Remember != RememberCall && c.Remember != RememberTool:
		return nil, fmt.Errorf("an answer is remembered for the %s or the %s, not for %q", RememberCall, RememberTool, c.Remember)
	}
	return one(Approved{CallID: d.Call.CallID, Approver: c.By, Digest: d.Call.Digest, Remember: c.Remember})
}

func (d Data) reply(c Reply) ([]machine.Event, error) {
	switch {
	case d.Call.Safety != Question:
		return nil, errors.New("it is no question: approve or deny it")
	case c.Text == "":
		return nil, errors.New("the answer is empty")
	}
	return one(Result{CallID: d.Call.CallID, Status: Success, Output: Output{Text: c.Text}})
}

func (d Data) deny(by, reason string) ([]machine.Event, error) {
	if reason == "" {
		reason = "refused by " + by
	}
	if d.Grant != (Grant{}) {
		reason += fmt.Sprintf(" (%s is not among the tools of stage %s: go on with those it has)", d.Call.Tool, d.Grant.Stage)
	}
	return []machine.Event{
		Denied{d.Call.CallID, reason, by},
		Result{CallID: d.Call.CallID, Status: Refused, Error: reason},
	}, nil
}

func (d Data) restart(why string) ([]machine.Event, error) {
	return one(Restarted{d.Call.CallID, d.Attempt + 1, why})
}

func (d Data) unknownText(why string) string {
	return "the outcome is unknown: " + d.Known + "; " + why +
		". It may or may not have happened: do not assume either, inspect first."
}

func one(e machine.Event) ([]machine.Event, error) { return []machine.Event{e}, nil }

func evolve(d Data, a machine.Arrow, e machine.Event) (Data, error) {
	switch e := e.(type) {
	case Call:
		if e.CallID == "" || e.Tool == "" {
			return d, errors.New("a call needs an id and a tool")
		}
		d.Call, d.Attempt = e, 1
	case ApprovalRequested:
		d.Reason, d.Grant = e.Reason, e.Grant
		return d, d.same(e.Digest)
	case Approved:
		if e.Approver == "" {
			return d, errors.New("an approval names who gave it")
		}
		d.Plain = e.Plain
		return d, d.same(e.Digest)
	case Progress:
		if e.Intent != nil {
			d.Intent = e.Intent
		}
		d.Streamed += e.Bytes
	case Reattached:
		if e.Times != d.Attached+1 {
			return d, fmt.Errorf("taken up %d times after %d", e.Times, d.Attached)
		}
		d.Attached = e.Times
	case Restarted:
		if a.From == executing && !d.Repeatable() {
			return d, errors.New("a side effect is never repeated by itself")
		}
		if e.Attempt != d.Attempt+1 {
			return d, fmt.Errorf("attempt %d after %d", e.Attempt, d.Attempt)
		}
		d.Attempt, d.Attached, d.Streamed = e.Attempt, 0, 0
	case OutcomeUnknown:
		d.Known = e.Known
	case Result:
		if d.Status != "" {
			return d, errors.New("a call has exactly one result")
		}
		if e.CallID != d.Call.CallID {
			return d, fmt.Errorf("a result for %s", e.CallID)
		}
		if ends[e.Status] != a.To {
			return d, fmt.Errorf("a result %q does not lead to %s", e.Status, a.To)
		}
		d.Status = e.Status
	}
	return d, nil
}

// ends says where each kind of result leads.
var ends = map[Status]machine.State{
	Success: completedResult, Error: errorResult, Timeout: timeoutResult,
	Cancelled: cancelledResult, Refused: denied, Unknown: unknownResult,
}

// same holds that what was shown, approved and run are the same bytes.
func (d Data) same(digest string) error {
	if digest != d.Call.Digest {
		return errors.New("the arguments were changed after the call was made")
	}
	return nil
}

func due(s machine.State, d Data) any {
	switch s {
	case executing:
		return RunTool{d.Call, d.Attempt, d.Intent, d.Plain, d.Attached > 0, d.Streamed, d.Attached}
	case awaitingApproval:
		if d.Call.Safety == Question {
			return WhatToSay{d.Call}
		}
		if d.Grant != (Grant{}) {
			return GrantStageTool{d.Grant, d.Call, d.Reason}
		}
		return MayRun{d.Call, d.Reason}
	default:
		return WhatHappened{d.Call, d.Known}
	}
}

// Signed puts the sender's name into an answer.
func (c Approve) Signed(by string) any { c.By = by; return c }

// Signed puts the sender's name into an answer.
func (c Reply) Signed(by string) any { c.By = by; return c }

// Signed puts the sender's name into an answer.
func (c Deny) Signed(by string) any { c.By = by; return c }

// Signed puts the sender's name into an answer.
func (c Defer) Signed(by string) any { c.By = by; return c }

// Signed puts the sender's name into an answer.
func (c Happened) Signed(by string) any { c.By = by; return c }

// Signed puts the sender's name into an answer.
func (c NotHappened) Signed(by string) any { c.By = by; return c }

// Signed puts the sender's name into an answer.
func (c Retry) Signed(by string) any { c.By = by; return c }
