package main

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stave/internal/secret"
)

// app is the program and everything outside it that it touches.
type app struct {
	console
	getenv func(string) string
	now    func() time.Time
	exit   func(code int) // leaves at once, nothing is tidied up
	// signals to a command that runs a conversation; others just die of them.
	signals chan os.Signal
	models  *models
	open    *host // of the command under way, for what is typed meanwhile

	data string // --data
	json bool   // --json
}

func newApp() *app {
	return &app{
		console: stdConsole(), getenv: os.Getenv, now: time.Now, exit: os.Exit, models: &models{getenv: os.Getenv, secrets: &secret.Set{Known: true}},
		signals: make(chan os.Signal, 2),
	}
}

// run executes one command line and returns its exit code.
func (a *app) run(args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.Execute()
	if err != nil {
		a.complain(err)
	}
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "stave",
		Short: "Run language-model agents as state machines over an append-only log",
		Long: `Stave runs language-model agents as state machines over an append-only log.
Everything that happens is a rune; killed at any moment, a conversation goes on where it was.

Where a command takes a LOG, an unambiguous prefix of its name will do, and so will "last".
Exit codes: 0 ok, 1 bad input or start-up, 2 the turn failed, 3 permission required,
4 budget exhausted, 130 interrupted.`,
		Example:           "  stave demo\n  stave ask --model script:hello.yaml \"What is in this directory?\"",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              a.knownCommand,
		// How many letters may differ in a command that is suggested.
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.data, "data", "", "data directory (default $STAVE_HOME, else ~/.stave)")
	flags.BoolVar(&a.json, "json", false, "machine-readable output; JSON lines where it streams")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badInput("%w; see `%s --help`", err, cmd.CommandPath())
	})
	root.AddCommand(
		a.askCmd(), a.runCmd(), a.sendCmd(), a.answerCmd(), a.resumeCmd(),
		a.interruptCmd(), a.pauseCmd(), a.closeCmd(), a.stopCmd(),
		a.lsCmd(), a.showCmd(), a.whyCmd(), a.inboxCmd(), a.logCmd(), a.replayCmd(), a.verifyCmd(),
		a.forkCmd(), a.exportCmd(), a.archiveCmd(), a.restoreCmd(),
		a.budgetCmd(), a.modelCmd(), a.trustCmd(), a.policyCmd(), a.workflowCmd(), a.serversCmd(), a.memoryCmd(), a.queueCmd(), a.rewindCmd(), a.doctorCmd(),
		a.machinesCmd(), a.demoCmd(), a.versionCmd(),
	)
	return root
}

func (a *app) knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return badInput("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return badInput("there is no command %q; see `stave --help`", args[0])
}

// dataDir says where the data lives.
func (a *app) dataDir() (string, error) {
	dir := a.data
	if dir == "" {
		dir = a.getenv("STAVE_HOME")
	}
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", badInput("there is no home directory to keep data in; set STAVE_HOME or pass --data DIR")
		}
		dir = filepath.Join(home, ".stave")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", badInput("data directory %s: %w", dir, err)
	}
	return abs, nil
}

// by signs what the person at the keyboard does.
func (a *app) by() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "user:" + u.Username
	}
	return "user:unknown"
}

// exactly wants a fixed number of arguments and says which.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(args) < len(names) {
			return badInput("%s: %s is missing; see `%s --help`", cmd.Name(), names[len(args)], cmd.CommandPath())
		}
		return badInput("%s: %q is one argument too many; see `%s --help`", cmd.Name(), args[len(names)], cmd.CommandPath())
	}
}

// between wants the first least of some arguments, and takes the others.
func between(least int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return exactly(names[:min(max(len(args), least), len(names))]...)(cmd, args)
	}
}

// atLeast wants the first arguments and takes any more.
func atLeast(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return exactly(names...)(cmd, args[:min(len(args), len(names))])
	}
}

func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return badInput("%s: %q is one argument too many; see `%s --help`", cmd.Name(), args[n], cmd.CommandPath())
		}
		return nil
	}
}
