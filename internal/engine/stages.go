package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"stave/internal/machine"
	"stave/internal/machine/stage"
	run "stave/internal/machine/workflow"
	"stave/internal/model"
	"stave/internal/runelog"
	"stave/internal/toolbox"
	"stave/internal/workflow"
	"stave/internal/world"
)

const (
	// DefaultParallel is how many stages of a run may be under way at once.
	DefaultParallel = 4
	// maxEntered bounds the stages one run may enter, whatever its rules say.
	maxEntered = 1000
	// phaseLimit is how long a phase may take that only thinks.
	phaseLimit = time.Minute
)

// Run is a workflow to be started.
type Run struct {
	Definition workflow.Definition
	Source     string // where it was found, so that a change is noticed later
	Task       string
	Parallel   int // stages at once; 0 is DefaultParallel
	Headless   bool
	By         string
}

// StartRun starts a workflow in a conversation and returns the run's id.
func (e *Engine) StartRun(ctx context.Context, log string, r Run) (id string, err error) {
	err = e.with(ctx, log, opening{}, func(a *actor) error {
		start, err := e.newRun(r, a.world.Session().RootAgentID)
		if err != nil {
			return err
		}
		id = start.Path.Name()
		_, err = a.handle(ctx, world.Message{Path: start.Path, By: r.By, Command: start.Command})
		return err
	})
	return id, err
}

// newRun checks a workflow and makes the command that starts it.
func (e *Engine) newRun(r Run, root string) (world.Aside, error) {
	if err := workflow.Check(r.Definition, e.toolNames()); err != nil {
		return world.Aside{}, err
	}
	text, err := json.Marshal(r.Definition)
	if err != nil {
		return world.Aside{}, err
	}
	// As its log will give it back, so that a schema is the same after a restart.
	def, err := runelog.Canonicalize(text)
	if err != nil {
		return world.Aside{}, err
	}
	first, _ := r.Definition.Stage(r.Definition.First)
	setDefault(&r.Parallel, DefaultParallel)
	id := e.opt.NewID("run")
	return world.Aside{Path: world.RunPath(id), Command: run.Start{
		Started: run.Started{
			RunID: id, Name: r.Definition.ID, Hash: r.Definition.Hash, Definition: json.RawMessage(def), Source: r.Source, Task: r.Task,
			ParentID: root, Budget: r.Definition.Budget, Parallel: r.Parallel, Headless: r.Headless,
		},
		Stages: []run.Brief{brief(r.Definition, first)},
	}}, nil
}

func brief(d workflow.Definition, s workflow.Stage) run.Brief {
	return run.Brief{
		Stage: s.ID, Completion: s.CompletionTool, TurnCap: s.TurnCap, MaxAttempts: s.RetryPolicy.MaxAttempts, Model: cmp.Or(s.Model, d.Model), Budget: s.Budget,
	}
}

// ToolList returns the tools that agents have.
func (e *Engine) ToolList() []toolbox.Tool { return e.allowed(nil) }

func (e *Engine) toolNames() []string {
	var names []string
	for _, t := range e.allowed(nil) {
		names = append(names, t.Name)
	}
	return names
}

// definition reads what a run began with.
func definition(d run.Data) (workflow.Definition, error) {
	var def workflow.Definition
	if err := json.Unmarshal(d.Definition, &def); err != nil {
		return def, fmt.Errorf("reading the definition of workflow %s: %w", d.Name, err)
	}
	return def, nil
}

// phase is a stage with all that its rules may know.
type phase struct {
	workflow.Stage
	data stage.Data
	run  run.Data
	def  workflow.Definition
	ctx  workflow.Context // from Setup on
}

func (a *actor) phaseAt(at world.Path) (phase, error) {
	p := phase{}
	p.data, p.run = a.world.Stage(at)
	var err error
	if p.def, err = definition(p.run); err != nil {
		return p, err
	}
	var ok bool
	if p.Stage, ok = p.def.Stage(p.data.Stage); !ok {
		return p, fmt.Errorf("workflow %s has no stage %s", p.def.ID, p.data.Stage)
	}
	if len(p.data.Context) > 0 {
		err = json.Unmarshal(p.data.Context, &p.ctx)
	}
	return p, err
}

// stagePhase performs what a stage does between its turns. Nothing of it changes
// anything outside, so it may be done again.
func (a *actor) stagePhase(j world.Job) (work, error) {
	p, err := a.phaseAt(j.Path)
	if err != nil {
		return nil, err
	}
	tools := a.e.toolNames()
	return func(ctx context.Context, _ teller) (machine.Command, error) {
		c, err := p.perform(ctx, j.Work, tools)
		if err != nil {
			return nil, err // a phase that broke has no other word
		}
		return c, nil
	}, nil
}

func (p phase) perform(ctx context.Context, w any, tools []string) (machine.Command, error) {
	switch w.(type) {
	case stage.SetUp:
		return p.setUp(tools)
	case stage.Render:
		prompt, err := p.Prompt(p.ctx)
		return stage.Initialize{Prompt: prompt}, err
	case stage.CheckGate:
		verdict, err := p.CheckGate(p.ctx)
		return stage.Gate{Verdict: verdict}, err
	case stage.Judge:
		return p.judge()
	}
	return stage.Again{}, sleep(ctx, p.RetryPolicy.Delay(p.data.Attempt))
}

// setUp fills the context: the task, what the stages before came to, and the tools
// the conversation has. Stages that run side by side see nothing of each other,
// in whatever order they end.
func (p phase) setUp(tools []string) (machine.Command, error) {
	c := workflow.Context{
		Task: p.run.Task, Attempt: p.data.Attempt, Visit: p.data.Visit, Reason: p.data.Reason,
		AllowedTools: []string{}, Upstream: []workflow.StageResult{},
	}
	known := p.run.Results
	if slices.Contains(p.run.Group, p.ID) {
		known = p.run.Frozen
	}
	for _, r := range known {
		c.Upstream = p.def.Merge(c.Upstream, workflow.StageResult(r))
	}
	done := stage.Prepared{All: slices.Equal(p.AllowedTools, []string{workflow.AllTools})}
	for _, name := range p.AllowedTools {
		if !done.All && !slices.Contains(tools, name) {
			done.Dropped = append(done.Dropped, name)
		} else if !done.All {
			c.AllowedTools = append(c.AllowedTools, name)
		}
	}
	if done.All {
		c.AllowedTools = tools
	}
	c, err := p.Setup(c)
	if err == nil {
		done.Tools = c.AllowedTools
		done.Context, err = json.Marshal(c)
	}
	return stage.Prepare{Prepared: done}, err
}

// judge says what an attempt came to. One that did not act, or whose agent could
// not go on, is not measured by the rule.
func (p phase) judge() (machine.Command, error) {
	switch {
	case p.data.Gate != "":
		return stage.Assert{Verdict: p.data.Gate}, nil
	case hopeless(p.data.Error):
		return stage.Assert{Verdict: workflow.Fail, Reason: p.data.Error}, nil
	case p.data.Error != "":
		return stage.Assert{Verdict: workflow.Retry}, nil
	}
	result := p.data.Result()
	result.Status = workflow.OK
	verdict, err := p.Judge(p.ctx, workflow.StageResult(result))
	reason := ""
	if p.Assert != "" && !result.CapHit && (verdict == workflow.Retry || verdict == workflow.Fail) {
		reason = "its result does not pass: " + p.Assert
	}
	return stage.Assert{Verdict: verdict, Reason: reason}, err
}

// hopeless says that another attempt would end as this one did: there is nothing
// left to spend, or the model service refuses such calls.
func hopeless(err string) bool {
	for _, kind := range []model.ErrorKind{model.ErrAuth, model.ErrBadRequest} {
		if strings.HasPrefix(err, "error: "+string(kind)) {
			return true
		}
	}
	return strings.Contains(err, "budget")
}

// chooseNext asks the rules of the last stage what follows. They see its result
// and nothing else.
func (a *actor) chooseNext(j world.Job) (work, error) {
	d := a.world.Run(j.Path)
	def, err := definition(d)
	if err != nil {
		return nil, err
	}
	return func(context.Context, teller) (machine.Command, error) {
		last, ok := def.Stage(d.Last)
		result, known := d.Result(d.Last)
		if !ok || !known {
			return nil, fmt.Errorf("workflow %s has no result of stage %q", def.ID, d.Last)
		}
		choice, err := last.Choose(workflow.StageResult(result))
		if err != nil {
			return nil, err
		}
		next := run.StagesChosen{After: last.ID, Execution: choice.Execution}
		for _, id := range choice.Stages {
			b, err := enter(def, d, id)
			if err != nil {
				return nil, err
			}
			next.Stages = append(next.Stages, b)
		}
		if choice.Join != "" {
			b, err := enter(def, d, choice.Join)
			if err != nil {
				return nil, err
			}
			next.Join = &b
		}
		return run.Choose{StagesChosen: next}, nil
	}, nil
}

// enter lets a stage be chosen unless a cap is against it.
func enter(def workflow.Definition, d run.Data, id string) (run.Brief, error) {
	s, ok := def.Stage(id)
	if !ok {
		return run.Brief{}, fmt.Errorf("workflow %s has no stage %s", def.ID, id)
	}
	if d.Entered() >= maxEntered {
		return run.Brief{}, fmt.Errorf("the run has entered %d stages, which is the most one may", maxEntered)
	}
	return brief(def, s), s.Visit(d.Visits[id])
}

// completion is the tool by which a stage's agent hands in its result. Its schema
// is checked when it runs: what is wrong goes to the model on the same transcript.
func completion(s workflow.Stage) toolbox.Tool {
	return toolbox.Tool{
		Name: s.CompletionTool, Schema: s.CompletionSchema, Safety: toolbox.ReadOnly,
		Description: "Hand in the result of this stage, which ends it. Call it once, when the work is done, and alone.",
		Check:       func(json.RawMessage) error { return nil },
		Run: func(_ context.Context, _ toolbox.Env, args json.RawMessage) (toolbox.Output, error) {
			if err := s.Accept(args); err != nil {
				return toolbox.Output{}, err
			}
			return toolbox.Output{Text: "accepted"}, nil
		},
	}
}

// repertoire is what an agent may call: the tools the model is shown, and those it
// is understood to mean when it calls one that is not shown. In a stage the latter
// are all of the conversation's: the gate asks a person about them.
func (a *actor) repertoire(who world.Who) (shown, known []toolbox.Tool, err error) {
	known = traitsIn(a.world.Session().Config, a.e.allowed(who.Tools))
	if who.Stage == "" {
		return known, known, nil
	}
	p, err := a.phaseAt(who.Stage)
	if err != nil {
		return nil, nil, err
	}
	known = append(known, completion(p.Stage))
	shown = slices.DeleteFunc(slices.Clone(known), func(t toolbox.Tool) bool { return !p.data.Allows(t.Name) })
	return shown, known, nil
}

// lastTool is the one that ends an agent's stage, "" where there is none.
func (a *actor) lastTool(who world.Who) string {
	if who.Stage == "" {
		return ""
	}
	d, _ := a.world.Stage(who.Stage)
	return d.Completion
}

// toolAt finds the tool of a call, at whose place stands what its stage adds.
func (a *actor) toolAt(at world.Path, name string) (toolbox.Tool, bool) {
	if who := a.world.Agent(at); who.Stage != "" {
		if p, err := a.phaseAt(who.Stage); err == nil && p.CompletionTool == name {
			return completion(p.Stage), true
		}
	}
	return a.e.lookup(name)
}

// drifted tells the runs of a log whose definition is another by now.
func (a *actor) drifted() error {
	if a.e.opt.Definition == nil {
		return nil
	}
	for _, at := range a.world.Runs() {
		d := a.world.Run(at)
		hash := a.e.opt.Definition(a.world.Session().Config.Dir, d.Source, d.Name)
		if hash == d.Hash && a.world.State(at) != "changed" {
			continue
		}
		var refused *machine.Refusal
		if _, err := a.write(a.e.ctx, world.Message{Path: at, By: "engine", Command: run.Drift{Hash: hash}}); err != nil && !errors.As(err, &refused) {
			return err
		}
	}
	return nil
}
