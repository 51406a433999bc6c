package main

import (
	"context"
	"strings"

	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/workflow"
	"stave/internal/world"
)

// crew are the agents that work for stages, by their ids: those that a stage has
// started, and those that these have.
type crew map[string]bool

func (c crew) add(e agent.Spawning) {
	if e.Stage != "" || c[e.ParentID] {
		c[e.AgentID] = true
	}
}

// did reports whether one of them did what happened at a path.
func (c crew) did(path string) bool { return c[world.AgentOf(world.Path(path)).Name()] }

// crewOf are those of a conversation as it is. A view does not say who started
// whom; where there is somebody to ask about, the log does.
func (h *host) crewOf(ctx context.Context, v world.View) (crew, error) {
	c, agents := crew{}, 0
	for _, r := range v.Runs {
		for _, s := range r.Stages {
			if s.Agent != "" {
				c[s.Agent] = true
			}
		}
	}
	for _, m := range v.Machines {
		if m.Machine == "agent" && m.Path != world.RootPath && !c[m.Path.Name()] {
			agents++
		}
	}
	if len(c) == 0 || agents == 0 {
		return c, nil
	}
	for r, err := range h.log.Read(ctx, v.Log, 0) {
		if err != nil {
			return nil, err
		}
		if r.Seq > v.Seq {
			break
		}
		e, err := world.EventOf(r)
		if err != nil {
			return nil, err
		}
		if spawned, ok := e.(agent.Spawning); ok {
			c.add(spawned)
		}
	}
	return c, nil
}

// rememberRun keeps what an event of a run says about the ending.
func (f *follower) rememberRun(path string, e any) {
	switch e := e.(type) {
	case agent.Spawning:
		f.crew.add(e)
	case stage.ActEnded:
		f.broke[path] = ofBudget(e.Error)
	case stage.Failed:
		f.ending.broke = f.ending.broke || f.broke[path]
	case workflow.DefinitionChanged:
		f.asking = true
	case workflow.Started:
		if f.counts(e.RunID) {
			f.ending.run = nil
		}
	case workflow.Completed:
		f.endRun(e.RunID, e)
	case workflow.Failed:
		f.endRun(e.RunID, e)
	case workflow.Cancelled:
		f.endRun(e.RunID, e)
	}
}

func (f *follower) endRun(run string, e any) {
	if f.counts(run) {
		f.ending.run = e
	}
}

// counts reports whether the command ends as this run does.
func (f *follower) counts(run string) bool { return f.mine == "" || f.mine == run }

// ofBudget reports whether an agent could not go on because a limit was reached.
func ofBudget(why string) bool {
	return strings.HasPrefix(why, errBudget.Error()) || strings.HasPrefix(why, session.BudgetReason)
}
