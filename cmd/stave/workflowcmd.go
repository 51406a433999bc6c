package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"stave/internal/workflow"
)

func (a *app) workflowCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workflow",
		Short: "The workflows there are: list, check, draw, read and write them",
		Long: `A workflow is a file of stages and the rules that decide their order. There are those that come with the program, your
own in ` + "`workflows`" + ` of the data directory, and those in ` + "`.stave/workflows`" + ` of a project you trust. A WORKFLOW is the
name of one of them, or the path of a file.`,
		Example: "  stave workflow ls\n  stave workflow show codeReview\n  stave workflow new mine --from codeReview\n" +
			"  stave workflow check mine\n  stave workflow graph mine",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "ls", Short: "List the workflows", Args: atMost(0),
			Example: "  stave workflow ls\n  stave workflow ls --json",
			RunE:    func(*cobra.Command, []string) error { return a.listWorkflows() },
		},
		&cobra.Command{
			Use: "check WORKFLOW…", Short: "Say everything that is wrong with workflows, and what to write instead", Args: atLeast("WORKFLOW"),
			Example: "  stave workflow check mine\n  stave workflow check .stave/workflows/release.yaml --json",
			RunE:    func(_ *cobra.Command, args []string) error { return a.checkWorkflows(args) },
		},
		&cobra.Command{
			Use: "graph WORKFLOW", Short: "Draw the ways a run can go, as a Mermaid flowchart", Args: exactly("WORKFLOW"),
			Example: "  stave workflow graph ralph\n  stave workflow graph mine.yaml --json",
			RunE:    func(_ *cobra.Command, args []string) error { return a.drawWorkflow(args[0]) },
		},
		&cobra.Command{
			Use: "show WORKFLOW", Short: "Print a workflow's file", Args: exactly("WORKFLOW"),
			Example: "  stave workflow show codeReview\n  stave workflow show codeReview --json",
			RunE:    func(_ *cobra.Command, args []string) error { return a.showWorkflow(args[0]) },
		},
		a.newWorkflowCmd(),
	)
	return cmd
}

// workflowJSON is a workflow as programs read it.
type workflowJSON struct {
	Name        string               `json:"name"`
	Source      string               `json:"source"` // own, bundled, project, file
	File        string               `json:"file"`
	Counts      bool                 `json:"counts"` // its name leads to it
	Why         string               `json:"why,omitzero"`
	Title       string               `json:"title,omitzero"`
	Description string               `json:"description,omitzero"`
	Stages      []string             `json:"stages,omitzero"`
	Hash        string               `json:"hash,omitzero"`
	Text        string               `json:"text,omitzero"`       // of show
	Definition  *workflow.Definition `json:"definition,omitzero"` // of show, settled
}

func (w foundWorkflow) toJSON() workflowJSON {
	j := workflowJSON{Name: w.name, Source: w.source, File: w.path, Counts: w.counts(), Why: w.behind}
	if w.err != nil {
		j.Why = w.err.Error()
		return j
	}
	j.Title, j.Description, j.Hash = w.Name, w.Description, w.Hash
	for _, s := range w.Stages {
		j.Stages = append(j.Stages, s.ID)
	}
	return j
}

func (a *app) listWorkflows() error {
	dir, err := workDir("")
	if err != nil {
		return err
	}
	all, notes, err := a.workflowsIn(dir)
	if err != nil {
		return err
	}
	a.tellNotes(notes)
	if a.json {
		for _, w := range all {
			if err := a.printJSON(w.toJSON()); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, w := range all {
		if w.counts() {
			fmt.Fprintf(t, "%s\t%s\t%s\n", line(w.name, shownLine), w.source, line(or(w.Description, w.Name), shownLine))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, w := range all {
		switch {
		case w.err != nil:
			a.note("✗ %s cannot be used; `%s` says why", visible(w.path), a.command("workflow check %s", quote(w.path)))
		case w.behind != "":
			a.note("· %s does not count: %s", visible(w.path), visible(w.behind))
		}
	}
	return nil
}

// checkedJSON is what a check found, as programs read it.
type checkedJSON struct {
	Name     string        `json:"name"`
	Source   string        `json:"source"`
	File     string        `json:"file"`
	OK       bool          `json:"ok"`
	Problems []problemJSON `json:"problems"`
	Hash     string        `json:"hash,omitzero"`
}

type problemJSON struct {
	File  string `json:"file,omitzero"`
	Line  int    `json:"line,omitzero"`
	Where string `json:"where,omitzero"`
	Text  string `json:"text"`
}

// checkWorkflows goes through all it is given before it fails.
func (a *app) checkWorkflows(names []string) error {
	dir, err := workDir("")
	if err != nil {
		return err
	}
	var wrong []error
	for _, name := range names {
		w, err := a.lookUpWorkflow(dir, name)
		if err == nil {
			err = w.err
		}
		if err != nil {
			wrong = append(wrong, err)
		}
		switch {
		case a.json:
			if err := a.printJSON(checked(name, w, err)); err != nil {
				return err
			}
		case err == nil:
			a.note("%s is in order: %s from %s, %s", visible(w.path), count(len(w.Stages), "stage", "stages"), w.First, shortHash(w.Hash))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		if a.json {
			return reported{err}
		}
		return badInput("%w", err)
	}
	return nil
}

func checked(name string, w foundWorkflow, err error) checkedJSON {
	c := checkedJSON{Name: or(w.name, name), Source: w.source, File: w.path, OK: err == nil, Hash: w.Hash, Problems: []problemJSON{}}
	var all workflow.Problems
	switch {
	case errors.As(err, &all):
		for _, p := range all {
			c.Problems = append(c.Problems, problemJSON{p.File, p.Line, p.Where, p.Text})
		}
	case err != nil:
		c.Problems = []problemJSON{{Text: err.Error()}}
	}
	return c
}

// shortHash is enough of a hash to tell two definitions apart by eye.
func shortHash(hash string) string {
	const shown = 12
	return hash[:min(shown, len(hash))]
}

// graphJSON is the ways of a run as programs read them.
type graphJSON struct {
	Name   string           `json:"name"`
	Hash   string           `json:"hash"`
	First  string           `json:"first"`
	Stages []graphStage     `json:"stages"`
	Arrows []workflow.Arrow `json:"arrows"`
}

type graphStage struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	AllowedTools []string `json:"allowed_tools"`
	TurnCap      int      `json:"turn_cap"`
	VisitCap     int      `json:"visit_cap,omitzero"`
}

func (a *app) drawWorkflow(name string) error {
	dir, err := workDir("")
	if err != nil {
		return err
	}
	w, err := a.findWorkflow(dir, name)
	if err != nil {
		return err
	}
	if !a.json {
		a.printf("%s", safe(workflow.Graph(w.Definition)))
		return nil
	}
	g := graphJSON{Name: w.name, Hash: w.Hash, First: w.First, Arrows: workflow.Arrows(w.Definition)}
	for _, s := range w.Stages {
		g.Stages = append(g.Stages, graphStage{s.ID, s.Name, s.AllowedTools, s.TurnCap, s.VisitCap})
	}
	return a.printJSON(g)
}

// showWorkflow prints a file also when it has mistakes: one may want to see them.
func (a *app) showWorkflow(name string) error {
	dir, err := workDir("")
	if err != nil {
		return err
	}
	w, err := a.lookUpWorkflow(dir, name)
	switch {
	case err != nil:
		return err
	case w.text == nil: // it could not even be read
		return badInput("%w", w.err)
	case a.json:
		j := w.toJSON()
		j.Text = strings.ToValidUTF8(string(w.text), "\uFFFD")
		if w.err == nil {
			j.Definition = &w.Definition
		}
		return a.printJSON(j)
	case a.outTTY:
		a.printf("%s", safe(string(w.text)))
		return nil
	}
	_, err = a.out.Write(w.text) // as it is, for the file or the program it goes to
	return err
}
