package turn

import (
	"errors"
	"fmt"

	"stave/internal/machine"
	"stave/internal/model"
)

// Stop is a request to end a turn, weakest first.
type Stop string

// Stops. A stronger one is never replaced by a weaker one.
const (
	NoStop        Stop = ""
	StopSteer     Stop = "steer"
	StopPause     Stop = "pause"
	StopInterrupt Stop = "interrupt"
	StopCrash     Stop = "crash"
)

var strength = map[Stop]int{NoStop: 0, StopSteer: 1, StopPause: 2, StopInterrupt: 3, StopCrash: 4}

// DefaultMaxAttempts bounds how often one model call is tried.
const DefaultMaxAttempts = 4

// Backoff between attempts, before the provider's own wish and jitter.
const (
	firstBackoffMs = 200
	maxBackoffMs   = 10_000
	maxDoublings   = 6 // more would pass maxBackoffMs anyway, and in the end overflow
)

// Data is what a turn remembers.
type Data struct {
	Started
	Requests    int          `json:"requests"` // model calls begun
	Attempt     int          `json:"attempt"`
	WaitMs      int64        `json:"wait_ms,omitzero"`
	Stop        Stop         `json:"stop,omitzero"`
	StopReason  string       `json:"stop_reason,omitzero"`
	StopText    string       `json:"stop_text,omitzero"`
	Concluded   bool         `json:"concluded,omitzero"` // it ends with its calls
	Open        []OpenCall   `json:"open,omitzero"`
	Finished    []Summary    `json:"finished,omitzero"`
	CallCount   int          `json:"call_count"`
	Mark        string       `json:"mark,omitzero"`    // of the last calls
	Repeats     int          `json:"repeats,omitzero"` // how often the same calls came in a row
	Compactions int          `json:"compactions,omitzero"`
	Said        *Said        `json:"said,omitzero"`      // of the present attempt
	LastText    string       `json:"last_text,omitzero"` // of the last whole answer
	Usage       model.Usage  `json:"usage"`
	MicroUSD    int64        `json:"micro_usd,omitzero"`
	Held        model.Amount `json:"held,omitzero"` // reserved for the present attempt
	Outcome     string       `json:"outcome,omitzero"`
	Unanswered  bool         `json:"unanswered,omitzero"` // it ended while the model spoke
}

// markLength is how much of a digest tells one call from another in a turn.
const markLength = 16

// OpenCall is a call without a result.
type OpenCall struct {
	CallID string `json:"call_id"`
	Group  int    `json:"group"`
}

// CallModel is the job of a streaming turn.
type CallModel struct {
	Agent   string
	Turn    string
	Request int
	Attempt int
	WaitMs  int64
}

// Key tells one attempt from the next.
func (j CallModel) Key() string { return fmt.Sprintf("%d.%d", j.Request, j.Attempt) }

// Next returns the calls of the group whose turn it is.
func (d Data) Next() []string {
	var ids []string
	first := 0
	for i, o := range d.Open {
		if i == 0 || o.Group < first {
			first, ids = o.Group, ids[:0]
		}
		if o.Group == first {
			ids = append(ids, o.CallID)
		}
	}
	return ids
}

func decide(s machine.State, d Data, c machine.Command) ([]machine.Event, error) {
	switch c := c.(type) {
	case Start:
		return one(c.Started)
	case Delta:
		return one(AssistantDelta{c.Text, c.Reasoning, c.ItemDone})
	case ReceiveToolCalls:
		return d.receive(c)
	case Finish:
		return one(Completed{textOf(c.Output), c.Output, string(c.Stop), c.Bill})
	case Compact:
		return one(c.Compacted)
	case Reserve:
		return one(Reserved{d.Requests, d.Attempt, c.Amount})
	case ToolDone:
		return d.toolDone(c)
	case Fail:
		if s == toolExecuting {
			return d.stop(StopCrash, c.Type, c.Message)
		}
		return d.fail(c)
	case machine.Lost:
		return one(Retried{Attempt: d.Attempt + 1, Why: "the process ended while the model answered"})
	case machine.Late:
		return d.fail(Fail{Type: string(model.ErrTimeout), Message: "the model took too long", Retryable: true})
	case Steer:
		return d.stop(StopSteer, "steer", "")
	case Pause:
		return d.stop(StopPause, c.Reason, "")
	case Interrupt:
		if s == toolExecuting {
			return d.stop(StopInterrupt, c.reason(), "")
		}
		return one(Interrupted{Reason: c.reason(), PartialOutput: d.Said.String()})
	case Boundary:
		if d.Stop == NoStop {
			return nil, nil
		}
		return one(Interrupted{Reason: d.StopReason, PartialOutput: d.Said.String()})
	case Finalize:
		return one(Finalized{d.TurnID, d.Outcome, d.StopReason, d.Requests, d.CallCount, d.Usage, d.MicroUSD, d.LastText, d.Unanswered})
	}
	return nil, fmt.Errorf("no rule for %T", c)
}

func (i Interrupt) reason() string {
	switch {
	case i.Reason != "":
		return i.Reason
	case i.Note != "":
		return "interrupt: " + i.Note
	}
	return "interrupt"
}

func (d Data) stop(s Stop, reason, message string) ([]machine.Event, error) {
	if strength[s] <= strength[d.Stop] {
		return nil, nil
	}
	return one(StopRequested{s, reason, message})
}

// receive dispatches the calls of a whole answer, unless a held stop takes
// effect first: the end of an answer is a safe boundary.
func (d Data) receive(c ReceiveToolCalls) ([]machine.Event, error) {
	if len(c.Calls) == 0 {
		return nil, errors.New("there are no calls")
	}
	if d.Stop != NoStop {
		return one(Interrupted{d.StopReason, d.Said.String(), &c.Bill})
	}
	e := ToolCallsReceived{Output: c.Output, Bill: c.Bill, Calls: c.Calls}
	group := 0
	for i, p := range c.Calls {
		if i > 0 && !(p.Parallel && c.Calls[i-1].Parallel) {
			group++
		}
		e.CallIDs = append(e.CallIDs, p.CallID)
		if !p.Waits {
			e.Mark += p.Digest[:min(len(p.Digest), markLength)]
		}
		e.Groups = append(e.Groups, group)
	}
	for i, p := range c.Calls {
		if p.Last {
			group++
			e.Groups[i] = group
		}
	}
	return one(e)
}

func (d Data) toolDone(c ToolDone) ([]machine.Event, error) {
	if !d.isOpen(c.CallID) {
		return nil, fmt.Errorf("call %s is not open", c.CallID)
	}
	if len(d.Open) > 1 {
		return one(CallFinished(c))
	}
	switch {
	case d.Stop == StopCrash:
		return one(Error{Type: d.StopReason, Message: d.StopText})
	case d.Stop == StopInterrupt || d.Stop == StopPause:
		return one(Interrupted{Reason: d.StopReason, PartialOutput: d.LastText})
	case d.Concluded || c.Concludes:
		return one(Completed{FinalOutput: d.LastText, Reason: "concluded"})
	case d.MaxRequests > 0 && d.Requests >= d.MaxRequests:
		return one(Completed{FinalOutput: d.LastText, Reason: "max_requests"})
	}
	results := append(d.Finished[:len(d.Finished):len(d.Finished)], Summary{c.CallID, c.Status})
	return one(ToolsFinished{results})
}

// fail tries again while that is worth it. No call of a failed attempt was ever
// dispatched, so a retry repeats nothing.
func (d Data) fail(c Fail) ([]machine.Event, error) {
	most := d.MaxAttempts
	if most == 0 {
		most = DefaultMaxAttempts
	}
	if !c.Retryable || d.Attempt >= most {
		return one(Error{c.Type, c.Message, c.Free})
	}
	wait := min(int64(firstBackoffMs)<<max(0, min(d.Attempt-1, maxDoublings)), maxBackoffMs)
	wait += c.JitterSeed % (wait/4 + 1)
	return one(Retried{d.Attempt + 1, c.Type + ": " + c.Message, max(wait, min(c.RetryMs, maxBackoffMs)), c.Free})
}

func one(e machine.Event) ([]machine.Event, error) { return []machine.Event{e}, nil }

func textOf(parts []model.Part) string {
	text := ""
	for _, p := range parts {
		text += p.Text
	}
	return text
}

func due(_ machine.State, d Data) any {
	return CallModel{d.AgentID, d.TurnID, d.Requests, d.Attempt, d.WaitMs}
}
