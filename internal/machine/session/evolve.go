package session

import (
	"errors"
	"fmt"
	"slices"

	"stave/internal/machine"
)

func evolve(d Data, _ machine.Arrow, e machine.Event) (Data, error) {
	switch e := e.(type) {
	case Created:
		if e.ConversationID == "" || e.RootAgentID == "" {
			return d, errors.New("a conversation needs its id and its root agent's")
		}
		d.Created = e
	case Activated, AgentJoined:
		d.Ready = true
	case AgentLost:
		if e.Root {
			d.Ready, d.Why = false, e.Reason
		}
	case MessageReceived:
		if e.Message != d.Messages+1 {
			return d, fmt.Errorf("message %d after %d", e.Message, d.Messages)
		}
		d.Messages, d.Headless = e.Message, e.Headless
		d.Waiting = append(d.Waiting[:len(d.Waiting):len(d.Waiting)], Waiting{e.Message, e.Text, e.Mode})
	case TurnAdmitted:
		return d.admitted(e)
	case TurnEnded:
		return d.ended(e)
	case Resumed:
		d.Headless = e.Headless
	case Unsuspended:
		d.Headless, d.Failures, d.Crashes, d.Why = e.Headless, 0, 0, ""
	case Recovered:
		d.Crashes, d.Headless = e.InARow, e.Headless
	case Suspended:
		d.Why = e.Reason
	}
	return d, nil
}

func (d Data) admitted(e TurnAdmitted) (Data, error) {
	if e.Turn != d.Stats.Turns+1 || d.Running {
		return d, fmt.Errorf("turn %d after %d (running: %t)", e.Turn, d.Stats.Turns, d.Running)
	}
	i := slices.IndexFunc(d.Waiting, func(w Waiting) bool { return w.Message == e.Message && w.Mode == e.Mode })
	if i < 0 {
		return d, fmt.Errorf("message %d does not wait", e.Message)
	}
	d.Waiting = slices.Delete(slices.Clone(d.Waiting), i, i+1)
	d.Stats.Turns, d.Running = e.Turn, true
	return d, nil
}

func (d Data) ended(e TurnEnded) (Data, error) {
	d.Stats.Calls += e.Calls
	d.Stats.Usage = d.Stats.Usage.Plus(e.Usage)
	if !e.Root {
		return d, nil
	}
	d.Running, d.Crashes = false, 0
	if e.Outcome == "error" {
		d.Failures, d.Stats.Failed = d.Failures+1, d.Stats.Failed+1
		return d, nil
	}
	d.Failures = 0
	if e.Outcome == "interrupted" && (e.Reason == "pause" || e.Reason == "suspended") {
		// What a stop cut off goes on by itself once the session does.
		d.Waiting = append([]Waiting{{0, continueText, Continue}}, d.Waiting...)
	}
	return d, nil
}
