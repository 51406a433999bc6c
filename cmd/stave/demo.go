package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/model/script"
	"stave/internal/policy"
	"stave/internal/toolbox/sandbox"
	"stave/internal/workflow"
	"stave/internal/world"
)

//go:embed demo.yaml
var demoScript []byte

const (
	demoSays  = "/run codeReview refactor auth module"
	demoBy    = "user:demo"
	demoModel = "script:demo.yaml"
	demoFile  = "auth.go"
)

// demoProject is the sample the demo works on.
var demoProject = map[string]string{
	"door.go": `package auth

func enter(n, s string) bool { return Login(n, s) }

func admin(n, s string) bool { return LoginAdmin(n, s) }
`,
	demoFile: `package auth

var secrets, admins = map[string]string{}, map[string]bool{}

// Login reports whether the secret is that of the person.
func Login(name, secret string) bool {
	want, known := secrets[name]
	return known && want == secret
}

// LoginAdmin also asks whether it is an administrator.
func LoginAdmin(name, secret string) bool {
	want, known := secrets[name]
	if !known || want != secret {
		return false
	}
	return admins[name]
}
`,
}

func (a *app) demoCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See it work: a workflow of a scripted model on a sample project, no key, no network",
		Long: `Plays the bundled workflow codeReview on a sample project in a temporary directory, with a scripted model: Plan wants
to edit, which is not among its tools, and is denied; Execute makes the edit; Review judges it without any tool.
Each boundary is told as it is passed. The demo answers the one question itself and leaves nothing behind.`,
		Example: "  stave demo\n  stave demo --json",
		Args:    atMost(0),
		RunE:    func(*cobra.Command, []string) error { return a.demo() },
	}
}

func (a *app) demo() (err error) {
	dir, err := os.MkdirTemp("", "stave-demo-*")
	if err != nil {
		return fmt.Errorf("making room for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	project := filepath.Join(dir, "project")
	if err := writeProject(project); err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	commands := newRunner(data, sandbox.Limits{})
	defer func() { err = errors.Join(err, os.RemoveAll(commands.dir)) }()
	h, err := openHost(data, engine.Options{Now: a.now, Provider: a.models.provider}, commands, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.leave(h)) }()
	model, err := script.Parse("demo.yaml", demoScript)
	if err != nil {
		return err
	}
	a.models.add(demoModel, model)
	return a.playDemo(context.Background(), h, project)
}

func writeProject(dir string) error {
	const private, plain = 0o700, 0o600
	if err := os.Mkdir(dir, private); err != nil {
		return fmt.Errorf("writing the sample project: %w", err)
	}
	for name, text := range demoProject {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), plain); err != nil {
			return fmt.Errorf("writing the sample project: %w", err)
		}
	}
	return nil
}

func (a *app) playDemo(ctx context.Context, h *host, project string) error {
	_, said, _ := slash(demoSays)
	name, task, _ := strings.Cut(said, " ")
	// The bundled one, whatever a person calls by that name.
	bundled := workflow.Bundled()
	w := bundled[slices.IndexFunc(bundled, func(d workflow.Definition) bool { return d.ID == name })]
	log, err := h.engine.Begin(ctx, engine.Begin{Title: name + ": " + task, By: demoBy, Config: session.Config{
		Mode: policy.ModeAsk, Model: demoModel, Dir: project,
	}})
	if err != nil {
		return err
	}
	d := &demo{app: a, host: h, definition: w}
	d.prologue()
	if _, err := h.engine.StartRun(ctx, log, engine.Run{Definition: w, Task: task, By: demoBy}); err != nil {
		return err
	}
	f := &follower{app: a, host: h, log: log, show: d.show, decide: d.decide, deaf: true, crew: crew{}, broke: map[string]bool{}}
	if a.json {
		f.show = a.shower(world.View{}, "")
	}
	end, err := f.run()
	if err == nil {
		err = end.err(a)
	}
	if err != nil {
		return err
	}
	proof, err := h.engine.Verify(ctx, log)
	if err != nil {
		return err
	}
	return d.epilogue(project, proof)
}
