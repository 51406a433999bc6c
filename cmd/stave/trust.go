package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stave/internal/config"
	"stave/internal/machine/session"
)

func (a *app) trustCmd() *cobra.Command {
	var yes, forget bool
	cmd := &cobra.Command{
		Use:   "trust [DIR]",
		Short: "Let a project's own settings, rules and instructions count",
		Long: `Nothing of a project is read before you trust it. This shows what the project says to agents
(` + "`.stave/config.yaml`, `.stave/rules.yaml`, `.stave/workflows`, `.stave/mcp.json`, `.mcp.json`, `AGENTS.md`" + `) and, with --yes, trusts exactly that:
when one of the files changes, it has to be trusted again. Settings of a project can only make things stricter.`,
		Example: "  stave trust\n  stave trust --yes\n  stave trust --forget ~/old",
		Args:    atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			}
			dir, err := workDir(dir)
			if err != nil {
				return err
			}
			return a.trust(dir, yes, forget)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "trust it as it is now")
	cmd.Flags().BoolVar(&forget, "forget", false, "trust it no longer")
	return cmd
}

// loosened says what a person let a conversation do, by a flag, that the trusted
// project asked not to. The person's word counts; that it does is told.
func loosened(s settings, c session.Config) []string {
	name := ".stave/config.yaml"
	theirs, err := config.Load(name, s.project.Files[name])
	if err != nil {
		return nil // it has been read before, and refused
	}
	inForce := config.Config{Mode: c.Mode, Sandbox: c.Sandbox, Network: &c.Network, Budget: config.Budget{Amount: c.Budget}, AnswerWithin: time.Duration(c.AnswerMs) * time.Millisecond}
	var notes []string
	for _, wish := range inForce.Loosened(theirs) {
		notes = append(notes, fmt.Sprintf("this project asks for %s; what you say on the command line is looser, and it counts for this conversation", wish))
	}
	return notes
}

// trustJSON is a project's standing as programs read it.
type trustJSON struct {
	Dir     string   `json:"dir"`
	Trusted bool     `json:"trusted"`
	Changed bool     `json:"changed"` // since it was trusted
	Files   []string `json:"files"`
	Digest  string   `json:"digest"`
}

func (a *app) trust(dir string, yes, forget bool) error {
	data, err := a.dataDir()
	if err != nil {
		return err
	}
	if err := makePrivate(data); err != nil {
		return err
	}
	t, err := config.OpenTrust(filepath.Join(data, trustName))
	if err != nil {
		return badInput("%w", err)
	}
	if forget {
		if err := t.Take(dir); err != nil {
			return err
		}
		a.note("%s is not trusted any more", dir)
		return nil
	}
	p, err := config.ReadProject(dir)
	if err != nil {
		return badInput("%w", err)
	}
	if yes {
		if err := t.Give(p); err != nil {
			return err
		}
	}
	state := trustJSON{Dir: dir, Trusted: t.Holds(p), Changed: t.Known(dir) && !t.Holds(p), Files: p.Names(), Digest: p.Digest}
	if a.json {
		return a.printJSON(state)
	}
	a.tellTrust(state, p)
	return nil
}

// visibleLines is a whole file with nothing in it left out: what is trusted is all
// of it, also what a terminal would not show.
func visibleLines(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return reveal(text, func(r rune) bool { return r != '\n' && r != '\t' && hidden(r) })
}

func (a *app) tellTrust(s trustJSON, p config.Project) {
	if len(s.Files) == 0 {
		a.printf("%s says nothing to agents.\n", s.Dir)
	}
	for _, name := range s.Files {
		a.printf("── %s\n%s\n", name, visibleLines(string(p.Files[name])))
	}
	switch {
	case s.Trusted:
		a.printf("It is trusted as it is now.\n")
	case s.Changed:
		a.printf("It has changed since you trusted it; `%s` trusts it as it is now.\n", a.command("trust --yes %s", s.Dir))
	default:
		a.printf("It is not trusted; `%s` trusts it as it is now.\n", a.command("trust --yes %s", s.Dir))
	}
}
