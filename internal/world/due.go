package world

import (
	"maps"
	"slices"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
)

// Job is work that the present state of one instance calls for.
type Job struct {
	ID   string // fencing id: changes when the work must be done anew
	Path Path
	Work any
}

// Question is something only a person can decide now.
type Question struct {
	ID      string   `json:"id"`
	Log     string   `json:"log"`
	Path    Path     `json:"path"`
	Kind    string   `json:"kind"` // may_run, what_to_say, what_happened
	Ask     any      `json:"ask"`
	Choices []string `json:"choices"`
	SinceMs int64    `json:"since_ms"`
	// DeadlineMs is when the question answers itself with a timeout, 0 for never.
	DeadlineMs int64 `json:"deadline_ms,omitzero"`
}

// JobAt returns the job of the instance at a path.
func (w *World) JobAt(p Path) (Job, bool) {
	n, ok := w.find(p)
	if !ok || n.Mode() != machine.ModeWork || w.held(p) {
		return Job{}, false
	}
	work := n.Due()
	key := work.(interface{ Key() string }).Key()
	return Job{ID: string(p) + "#" + key, Path: p, Work: work}, true
}

// QuestionAt returns the question of the instance at a path.
func (w *World) QuestionAt(p Path) (Question, bool) {
	n, ok := w.find(p)
	if !ok || n.Mode() != machine.ModeAsk {
		return Question{}, false
	}
	ask := n.Due()
	q := Question{
		ID: p.Name(), Log: w.log, Path: p, Kind: machine.Verb(ask), Ask: ask,
		Choices: choices(ask, n.Possible(true)), SinceMs: n.since,
	}
	if limit := w.Session().Config.AnswerMs; limit > 0 {
		q.DeadlineMs = n.since + limit
	}
	return q, true
}

// choices leaves out the answers that fit only another kind of question: a call is
// approved, a question gets a reply, and only a grant can be deferred.
func choices(ask any, possible []string) []string {
	unfit := []string{machine.Verb(tool.Reply{}), machine.Verb(tool.Defer{})}
	switch ask.(type) {
	case tool.WhatToSay:
		unfit[0] = machine.Verb(tool.Approve{})
	case tool.GrantStageTool:
		unfit = unfit[:1]
	}
	return slices.DeleteFunc(possible, func(verb string) bool { return slices.Contains(unfit, verb) })
}

// Jobs returns all work that is due, in path order.
func (w *World) Jobs() []Job {
	var jobs []Job
	for _, p := range w.sorted() {
		if j, ok := w.JobAt(p); ok {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// Questions returns all open questions, in path order.
func (w *World) Questions() []Question {
	var qs []Question
	for _, p := range w.sorted() {
		if q, ok := w.QuestionAt(p); ok {
			qs = append(qs, q)
		}
	}
	return qs
}

func (w *World) sorted() []Path { return slices.Sorted(maps.Keys(w.live)) }

func (w *World) isDue(p Path, id string) bool {
	j, ok := w.JobAt(p)
	return ok && j.ID == id
}

// Recovery returns the message that tells a session its process died, and false
// if nothing was under way. headless says that nobody is there now.
func (w *World) Recovery(headless bool) (Message, bool) {
	if len(w.broken()) == 0 && (!headless || len(w.Questions()) == 0) {
		return Message{}, false
	}
	return Message{
		Log: w.log, Path: SessionPath, By: engineName,
		Command: session.Recover{Progress: w.progress, Headless: headless},
	}, true
}

// broken returns the jobs that broke off when their process ended. One that stood
// did not: it waits on, in this process as in the one before.
func (w *World) broken() []Job { return slices.DeleteFunc(w.Jobs(), w.stood) }

// stood says that a job was only waiting for an agent, which is still busy.
func (w *World) stood(j Job) bool {
	run, ok := j.Work.(tool.RunTool)
	if !ok {
		return false
	}
	if w.AgentState(ChildID(run.Call.CallID)).Busy {
		return true
	}
	who := w.Agent(j.Path).ID
	return run.Call.Waits && slices.ContainsFunc(w.paths("agent", ""), func(p Path) bool {
		d := data[agent.Data](w, p)
		return d.ParentID == who && w.AgentState(d.AgentID).Busy
	})
}

// Losses returns a message for every job that died with its process and has
// something to say about it; the others are simply started again. Take it before
// the recovery is told: what becomes due by that was never begun, and a loss
// whose job the recovery ended is stale.
func (w *World) Losses() []Message {
	var ms []Message
	for _, j := range w.broken() {
		n, _ := w.find(j.Path)
		if slices.Contains(n.Possible(false), machine.Verb(machine.Lost{})) {
			ms = append(ms, Message{Log: w.log, Path: j.Path, Command: machine.Lost{}, By: engineName, Job: j.ID})
		}
	}
	return ms
}
