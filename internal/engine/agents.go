package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
		if err == nil {
			err = a.e.mayUse(s.Model, parent.Model)
		}
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

// mayUse holds that an agent chooses only among models a person has set up: a
// script is a file, which is not for it to name.
func (e *Engine) mayUse(name, parents string) error {
	if name == "" || name == parents {
		return nil
	}
	if strings.Contains(name, ":") {
		return fmt.Errorf("there is no model called %s for an agent; leave it out to use your own", name)
	}
	if _, err := e.opt.Provider(e.ctx, name); err != nil {
		return fmt.Errorf("there is no model called %s for an agent; leave it out to use your own", name)
	}
	return nil
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
	for {
		var now world.AgentState
		var news chan struct{}
		err := g.v.t.a.do(ctx, func(a *actor) error {
			now = a.world.AgentState(id)
			err := a.ofMine(g.v.t.job.Path, now)
			if err == nil && now.Busy {
				news = a.newsOf(world.Path("agent:"+id), g.v.t.job)
			}
			return err
		})
		switch {
		case err != nil:
			return toolbox.AgentReport{}, err
		case !now.Alive:
			last, known, err := g.v.e.lastWord(ctx, g.v.t.a.log, id)
			if err == nil && !known {
				err = fmt.Errorf("there is no agent %s", id)
			}
			return last, err
		case !now.Busy:
			return toolbox.AgentReport{Outcome: now.Outcome, Answer: now.Answer}, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return toolbox.AgentReport{}, ctx.Err()
		}
	}
}

// watcher is a job that stands until something became of an agent.
type watcher struct {
	news chan struct{} // closed then
	job  *running      // nil if it is not at work any more
}

// newsOf returns a channel that is closed when something became of an agent. The
// job stands until then.
func (a *actor) newsOf(p world.Path, j world.Job) chan struct{} {
	w := watcher{news: make(chan struct{})}
	r := a.running[j.Path]
	if r != nil && r.job.ID == j.ID {
		w.job, r.stands = r, true
	}
	a.awaiting[p] = append(a.awaiting[p], w)
	if w.job != nil && a.draining {
		a.stop(j.Path) // as all that stood when that began
	}
	return w.news
}

// tell lets the job go on.
func (w watcher) tell() {
	if w.job != nil {
		w.job.stands = false
	}
	close(w.news)
}

// heard passes on what was written: to the transcripts it concerns, and to those
// who wait for an agent. An agent that begins has nothing behind it, and one that
// ended says nothing more.
func (a *actor) heard(change *world.Change) {
	concerned := map[world.Path]bool{}
	for _, r := range change.Runes {
		p := world.Path(r.Path)
		who := world.AgentOf(p)
		switch {
		case who == "":
			concerned[world.RootPath] = true
			continue
		case r.Kind == "agent.spawning" && who != world.RootPath:
			a.transcripts[who] = world.NewTranscript(who)
		case r.Kind == "agent.turn_ended" || r.Kind == "agent.terminated" || r.Kind == "agent.failed":
			for _, w := range a.awaiting[who] {
				w.tell()
			}
			delete(a.awaiting, who)
		}
		concerned[who] = true
	}
	for who := range concerned {
		if t := a.transcripts[who]; t != nil {
			t.Hear(change)
		}
		if who != world.RootPath && a.world.State(who) == "" {
			delete(a.transcripts, who)
		}
	}
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

// ofMine holds that an agent speaks only to those that work for it. One that works
// for a stage has nobody to listen to.
func (a *actor) ofMine(at world.Path, s world.AgentState) error {
	if s.Alive && (s.Parent != a.world.Agent(at).ID || s.Stage) {
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
