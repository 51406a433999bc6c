package agent

import (
	"errors"
	"fmt"

	"stave/internal/machine"
)

// Data is what an agent remembers.
type Data struct {
	Spawning
	Turn    string   `json:"turn,omitzero"` // the running turn's id
	Turns   int      `json:"turns"`
	Tasks   []string `json:"tasks,omitzero"`  // told and not taken up
	Answer  string   `json:"answer,omitzero"` // of its last turn
	Outcome string   `json:"outcome,omitzero"`
	Ending  string   `json:"ending,omitzero"` // why it ends with this turn
	Forced  bool     `json:"forced,omitzero"`
	Cut     bool     `json:"cut,omitzero"` // its last turn goes on when the conversation does
}

// Prepare is the job of a spawning agent.
type Prepare struct {
	AgentID string
	Model   string
}

// Key is constant: preparing again is harmless.
func (Prepare) Key() string { return "1" }

// TurnID names the n-th turn of a conversation.
func TurnID(n int) string { return fmt.Sprintf("turn_%d", n) }

func decide(s machine.State, d Data, c machine.Command) ([]machine.Event, error) {
	switch c := c.(type) {
	case Spawn:
		return one(c.Spawning)
	case BecomeReady:
		return one(Ready{d.AgentID})
	case FailInit:
		return one(Failed{d.AgentID, c.Error, d.Stage})
	case machine.Late:
		return one(Failed{d.AgentID, "it was not ready in time", d.Stage})
	case Assign:
		return one(TurnAssigned{d.AgentID, TurnID(c.Turn), c.Work})
	case EndTurn:
		if d.Ending != "" {
			return one(Terminated{d.AgentID, d.Ending, Stats{d.Turns}, d.Stage})
		}
		return one(TurnEnded{d.AgentID, c.TurnID, c.Outcome, d.answer(c.Output), c.Cut && d.Stage != ""})
	case Tell:
		return d.told(c.Told)
	case Proceed:
		work := Work{Turn: d.Turns + 1, MaxRequests: c.MaxRequests, MaxAttempts: c.MaxAttempts}
		switch {
		case d.Cut:
			work.Text, work.Mode = continueText, ContinueMode
		case len(d.Tasks) > 0:
			work.Text, work.Mode = d.Tasks[0], TaskMode
		default:
			return nil, nil
		}
		return one(TurnAssigned{d.AgentID, TurnID(d.Turns + 1), work})
	case Kill:
		return d.end(s, c.Reason, c.Force)
	case ExhaustBudget:
		return d.end(s, "budget exhausted: "+c.Limit, true)
	}
	return nil, fmt.Errorf("no rule for %T", c)
}

// MaxTasks bounds what waits for an agent.
const MaxTasks = 64

// How the turns of an agent begin that works for another: with what it was told,
// or where a stop of the conversation cut it off.
const (
	TaskMode     = "task"
	ContinueMode = "continue"

	continueText = "The conversation was stopped here and now goes on. Continue where you left off."
)

func (d Data) told(t Told) ([]machine.Event, error) {
	switch {
	case d.ParentID == "":
		return nil, errors.New("the root agent hears from its session")
	case t.Text == "":
		return nil, errors.New("there is nothing to do in an empty message")
	case len(d.Tasks) >= MaxTasks:
		return nil, fmt.Errorf("%d tasks wait for it already", MaxTasks)
	}
	return one(t)
}

// answer is kept only where another agent waits for it.
func (d Data) answer(text string) string {
	if d.ParentID == "" {
		return ""
	}
	return text
}

func (d Data) end(s machine.State, reason string, force bool) ([]machine.Event, error) {
	if s != runningTurn {
		return one(Terminated{d.AgentID, reason, Stats{d.Turns}, d.Stage})
	}
	if d.Ending != "" && (d.Forced || !force) {
		return nil, nil
	}
	return one(Stopping{d.AgentID, reason, force})
}

func one(e machine.Event) ([]machine.Event, error) { return []machine.Event{e}, nil }

func evolve(d Data, _ machine.Arrow, e machine.Event) (Data, error) {
	switch e := e.(type) {
	case Spawning:
		if e.AgentID == "" {
			return d, errors.New("an agent needs an id")
		}
		d.Spawning = e
	case Told:
		d.Tasks = append(d.Tasks[:len(d.Tasks):len(d.Tasks)], e.Text)
	case TurnAssigned:
		if e.Mode == TaskMode {
			if len(d.Tasks) == 0 {
				return d, errors.New("nothing waits for it")
			}
			d.Tasks = d.Tasks[1:]
		}
		d.Turn, d.Turns, d.Answer, d.Outcome, d.Cut = e.TurnID, d.Turns+1, "", "", false
	case TurnEnded:
		if e.TurnID != d.Turn {
			return d, fmt.Errorf("%s ended while %s ran", e.TurnID, d.Turn)
		}
		d.Turn, d.Answer, d.Outcome, d.Cut = "", e.Output, e.Outcome, e.Cut
	case Stopping:
		d.Ending, d.Forced = e.Reason, d.Forced || e.Force
	case Terminated:
		d.Turn = ""
	}
	return d, nil
}
