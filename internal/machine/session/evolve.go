package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"stave/internal/machine"
)

func evolve(d Data, _ machine.Arrow, e machine.Event) (Data, error) {
	switch e := e.(type) {
	case Created:
		if e.ConversationID == "" || e.RootAgentID == "" {
			return d, errors.New("a conversation needs its id and its root agent's")
		}
		d.Created = e
	case Activated:
		d.Ready = true
	case AgentJoined:
		d.Ready = d.Ready || e.AgentID == d.RootAgentID
	case BudgetSet:
		d.Config.Budget = e.Limit
	case ModelSwitched:
		d.Config.Model = e.Model
	case Rewound:
		if d.Running {
			return d, errors.New("a turn is running")
		}
		// What waited was said after the point that counts.
		d.Waiting, d.Failures = nil, 0
	case Tainted:
		if d.Taint.Source == "" {
			d.Taint.Source = e.Source
		}
		d.Taint.Private, d.Taint.Untrusted = d.Taint.Private || e.Private, d.Taint.Untrusted || e.Untrusted
	case Remembered:
		if len(d.Remembered) >= MaxRemembered {
			return d, fmt.Errorf("more than %d answers to remember", MaxRemembered)
		}
		d.Remembered = append(d.Remembered[:len(d.Remembered):len(d.Remembered)], e)
	case RunBegan:
		if slices.Contains(d.Runs, e.RunID) {
			return d, fmt.Errorf("the workflow %s runs already", e.RunID)
		}
		d.Runs, d.Headless = append(d.Runs[:len(d.Runs):len(d.Runs)], e.RunID), e.Headless
	case RunEnded:
		d.LastRun = &LastRun{RunID: e.RunID, Name: e.Name, Outcome: e.Outcome}
		if e.Outcome != "completed" {
			d.LastRun.Why = e.Text
		}
		d.Runs = slices.DeleteFunc(slices.Clone(d.Runs), func(id string) bool { return id == e.RunID })
	case AgentLost:
		if e.Root {
			d.Ready, d.Why = false, e.Reason
		}
	case MessageReceived:
		if e.Message != d.Messages+1 {
			return d, fmt.Errorf("message %d after %d", e.Message, d.Messages)
		}
		d.Messages, d.Headless = e.Message, e.Headless
		d.Waiting = append(d.Waiting[:len(d.Waiting):len(d.Waiting)], Waiting{e.Message, e.Text, e.Mode, e.Images})
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
	d.Stats.Usage, d.Stats.MicroUSD = d.Stats.Usage.Plus(e.Usage), d.Stats.MicroUSD+e.MicroUSD
	if !e.Root {
		return d, nil
	}
	d.Running, d.Crashes = false, 0
	if e.Outcome == "error" {
		d.Failures, d.Stats.Failed = d.Failures+1, d.Stats.Failed+1
		return d, nil
	}
	d.Failures = 0
	if e.Outcome == "interrupted" && (e.Reason == "pause" || e.Reason == "suspended" || strings.HasPrefix(e.Reason, BudgetReason)) {
		// What a stop cut off goes on by itself once the session does.
		d.Waiting = append([]Waiting{{Text: continueText, Mode: Continue}}, d.Waiting...)
	}
	return d, nil
}
