package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"stave/internal/engine"
	"stave/internal/machine"
	run "stave/internal/machine/workflow"
	"stave/internal/world"
)

// maxParallel bounds how many stages one may ask to run side by side.
const maxParallel = 64

func (a *app) runCmd() *cobra.Command {
	f := &askFlags{}
	parallel := 0
	cmd := &cobra.Command{
		Use:   "run WORKFLOW TASK",
		Short: "Run a workflow: a pipeline of stages, each with its own transcript, tools and limits",
		Long: `Begins a conversation, or goes on with one, and runs a workflow in it. WORKFLOW is a name
(` + "`stave workflow ls`" + ` lists them) or the path of a file. Progress goes to stderr; what the run
handed in goes to stdout. Meanwhile "/pause", "/model NAME", "/why" and their like can be typed; "/help" lists them.
A call outside of a stage's tools asks at the terminal, in every mode; the stage goes on if it is denied.
Ctrl-C ends the run. A run that was cut off by a crash goes on with ` + "`stave resume`" + `.`,
		Example: "  stave run codeReview \"refactor auth module\"\n" +
			"  stave run fixTests --mode yolo --headless \"go test ./...\"\n" +
			"  stave run --continue ./release.yaml \"version 1.2\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.given = cmd.Flags().Changed
			if len(args) == 0 {
				return badInput("run: WORKFLOW is missing; `%s` lists them", a.command("workflow ls"))
			}
			if f.given("parallel") && parallel < 1 || parallel > maxParallel {
				return badInput("--parallel %d: choose 1 to %d stages", parallel, maxParallel)
			}
			task, err := a.prompt(args[1:])
			if err != nil {
				return badInput("run: TASK is missing; say what %s is to do, or pipe it in", args[0])
			}
			return a.runWorkflow(f, args[0], task, parallel)
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().IntVar(&parallel, "parallel", 0, fmt.Sprintf("stages that may run side by side (default %d)", engine.DefaultParallel))
	return cmd
}

// runWorkflow runs a workflow in a new conversation, or in the one that is meant.
func (a *app) runWorkflow(f *askFlags, name, task string, parallel int) error {
	err := f.check()
	if err == nil {
		f.dir, err = workDir(f.dir)
	}
	var w foundWorkflow
	if err == nil && f.begins() { // before anything else is asked for
		w, err = a.findWorkflow(f.dir, name)
	}
	if err == nil {
		err = a.resolve(f)
	}
	if err != nil {
		return err
	}
	ctx, start := context.Background(), engine.Run{Task: task, Parallel: parallel, Headless: f.headless, By: a.by()}
	return a.working(func(h *host) error {
		if f.begins() {
			return a.beginRun(ctx, h, f, w, start)
		}
		return a.runIn(ctx, h, f, name, start)
	})
}

// beginRun runs a workflow in a new conversation.
func (a *app) beginRun(ctx context.Context, h *host, f *askFlags, w foundWorkflow, r engine.Run) error {
	cfg, err := a.begin(f)
	if err == nil {
		err = a.enter(h, cfg.Dir)
	}
	if err != nil {
		return err
	}
	r.Definition, r.Source = w.Definition, w.where()
	log, err := h.engine.Begin(ctx, engine.Begin{Title: w.ID + ": " + r.Task, Headless: r.Headless, By: r.By, Config: cfg, Run: &r})
	if err != nil {
		return badInput("%w", err)
	}
	if note := wallsNote(cfg, h.commands.walls); note != "" {
		a.note("stave: %s", note)
	}
	// No other run is in it, so there is none to tell it from.
	return a.finish(h, world.View{Log: log, Dir: cfg.Dir})
}

// runIn runs a workflow in a conversation that exists.
func (a *app) runIn(ctx context.Context, h *host, f *askFlags, name string, r engine.Run) error {
	v, err := h.earlier(ctx, f)
	if err != nil {
		return err
	}
	was, err := h.config(ctx, v.Log)
	if err == nil {
		err = errors.Join(f.fits(v.Log, was), a.mayBegin(v))
	}
	if err != nil {
		return err
	}
	w, err := a.findWorkflow(v.Dir, name)
	if err == nil {
		err = a.enter(h, v.Dir)
	}
	if err != nil {
		return err
	}
	r.Definition, r.Source = w.Definition, w.where()
	id, err := h.engine.StartRun(ctx, v.Log, r)
	if err != nil {
		return badInput("%w", err)
	}
	return a.finishRun(h, v, id)
}

// mayBegin refuses to begin something in a conversation that a person has to let
// go on first.
func (a *app) mayBegin(v world.View) error {
	switch {
	case v.State == "suspended" && strings.HasPrefix(v.Why, budgetReason):
		return a.suspended(v, v.Why)
	case v.State == "paused" || v.State == "suspended":
		return badInput("%s: it is %s; `%s` goes on first", v.Log, v.State, a.command("resume %s", v.Log))
	}
	return nil
}

// where is what a later look for the same workflow goes by.
func (w foundWorkflow) where() string {
	if w.source == fromFile {
		if path, err := filepath.Abs(w.path); err == nil {
			return path // a run may go on from another directory
		}
		return w.path
	}
	return ""
}

// definitionNow is the hash of the workflow that a run would begin with now, a
// word where there is none.
func (a *app) definitionNow(dir, source, name string) string {
	if source != "" {
		name = source
	}
	quiet := *a
	quiet.console.err = &bytes.Buffer{} // what is wrong with other workflows is not the question
	w, err := quiet.findWorkflow(dir, name)
	if err != nil {
		return "none"
	}
	return w.Hash
}

// cancelRuns ends the workflows of a conversation and reports whether there was one.
func (h *host) cancelRuns(ctx context.Context, v world.View, by string) (bool, error) {
	for _, r := range v.Runs {
		_, err := h.engine.Tell(ctx, world.Message{Log: v.Log, Path: world.RunPath(r.ID), By: by, Command: run.Cancel{Reason: "interrupted"}})
		var over *machine.Refusal
		if err != nil && !errors.As(err, &over) {
			return true, err
		}
	}
	return len(v.Runs) > 0, nil
}

// runError is a run that did not get to its end, in words of its own.
type runError struct {
	text string
	kind error // which its exit code hangs on
}

func (e runError) Error() string { return e.text }
func (e runError) Unwrap() error { return e.kind }

// runErr words how a run ended that is not a success.
func (n ending) runErr(a *app) error {
	switch e := n.run.(type) {
	case run.Failed:
		kind := errTurnFailed
		if n.broke {
			kind = errBudget
		}
		return runError{fmt.Sprintf("the workflow %s failed: %s; `%s` tells how it came to that", e.Name, e.Error, a.command("replay %s", n.view.Log)), kind}
	case run.Cancelled:
		err := errTurnFailed
		if n.cut {
			err = errInterrupted
		}
		return runError{fmt.Sprintf("the workflow %s was cancelled: %s; `%s` tells how far it came", e.Name, e.Reason, a.command("replay %s", n.view.Log)), err}
	}
	return nil
}

// resultText is what a run handed in, for people: what the stage said that it ended
// with, or each of several under its name. Where that is nothing, as of a stage that
// was skipped, it is the latest that there is.
func resultText(e run.Completed) string {
	var ends []string
	for _, id := range e.Ends {
		i := slices.IndexFunc(e.Results, func(r run.Result) bool { return r.Stage == id })
		if i < 0 {
			continue
		}
		if text := outputText(e.Results[i]); len(e.Ends) == 1 {
			ends = append(ends, text)
		} else if text != "" {
			ends = append(ends, id+":\n  "+strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	text := strings.Join(ends, "\n")
	for _, r := range slices.Backward(e.Results) {
		if text == "" {
			text = outputText(r)
		}
	}
	return text
}

// outputText is what a stage handed in: YAML is JSON that can be read.
func outputText(r run.Result) string {
	var value any
	d := json.NewDecoder(bytes.NewReader(r.Output))
	d.UseNumber()
	if len(r.Output) == 0 || d.Decode(&value) != nil {
		return ""
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(readable(value)); err != nil {
		return string(r.Output)
	}
	return strings.TrimRight(b.String(), "\n")
}

// readable lets numbers be written as they came, and what is short come first.
func readable(v any) *yaml.Node {
	n := &yaml.Node{}
	switch v := v.(type) {
	case json.Number:
		n = &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
	case []any:
		n.Kind = yaml.SequenceNode
		for _, item := range v {
			n.Content = append(n.Content, readable(item))
		}
	case map[string]any:
		n.Kind = yaml.MappingNode
		var nested []*yaml.Node
		for _, k := range slices.Sorted(maps.Keys(v)) {
			pair := []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: k}, readable(v[k])}
			if pair[1].Kind == yaml.ScalarNode {
				n.Content = append(n.Content, pair...)
			} else {
				nested = append(nested, pair...)
			}
		}
		n.Content = append(n.Content, nested...)
	default:
		_ = n.Encode(v) // text, truth and nothing can be written
	}
	return n
}
