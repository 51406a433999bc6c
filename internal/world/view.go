package world

import (
	"fmt"

	"stave/internal/machine"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/machine/workflow"
	"stave/internal/runelog"
)

// View is the present of a log as people and programs look at it.
type View struct {
	Log       string            `json:"log"`
	Seq       uint64            `json:"seq"`
	State     machine.State     `json:"state"`
	Title     string            `json:"title"`
	Mode      string            `json:"mode"`
	Model     string            `json:"model"`
	Dir       string            `json:"cwd"`
	ReadOnly  bool              `json:"read_only,omitzero"`
	Why       string            `json:"why,omitzero"` // of a suspension
	SinceMs   int64             `json:"since_ms"`
	Origin    *session.Origin   `json:"origin,omitzero"`
	Possible  []string          `json:"possible"` // what a person may do to the session
	Stats     session.Stats     `json:"stats"`
	Waiting   []session.Waiting `json:"waiting"`
	Machines  []Place           `json:"machines"` // everything alive
	Questions []Question        `json:"questions"`
	Accounts  []Account         `json:"accounts"` // the session's, then its agents'
	Taint     session.Tainted   `json:"taint,omitzero"`
	Jobs      []JobView         `json:"jobs"`
	Runs      []RunView         `json:"runs,omitzero"` // workflows under way
	LastRun   *session.LastRun  `json:"last_run,omitzero"`
}

// RunView is where a run of a workflow stands.
type RunView struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Task    string            `json:"task"`
	State   machine.State     `json:"state"`
	Stages  []StageView       `json:"stages"` // under way
	Waiting []string          `json:"waiting,omitzero"`
	Results []workflow.Result `json:"results,omitzero"`
}

// StageView is where a stage stands.
type StageView struct {
	ID       string        `json:"id"`
	Stage    string        `json:"stage"`
	State    machine.State `json:"state"`
	Visit    int           `json:"visit"`
	Attempt  int           `json:"attempt"`
	Attempts int           `json:"max_attempts"`
	Turns    int           `json:"turns"`    // model requests of this attempt, the present one included
	Answered int           `json:"answered"` // of these, how many were answered
	TurnCap  int           `json:"turn_cap"`
	Agent    string        `json:"agent,omitzero"`
}

// Place is where one instance stands.
type Place struct {
	Path     Path          `json:"path"`
	Machine  string        `json:"machine"`
	State    machine.State `json:"state"`
	Mode     machine.Mode  `json:"mode"`
	SinceMs  int64         `json:"since_ms"`
	SinceSeq uint64        `json:"since_seq"`
	Possible []string      `json:"possible,omitzero"`
	Detail   string        `json:"detail,omitzero"`
}

// JobView is work that is due.
type JobView struct {
	ID   string `json:"id"`
	Path Path   `json:"path"`
	Work string `json:"work"`
}

// View returns the present.
func (w *World) View() View {
	s := w.Session()
	root, _ := w.find(SessionPath)
	v := View{
		Log: w.log, Seq: w.seq, Title: s.Title, Mode: s.Config.Mode, Model: s.Config.Model, Dir: s.Config.Dir,
		ReadOnly: s.Config.ReadOnly,
		Why:      s.Why, SinceMs: root.since, Origin: s.Config.Origin, Stats: s.Stats, Waiting: s.Waiting,
		LastRun: s.LastRun, Questions: w.Questions(), State: w.State(SessionPath), Accounts: w.Accounts(), Taint: s.Taint,
	}
	if root.Instance != nil {
		v.Possible = root.Instance.Possible(true)
	}
	for _, p := range w.sorted() {
		n := w.live[p]
		v.Machines = append(v.Machines, Place{
			Path: p, Machine: n.Machine(), State: n.State(), Mode: n.Mode(), SinceMs: n.since, SinceSeq: n.seq,
			Possible: n.Instance.Possible(true), Detail: detail(n.Data()),
		})
	}
	for _, j := range w.Jobs() {
		v.Jobs = append(v.Jobs, JobView{j.ID, j.Path, machine.Verb(j.Work)})
	}
	for _, p := range w.Runs() {
		v.Runs = append(v.Runs, w.runView(p))
	}
	return v
}

func (w *World) runView(at Path) RunView {
	d := w.Run(at)
	v := RunView{ID: d.RunID, Name: d.Name, Task: d.Task, State: w.State(at), Stages: []StageView{}, Results: d.Results}
	for _, b := range d.Queue {
		v.Waiting = append(v.Waiting, b.Stage)
	}
	for _, p := range w.paths("stage", at) {
		s := data[stage.Data](w, p)
		used, open := s.Used, 0
		for _, a := range w.alive(s.AgentID) {
			for _, t := range w.paths("turn", a) {
				used += data[turn.Data](w, t).Requests
				if w.State(t) == "streaming" {
					open++
				}
			}
		}
		v.Stages = append(v.Stages, StageView{s.ExecutionID, s.Stage, w.State(p), s.Visit, s.Attempt, s.MaxAttempts, used, used - open, s.TurnCap, s.AgentID})
	}
	return v
}

func detail(d any) string {
	switch d := d.(type) {
	case tool.Data:
		return d.Call.Tool + " " + string(d.Call.Arguments)
	case turn.Data:
		return d.Input.Text
	case workflow.Data:
		return d.Name + " " + d.Task
	case stage.Data:
		return fmt.Sprintf("%s, attempt %d of %d", d.Stage, d.Attempt, d.MaxAttempts)
	}
	return ""
}

// microUSD is how many millionths of a dollar make one.
const microUSD = 1e6

// Meta returns what a listing shows, after a change at ts.
func (w *World) Meta(createdMs, updatedMs int64) runelog.Meta {
	s := w.Session()
	m := runelog.Meta{
		Log: w.log, Kind: "session", State: string(w.State(SessionPath)), Title: s.Title,
		CreatedMs: createdMs, UpdatedMs: updatedMs, Seq: w.seq,
		CostUSD: float64(w.session().account().Spent.MicroUSD) / microUSD,
	}
	switch {
	case w.modes.asking > 0:
		m.WaitsFor = "person"
	case w.modes.working > 0:
		m.WaitsFor = "work"
	}
	return m
}
