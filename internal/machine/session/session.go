package session

import (
	"errors"
	"fmt"
	"slices"

	"stave/internal/machine"
	"stave/internal/model"
)

// Bounds of a conversation.
const (
	MaxWaiting            = 256 // messages that wait for a turn
	DefaultErrorThreshold = 5   // failed turns in a row that suspend
	MaxRecoveries         = 3   // crashes in a row, without progress, that suspend
	MaxRemembered         = 1000
)

// Message modes.
const (
	Queue    = "queue"
	Steer    = "steer"
	Continue = "continue" // made by the session itself: go on after a pause
)

// BudgetReason begins the reason of a turn that a limit ended.
const BudgetReason = "budget: "

// CrashLoop is the reason of a suspension after MaxRecoveries.
const CrashLoop = "crash_loop"

const continueText = "The conversation was stopped here and now goes on. Continue where you left off."

// Data is what a session remembers.
type Data struct {
	Created
	Ready      bool         `json:"ready"`
	Messages   uint64       `json:"messages"`
	Waiting    []Waiting    `json:"waiting,omitzero"`
	Running    bool         `json:"running"` // a turn of the root agent
	Stats      Stats        `json:"stats"`
	Failures   int          `json:"failures"` // turns in a row
	Crashes    int          `json:"crashes"`  // in a row, without progress
	Why        string       `json:"why,omitzero"`
	Taint      Tainted      `json:"taint,omitzero"` // all that ever came in; Source is the first
	Remembered []Remembered `json:"remembered,omitzero"`
	Runs       []string     `json:"runs,omitzero"` // workflows under way
	LastRun    *LastRun     `json:"last_run,omitzero"`
}

// LastRun is the workflow that ended last.
type LastRun struct {
	RunID   string `json:"run_id"`
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	Why     string `json:"why,omitzero"` // of one that did not complete
}

// Waiting is an input without a turn.
type Waiting struct {
	Message uint64 `json:"message"`
	Text    string `json:"text"`
	Mode    string `json:"mode"`

	Images []model.Image `json:"images,omitzero"`
}

// Stats is what happened in a conversation.
type Stats struct {
	Turns      int         `json:"turns"`
	Failed     int         `json:"failed"`
	Calls      int         `json:"calls"`
	Usage      model.Usage `json:"usage"`
	MicroUSD   int64       `json:"micro_usd,omitzero"`
	Unconsumed int         `json:"unconsumed,omitzero"` // messages that never got a turn
}

func decide(s machine.State, d Data, c machine.Command) ([]machine.Event, error) {
	switch c := c.(type) {
	case Create:
		return one(c.Created)
	case Say:
		return d.say(c)
	case Activate:
		if s == created {
			return one(Activated{c.AgentID})
		}
		return one(AgentJoined(c))
	case AgentGone:
		return one(AgentLost(c))
	case Spend:
		return one(c.TurnEnded)
	case Proceed:
		return d.proceed(s, c)
	case Pause:
		return one(Paused{or(c.Reason, "pause")})
	case Resume:
		return one(Resumed(c))
	case Suspend:
		return one(Suspended(c))
	case Unsuspend:
		return one(Unsuspended(c))
	case Recover:
		if n := d.crashes(c); s == active && n > MaxRecoveries {
			return one(Suspended{CrashLoop, fmt.Sprintf("the process died %d times in a row without getting anywhere", n)})
		}
		return one(Recovered{d.crashes(c), c.Headless})
	case Close:
		return one(Closing{or(c.Reason, "close"), false})
	case Stop:
		if s == closing {
			return one(Stopping{or(c.Reason, "stop")})
		}
		return one(Closing{or(c.Reason, "stop"), true})
	case Archive:
		return one(Archived{})
	case SetBudget:
		return one(BudgetSet{c.Limit, c.Reconcile})
	case SwitchModel:
		return d.switchModel(c)
	case Rewind:
		return d.rewind(c)
	case KeepCheckpoint:
		return one(c.Checkpointed)
	case Taint:
		return d.taint(c.Tainted)
	case Remember:
		return d.remember(c.Remembered)
	case BeginRun:
		return one(c.RunBegan)
	case EndRun:
		return one(c.RunEnded)
	}
	return nil, fmt.Errorf("no rule for %T", c)
}

func (d Data) switchModel(c SwitchModel) ([]machine.Event, error) {
	switch c.Model {
	case "":
		return nil, errors.New("it needs the name of a model")
	case d.Config.Model:
		return nil, nil
	}
	return one(ModelSwitched{c.Model, d.Config.Model})
}

func (d Data) rewind(c Rewind) ([]machine.Event, error) {
	switch {
	case d.Running:
		return nil, errors.New("a turn is running; interrupt it first")
	case len(d.Runs) > 0:
		return nil, errors.New("a workflow is running; cancel it first")
	case c.Seq == 0:
		return nil, errors.New("it needs the rune to go back to")
	}
	return one(Rewound(c))
}

// taint records only what is new.
func (d Data) taint(t Tainted) ([]machine.Event, error) {
	t.Private, t.Untrusted = t.Private && !d.Taint.Private, t.Untrusted && !d.Taint.Untrusted
	if !t.Private && !t.Untrusted {
		return nil, nil
	}
	return one(t)
}

func (d Data) remember(r Remembered) ([]machine.Event, error) {
	if slices.Contains(d.Remembered, r) {
		return nil, nil
	}
	return one(r)
}

func (d Data) crashes(c Recover) int {
	if c.Progress {
		return 1
	}
	return d.Crashes + 1
}

func (d Data) say(c Say) ([]machine.Event, error) {
	mode := or(c.Mode, Queue)
	switch {
	case mode != Queue && mode != Steer:
		return nil, fmt.Errorf("a message is sent by %s or %s, not %q", Queue, Steer, mode)
	case c.Text == "":
		return nil, errors.New("the message is empty")
	case len(d.Waiting) >= MaxWaiting:
		return nil, fmt.Errorf("%d messages wait already", MaxWaiting)
	}
	return one(MessageReceived{d.Messages + 1, c.Text, mode, c.Headless, c.Images})
}

func (d Data) proceed(s machine.State, c Proceed) ([]machine.Event, error) {
	if s == closing {
		if c.Agents > 0 {
			return nil, nil
		}
		stats := d.Stats
		stats.Unconsumed = len(d.Waiting)
		return one(Closed{stats})
	}
	most := d.Config.ErrorThreshold
	if most == 0 {
		most = DefaultErrorThreshold
	}
	if d.Failures >= most {
		return one(Suspended{"error_threshold", fmt.Sprintf("%d turns failed in a row", d.Failures)})
	}
	if !d.Ready && !d.Running && c.Agents == 0 {
		return one(Suspended{"agent_gone", d.Why})
	}
	if d.Running || !d.Ready || len(d.Waiting) == 0 {
		return nil, nil
	}
	w := d.Waiting[d.next()]
	return one(TurnAdmitted{d.Stats.Turns + 1, w.Message, w.Mode, w.Text, w.Images})
}

// next picks the waiting input to start with: what a stop cut off, then steers,
// then the queue.
func (d Data) next() int {
	for _, mode := range []string{Continue, Steer} {
		if i := slices.IndexFunc(d.Waiting, func(w Waiting) bool { return w.Mode == mode }); i >= 0 {
			return i
		}
	}
	return 0
}

func one(e machine.Event) ([]machine.Event, error) { return []machine.Event{e}, nil }

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
