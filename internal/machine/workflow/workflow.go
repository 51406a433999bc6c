package workflow

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"stave/internal/machine"
)

// Data is what a run remembers.
type Data struct {
	Started
	Queue   []Brief        `json:"queue,omitzero"`   // chosen and not begun
	Running []string       `json:"running,omitzero"` // executions under way
	Cap     int            `json:"cap,omitzero"`     // of the present choice
	Group   []string       `json:"group,omitzero"`   // stages that run side by side
	Frozen  []Result       `json:"frozen,omitzero"`  // what these may know of others: nothing of each other
	Join    *Brief         `json:"join,omitzero"`    // comes after all of them
	Ends    bool           `json:"ends,omitzero"`    // nothing comes after them: parallel without a join
	Visits  map[string]int `json:"visits,omitzero"`
	Results []Result       `json:"results,omitzero"` // the latest of each stage
	Last    string         `json:"last,omitzero"`    // the stage that ended last
	Drifted string         `json:"drifted,omitzero"` // the hash a person is asked about, or was
	Why     string         `json:"why,omitzero"`     // it stops
	Failed  string         `json:"failed,omitzero"`  // the stage that failed
	Broken  bool           `json:"broken,omitzero"`  // it stops because of a failure
}

// ChooseNext is the job of a choosing run.
type ChooseNext struct {
	Stage string
	Count int
}

// Key tells one choice from the next.
func (j ChooseNext) Key() string { return fmt.Sprintf("%s.%d", j.Stage, j.Count) }

// MayGoOn asks a person whether a run goes on by the definition it began with.
type MayGoOn struct {
	Name   string
	Began  string // hash
	Now    string
	Stages []string // under way
}

func due(s machine.State, d Data) any {
	if s == changed {
		return MayGoOn{d.Name, d.Hash, d.Drifted, d.Running}
	}
	return ChooseNext{d.Last, d.Visits[d.Last]}
}

// Entered counts the stages this run has begun.
func (d Data) Entered() (n int) {
	for _, visits := range d.Visits {
		n += visits
	}
	return n
}

func decide(s machine.State, d Data, c machine.Command) ([]machine.Event, error) {
	switch c := c.(type) {
	case Start:
		if len(c.Stages) != 1 {
			return nil, errors.New("a run begins with one stage")
		}
		return []machine.Event{c.Started, StagesChosen{Stages: c.Stages, Execution: Sequential}}, nil
	case Proceed:
		if s == stopping {
			return d.stopped()
		}
		return d.proceed()
	case StageEnded:
		return d.stageEnded(s, c.StageDone)
	case Choose:
		if len(c.Stages) == 0 {
			return one(Completed{d.RunID, d.Name, d.Results, []string{d.Last}})
		}
		return one(c.StagesChosen)
	case Break:
		return one(Failed{d.RunID, d.Name, d.Last, c.Error})
	case Drift:
		switch {
		case c.Hash == d.Hash && s == changed:
			return one(DefinitionRestored(c))
		case c.Hash == d.Hash || c.Hash == d.Drifted:
			return nil, nil
		}
		return one(DefinitionChanged(c))
	case GoOn:
		return one(Confirmed(c))
	case machine.Late:
		return one(Stopping{Reason: "its definition was changed, and nobody said in time whether it goes on"})
	case Cancel:
		reason := c.Reason
		if reason == "" {
			reason = "cancelled"
		}
		return one(Stopping{Reason: reason})
	}
	return nil, fmt.Errorf("no rule for %T", c)
}

// proceed begins what waits as far as there is room, then goes on.
func (d Data) proceed() ([]machine.Event, error) {
	switch {
	case len(d.Queue) > 0 && len(d.Running) < d.Cap:
		next := d.Queue[0]
		visit := d.Visits[next.Stage] + 1
		return one(StageBegun{ExecutionID(d.RunID, next.Stage, visit), visit, next})
	case len(d.Queue) > 0 || len(d.Running) > 0:
		return nil, nil
	case d.Join != nil:
		return one(StagesChosen{After: d.Last, Stages: []Brief{*d.Join}, Execution: Sequential})
	case d.Ends:
		return one(Completed{d.RunID, d.Name, d.Results, d.Group})
	}
	return one(NextDue{d.Last})
}

// ExecutionID names the visit of a stage in a run.
func ExecutionID(run, stage string, visit int) string {
	return fmt.Sprintf("%s.%s.%d", run, stage, visit)
}

// stopped ends a run once nothing of it runs any more.
func (d Data) stopped() ([]machine.Event, error) {
	switch {
	case len(d.Running) > 0:
		return nil, nil
	case d.Broken:
		return one(Failed{d.RunID, d.Name, d.Failed, d.Why})
	}
	return one(Cancelled{d.RunID, d.Name, d.Why})
}

// stageEnded notes an end. A stage that is neither done nor skipped takes the
// whole run with it.
func (d Data) stageEnded(s machine.State, e StageDone) ([]machine.Event, error) {
	if s == stopping || e.Result.Status == "ok" || e.Result.Status == "skip" {
		return one(e)
	}
	return []machine.Event{e, Stopping{fmt.Sprintf("stage %s failed: %s", e.Result.Stage, e.Error), true}}, nil
}

func one(e machine.Event) ([]machine.Event, error) { return []machine.Event{e}, nil }

func evolve(d Data, _ machine.Arrow, e machine.Event) (Data, error) {
	switch e := e.(type) {
	case Started:
		if e.RunID == "" || e.Hash == "" || e.Parallel < 1 {
			return d, errors.New("a run needs an id, a definition and room for a stage")
		}
		d.Started = e
	case StagesChosen:
		return d.chosen(e)
	case StageBegun:
		return d.begun(e)
	case StageDone:
		return d.done(e)
	case NextDue:
		if len(d.Running)+len(d.Queue) > 0 || e.Stage != d.Last {
			return d, errors.New("its stages are not done")
		}
	case DefinitionChanged:
		d.Drifted = e.Hash
	case DefinitionRestored:
		if e.Hash != d.Hash {
			return d, errors.New("it is another definition")
		}
		d.Drifted = ""
	case Confirmed:
		if e.By == "" {
			return d, errors.New("a person has to say so")
		}
	case Stopping:
		d.Why, d.Broken, d.Failed, d.Queue, d.Join = e.Reason, e.Failed, d.Last, nil, nil
	case Completed:
		return d, d.quiet()
	case Failed:
		return d, d.quiet()
	case Cancelled:
		return d, d.quiet()
	}
	return d, nil
}

// quiet holds that a run ends after all its stages.
func (d Data) quiet() error {
	if len(d.Running)+len(d.Queue) > 0 {
		return fmt.Errorf("%d stages run and %d wait", len(d.Running), len(d.Queue))
	}
	return nil
}

// chosen takes up a choice. A join comes after its siblings and is none of them.
func (d Data) chosen(e StagesChosen) (Data, error) {
	if len(d.Running)+len(d.Queue) > 0 {
		return d, errors.New("the stages chosen before are not done")
	}
	for i, b := range e.Stages {
		if b.Stage == "" || e.Join != nil && e.Join.Stage == b.Stage {
			return d, fmt.Errorf("stage %q cannot be chosen", b.Stage)
		}
		if e.Execution == Parallel && slices.ContainsFunc(e.Stages[:i], func(o Brief) bool { return o.Stage == b.Stage }) {
			return d, fmt.Errorf("stage %s was chosen twice", b.Stage)
		}
	}
	d.Queue, d.Join, d.Cap, d.Group, d.Frozen = e.Stages, e.Join, 1, nil, nil
	if e.Execution == Parallel {
		d.Cap, d.Frozen = d.Parallel, d.Results
		for _, b := range e.Stages {
			d.Group = append(d.Group, b.Stage)
		}
	}
	d.Ends = e.Execution == Parallel && e.Join == nil
	return d, nil
}

func (d Data) begun(e StageBegun) (Data, error) {
	switch {
	case len(d.Queue) == 0 || d.Queue[0] != e.Brief || len(d.Running) >= d.Cap:
		return d, fmt.Errorf("it is not the turn of stage %s", e.Stage)
	case e.Visit != d.Visits[e.Stage]+1 || e.ExecutionID != ExecutionID(d.RunID, e.Stage, e.Visit):
		return d, fmt.Errorf("stage %s is entered for the time number %d", e.Stage, d.Visits[e.Stage]+1)
	}
	d.Visits = maps.Clone(d.Visits) // data is never shared
	if d.Visits == nil {
		d.Visits = map[string]int{}
	}
	d.Visits[e.Stage] = e.Visit
	d.Queue = d.Queue[1:]
	d.Running = append(d.Running[:len(d.Running):len(d.Running)], e.ExecutionID)
	return d, nil
}

func (d Data) done(e StageDone) (Data, error) {
	i := slices.Index(d.Running, e.ExecutionID)
	if i < 0 {
		return d, fmt.Errorf("%s is not under way", e.ExecutionID)
	}
	d.Running = slices.Delete(slices.Clone(d.Running), i, i+1)
	d.Results = append(slices.DeleteFunc(slices.Clone(d.Results), func(r Result) bool { return r.Stage == e.Result.Stage }), e.Result)
	if d.Why == "" {
		d.Last = e.Result.Stage
	}
	return d, nil
}

// Result is the latest of a stage.
func (d Data) Result(stage string) (Result, bool) {
	i := slices.IndexFunc(d.Results, func(r Result) bool { return r.Stage == stage })
	if i < 0 {
		return Result{}, false
	}
	return d.Results[i], true
}

// Signed puts the sender's name into an answer.
func (c GoOn) Signed(by string) any { c.By = by; return c }
