package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"stave/internal/machine/agent"
	"stave/internal/model"
	"stave/internal/runelog"
	"stave/internal/toolbox"
	"stave/internal/world"
)

// agents is how a running call speaks to the agents that work for its own.
type agents struct{ v *callEnv }

func (v *callEnv) Agents() toolbox.Agents { return agents{v} }

func (g agents) Spawn(ctx context.Context, s toolbox.AgentSpec) (string, error) {
	call := g.v.work.Call.CallID
	id := world.ChildID(call)
	return id, g.v.t.a.do(ctx, func(a *actor) error {
		if a.world.AgentState(id).Alive {
			return nil // this call started it before a crash
		}
		parent := a.world.Agent(g.v.t.job.Path)
		tools, err := a.e.subset(parent.Tools, s.Tools)
		if err != nil {
			return err
		}
		if g.v.work.Attempt > 1 {
			if _, ended, err := a.e.lastWord(ctx, a.log, id); err != nil || ended {
				return err // it has been and gone: Wait tells what became of it
			}
		}
		_, err = a.handle(ctx, world.Message{Path: world.ChildPath(call), By: "agent:" + parent.ID, Command: agent.Spawn{Spawning: agent.Spawning{
			AgentID: id, Role: s.Role, Model: s.Model, ParentID: parent.ID, Tools: tools, Depth: parent.Depth + 1,
			Budget: model.Amount{Tokens: s.Tokens, ToolCalls: s.ToolUses}, First: s.Task,
		}}})
		return err
	})
}

// subset returns the tools an agent gets: those asked for, if its parent has them.
func (e *Engine) subset(parents, asked []string) ([]string, error) {
	if asked == nil {
		return parents, nil
	}
	for _, name := range asked {
		_, known := e.lookup(name)
		if !known || parents != nil && !slices.Contains(parents, name) {
			return nil, fmt.Errorf("there is no tool called %s to give to an agent", name)
		}
	}
	return asked, nil
}

func (g agents) Wait(ctx context.Context, id string) (toolbox.AgentReport, error) {
	var now world.AgentState
	var seq uint64
	err := g.v.t.a.do(ctx, func(a *actor) error {
		now, seq = a.world.AgentState(id), a.world.Seq()
		return a.ofMine(g.v.t.job.Path, now)
	})
	if err != nil {
		return toolbox.AgentReport{}, err
	}
	log := g.v.t.a.log
	if !now.Alive {
		last, known, err := g.v.e.lastWord(ctx, log, id)
		if err == nil && !known {
			err = fmt.Errorf("there is no agent %s", id)
		}
		return last, err
	}
	if !now.Busy {
		return toolbox.AgentReport{Outcome: now.Outcome, Answer: now.Answer}, nil
	}
	path := "agent:" + id
	var last toolbox.AgentReport
	for r, err := range g.v.e.opt.Log.Watch(ctx, log, seq) {
		if err != nil {
			return last, err
		}
		if r.Path != path {
			continue
		}
		ended, err := hear(&last, r)
		if err != nil {
			return last, err
		}
		if ended {
			return last, nil
		}
		if r.Kind == "agent.turn_ended" {
			rest := false
			err := g.v.t.a.do(ctx, func(a *actor) error { rest = !a.world.AgentState(id).Busy; return nil })
			if err != nil || rest {
				return last, err
			}
		}
	}
	return last, ctx.Err()
}

// hear keeps what an agent's runes say of its work; ended says that it is gone.
func hear(last *toolbox.AgentReport, r runelog.Rune) (ended bool, err error) {
	e, err := world.EventOf(r)
	switch e := e.(type) {
	case agent.TurnEnded:
		*last = toolbox.AgentReport{Outcome: e.Outcome, Answer: e.Output}
	case agent.Terminated:
		if last.Outcome != "completed" {
			last.Outcome = "ended: " + e.Reason
		}
		return true, err
	case agent.Failed:
		last.Outcome = "failed: " + e.Error
		return true, err
	}
	return false, err
}

// lastWord finds in the log what became of an agent that is gone.
func (e *Engine) lastWord(ctx context.Context, log, id string) (last toolbox.AgentReport, known bool, err error) {
	for r, err := range e.opt.Log.Read(ctx, log, 0) {
		if err != nil {
			return last, known, err
		}
		if r.Path == "agent:"+id {
			known = true
			if _, err := hear(&last, r); err != nil {
				return last, known, err
			}
		}
	}
	return last, known, nil
}

// ofMine holds that an agent speaks only to those that work for it.
func (a *actor) ofMine(at world.Path, s world.AgentState) error {
	if s.Alive && s.Parent != a.world.Agent(at).ID {
		return fmt.Errorf("agent %s does not work for you", s.ID)
	}
	return nil
}

var errNoAgent = errors.New("it is not there: it has ended, or never was")

func (g agents) Tell(ctx context.Context, id, text string) error {
	return g.command(ctx, id, func(a *actor, p world.Path) error {
		_, err := a.handle(ctx, world.Message{Path: p, By: "agent:" + a.world.Agent(g.v.t.job.Path).ID, Command: agent.Tell{Told: agent.Told{Text: text}}})
		return err
	})
}

func (g agents) Close(ctx context.Context, id string) error {
	err := g.command(ctx, id, func(a *actor, p world.Path) error {
		_, err := a.handle(ctx, world.Message{Path: p, By: "agent:" + a.world.Agent(g.v.t.job.Path).ID, Command: agent.Kill{Reason: "closed by its parent", Force: true}})
		return err
	})
	if errors.Is(err, errNoAgent) {
		return nil
	}
	return err
}

func (g agents) command(ctx context.Context, id string, f func(*actor, world.Path) error) error {
	return g.v.t.a.do(ctx, func(a *actor) error {
		s := a.world.AgentState(id)
		if !s.Alive {
			return fmt.Errorf("agent %s: %w", id, errNoAgent)
		}
		if err := a.ofMine(g.v.t.job.Path, s); err != nil {
			return err
		}
		return f(a, world.Path("agent:"+id))
	})
}
