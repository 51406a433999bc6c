package turn

import (
	"errors"
	"fmt"
	"slices"

	"stave/internal/machine"
	"stave/internal/model"
)

func evolve(d Data, a machine.Arrow, e machine.Event) (Data, error) {
	switch e := e.(type) {
	case Started:
		if d.Number != 0 {
			return d, errors.New("a turn starts once")
		}
		d.Started, d.Requests, d.Attempt = e, 1, 1
	case Reserved:
		if e.Request != d.Requests || e.Attempt != d.Attempt || d.Held != (model.Amount{}) {
			return d, errors.New("one model call is reserved for once")
		}
		d.Held = e.Amount
	case Compacted:
		if e.Messages < 1 || e.Summary == "" {
			return d, errors.New("a summary stands for something")
		}
		d.Compactions++
		return d.pay(e.Bill), nil
	case AssistantDelta:
		d.Said = d.Said.plus(e.Content)
	case ToolCallsReceived:
		return d.received(e)
	case CallFinished:
		d.Concluded = d.Concluded || e.Concludes
		return d.closeCall(e.CallID, e.Status)
	case ToolsFinished:
		if len(d.Open) != 1 {
			return d, fmt.Errorf("%d calls are open", len(d.Open))
		}
		d.Open, d.Finished = nil, nil
		d.Requests, d.Attempt, d.WaitMs, d.Said, d.Concluded = d.Requests+1, 1, 0, nil, false
	case Retried:
		if e.Attempt != d.Attempt+1 {
			return d, fmt.Errorf("attempt %d after %d", e.Attempt, d.Attempt)
		}
		d.Attempt, d.WaitMs, d.Said, d.Held = e.Attempt, e.WaitMs, nil, model.Amount{}
	case StopRequested:
		if strength[e.Stop] <= strength[d.Stop] {
			return d, fmt.Errorf("%q cannot replace %q", e.Stop, d.Stop)
		}
		d.Stop, d.StopReason, d.StopText = e.Stop, e.Reason, e.Message
	case Completed:
		d.Outcome, d.StopReason, d.LastText = "completed", e.Reason, e.FinalOutput
		return d.pay(e.Bill).ended(a)
	case Interrupted:
		d.Outcome, d.StopReason, d.Unanswered = "interrupted", e.Reason, a.From == streaming && e.Bill == nil
		if e.Bill != nil {
			d = d.pay(*e.Bill)
		}
		return d.ended(a)
	case Error:
		d.Outcome, d.StopReason, d.LastText = "error", e.Type, e.Message
		return d.ended(a)
	}
	return d, nil
}

func (d Data) received(e ToolCallsReceived) (Data, error) {
	if len(e.CallIDs) == 0 || len(e.CallIDs) != len(e.Groups) {
		return d, errors.New("calls and groups do not match")
	}
	d.Open = make([]OpenCall, len(e.CallIDs))
	for i, id := range e.CallIDs {
		if slices.Contains(e.CallIDs[:i], id) {
			return d, fmt.Errorf("two calls with the id %s", id)
		}
		d.Open[i] = OpenCall{id, e.Groups[i]}
	}
	d.CallCount += len(e.CallIDs)
	if d.Repeats++; e.Mark == "" || e.Mark != d.Mark {
		d.Repeats = 1
	}
	d.Mark = e.Mark
	d.LastText, d.Said = textOf(e.Output), nil
	return d.pay(e.Bill), nil
}

// pay adds a bill; the reservation has served.
func (d Data) pay(b Bill) Data {
	d.Usage, d.MicroUSD, d.Held = d.Usage.Plus(b.Usage), d.MicroUSD+b.MicroUSD, model.Amount{}
	return d
}

func (d Data) isOpen(id string) bool {
	return slices.ContainsFunc(d.Open, func(o OpenCall) bool { return o.CallID == id })
}

func (d Data) closeCall(id, status string) (Data, error) {
	if !d.isOpen(id) {
		return d, fmt.Errorf("call %s is not open", id)
	}
	open := make([]OpenCall, 0, len(d.Open)-1)
	for _, o := range d.Open {
		if o.CallID != id {
			open = append(open, o)
		}
	}
	d.Open = open
	d.Finished = append(d.Finished[:len(d.Finished):len(d.Finished)], Summary{id, status})
	return d, nil
}

// ended closes the last call with the turn: an ended turn has no open call.
func (d Data) ended(a machine.Arrow) (Data, error) {
	if a.From == toolExecuting && len(d.Open) == 1 {
		d.Open = nil
	}
	if len(d.Open) > 0 {
		return d, fmt.Errorf("%d calls are open", len(d.Open))
	}
	d.Said, d.Held = nil, model.Amount{}
	return d, nil
}
