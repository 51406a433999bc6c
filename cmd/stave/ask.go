package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stave/internal/config"
	"stave/internal/engine"
	"stave/internal/machine"
	"stave/internal/machine/session"
	"stave/internal/policy"
	"stave/internal/runelog"
	"stave/internal/world"
)

// defaultMaxTurns bounds the model requests of one turn where nobody says
// otherwise.
const defaultMaxTurns = 1000

// askFlags are what a person says about a conversation.
type askFlags struct {
	model, mode, dir string
	sandbox          string
	network          bool
	budget           budgetFlags
	readOnly         bool
	headless         bool
	maxTurns         int
	answerWithin     time.Duration
	continues        bool
	resume           string
	images           []string // files

	given func(flag string) bool
}

func (a *app) askCmd() *cobra.Command {
	f := &askFlags{}
	cmd := &cobra.Command{
		Use:   "ask PROMPT",
		Short: "One turn of a conversation: the answer on stdout, progress on stderr",
		Long: `Begins a conversation, or goes on with one, and runs one turn with all its tool calls.
What is piped in is appended to the prompt. A prompt such as "/run codeReview refactor auth" is a command;
"/help" lists them. A call that needs permission asks at the terminal;
without one the question stays open for ` + "`stave answer`" + ` and the exit code is 3.
Ctrl-C ends the turn, with all agents at work in it, and keeps what was said, a second Ctrl-C leaves at once.`,
		Example: "  stave ask --model script:hello.yaml \"Good morning\"\n" +
			"  git diff | stave ask --model script:review.yaml --headless \"Review this\"\n" +
			"  stave ask --continue \"And now?\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.given = cmd.Flags().Changed
			return a.ask(f, args)
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().StringArrayVar(&f.images, "image", nil, "a picture that goes with the prompt, png, jpeg, gif or webp; may be given several times")
	return cmd
}

// add lets a command take the flags of a conversation.
func (f *askFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.model, "model", "", "PROVIDER/NAME as anthropic/claude-sonnet-4-5, openai/…, gemini/…, ollama/…; or script:FILE")
	fl.StringVar(&f.mode, "mode", policy.ModeAsk, "what may run: ask (calls that change things need permission), allowlist (what rules allow, nothing else) or yolo")
	fl.StringVar(&f.sandbox, "sandbox", autoLevel, "walls around commands: auto, bwrap, landlock or off")
	fl.BoolVar(&f.network, "network", false, "commands may use the network")
	f.budget.add(fl, "max-")
	fl.BoolVar(&f.readOnly, "read-only", false, "nothing may change anything, whatever the mode")
	fl.BoolVar(&f.headless, "headless", false, "nobody will answer: calls that need permission are denied")
	fl.DurationVar(&f.answerWithin, "answer-within", 0, "how long a question waits before it counts as denied, as 10m (default: for ever)")
	fl.StringVar(&f.dir, "cwd", "", "the directory the conversation works in (default: the current one)")
	fl.IntVar(&f.maxTurns, "max-turns", defaultMaxTurns, "model requests of one turn")
	fl.BoolVar(&f.continues, "continue", false, "go on with the newest conversation of this directory")
	fl.StringVar(&f.resume, "resume", "", "go on with this conversation")
}

func (a *app) ask(f *askFlags, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	prompt, err := a.prompt(args)
	if err != nil {
		return err
	}
	if err := checkSlash(prompt); err != nil {
		return err
	}
	if _, _, ok := slash(prompt); ok {
		return a.do(f, prompt)
	}
	if err := a.resolve(f); err != nil {
		return err
	}
	images, err := readImages(f.images)
	if err != nil {
		return err
	}
	say := session.Say{Text: prompt, Images: images, Headless: f.headless}
	return a.working(func(h *host) error {
		if !f.begins() {
			return a.goOn(context.Background(), h, f, say)
		}
		return a.beginWith(context.Background(), h, f, say)
	})
}

// beginWith begins a conversation and says the prompt.
func (a *app) beginWith(ctx context.Context, h *host, f *askFlags, say session.Say) error {
	cfg, err := a.begin(f)
	if err != nil {
		return err
	}
	if err := a.canSee(cfg.Model, say.Images); err != nil {
		return err
	}
	if err := a.enter(h, cfg.Dir); err != nil {
		return err
	}
	log, err := h.engine.Begin(ctx, engine.Begin{Text: say.Text, Images: say.Images, Headless: say.Headless, By: a.by(), Config: cfg})
	if err != nil {
		return err
	}
	if note := wallsNote(cfg, h.commands.walls); note != "" {
		a.note("stave: %s", note)
	}
	return a.finish(h, world.View{Log: log})
}

// begin puts together what a new conversation keeps: the settings, and what was
// said on the command line.
func (a *app) begin(f *askFlags) (session.Config, error) {
	s, err := a.settingsFor(f.dir)
	if err != nil {
		return session.Config{}, err
	}
	for _, n := range s.notes {
		a.note("stave: %s", n)
	}
	limit, err := f.budget.amount()
	if err != nil {
		return session.Config{}, err
	}
	c := session.Config{
		Mode: f.mode, ReadOnly: f.readOnly || s.ReadOnly, Model: f.model, Dir: f.dir, MaxRequests: f.maxTurns,
		Budget: overlay(s.Budget.Amount, limit), Rules: s.rules.Snapshot(), System: s.system,
		Sandbox: f.sandbox, Network: f.network, Trusted: s.project.Dir != "",
	}
	if !f.given("mode") {
		c.Mode = orUsual(s.Mode, f.mode)
	}
	if !f.given("sandbox") {
		c.Sandbox = orUsual(s.Sandbox, f.sandbox)
	}
	if !f.given("network") && s.Network != nil {
		c.Network = *s.Network
	}
	wait := f.answerWithin
	if !f.given("answer-within") {
		wait = s.AnswerWithin
	}
	c.AnswerMs = wait.Milliseconds()
	for _, n := range loosened(s, c) {
		a.note("stave: %s", n)
	}
	return c, nil
}

// begins reports whether a new conversation is meant.
func (f *askFlags) begins() bool { return !f.continues && f.resume == "" }

// resolve turns the names of directory and model into what a conversation keeps,
// and makes sure that a new one has a model before it exists.
func (a *app) resolve(f *askFlags) (err error) {
	if f.dir, err = workDir(f.dir); err != nil {
		return err
	}
	if !f.begins() && f.model == "" {
		return nil
	}
	if _, err := a.useSettings(); err != nil {
		return err
	}
	if f.model, err = a.models.modelName(f.model); err != nil || !f.begins() {
		return err
	}
	if _, err := a.models.provider(context.Background(), f.model); err != nil {
		return badInput("--model: %w", err)
	}
	return nil
}

// goOn says the prompt to a conversation that exists.
func (a *app) goOn(ctx context.Context, h *host, f *askFlags, say session.Say) error {
	v, err := h.earlier(ctx, f)
	if err != nil {
		return err
	}
	was, err := h.config(ctx, v.Log)
	if err != nil {
		return err
	}
	if err := f.fits(v.Log, was); err != nil {
		return err
	}
	if f.model == "" {
		f.model = v.Model
	}
	if err := errors.Join(a.canSee(f.model, say.Images), a.enter(h, v.Dir)); err != nil {
		return err
	}
	if f.given("model") && f.model != v.Model {
		if err := h.engine.SwitchModel(ctx, v.Log, f.model, a.by()); err != nil {
			return badInput("--model: %w", err)
		}
	}
	if err := h.engine.Say(ctx, v.Log, say, a.by()); err != nil {
		return err
	}
	return a.finish(h, v)
}

// finish runs a conversation on to its next rest and words how that went.
func (a *app) finish(h *host, since world.View) error { return a.finishRun(h, since, "") }

// finishRun is finish for a command that began a run.
func (a *app) finishRun(h *host, since world.View, run string) error {
	end, err := a.followRun(h, since, run)
	if err != nil {
		return err
	}
	if err := end.err(a); err != nil {
		return err
	}
	if n := len(end.view.Waiting); n > 0 && !a.json {
		a.note("%s: %s; `%s` goes on", end.view.State, count(n, "message waits", "messages wait"), a.command("resume %s", since.Log))
	}
	return nil
}

// check refuses flag values that cannot be meant.
func (f *askFlags) check() error {
	switch {
	case !slices.Contains(config.Modes, f.mode):
		return badInput("--mode %q is not known; choose %s", f.mode, strings.Join(config.Modes, ", "))
	case !slices.Contains(config.Sandboxes, f.sandbox):
		return badInput("--sandbox %q is not known; choose %s", f.sandbox, strings.Join(config.Sandboxes, ", "))
	case f.maxTurns < 1:
		return badInput("--max-turns %d: a turn needs at least 1 model request", f.maxTurns)
	case f.continues && f.resume != "":
		return badInput("--continue and --resume name two conversations; give one of them")
	}
	if err := config.CheckWait(f.answerWithin); err != nil {
		return badInput("--answer-within: %w", err)
	}
	_, err := f.budget.amount()
	return err
}

// fits refuses flags that contradict what was fixed when the conversation began.
func (f *askFlags) fits(log string, was session.Config) error {
	for _, c := range []struct {
		flag string
		same bool
	}{
		{"mode", f.mode == was.Mode},
		{"cwd", f.dir == was.Dir},
		{"max-turns", f.maxTurns == was.MaxRequests},
		{"read-only", f.readOnly == was.ReadOnly},
		{"sandbox", f.sandbox == was.Sandbox},
		{"network", f.network == was.Network},
		{"answer-within", f.answerWithin.Milliseconds() == was.AnswerMs},
	} {
		if f.given(c.flag) && !c.same {
			return badInput("--%s was fixed when %s began and cannot be changed; leave it out", c.flag, log)
		}
	}
	return nil
}

// config returns what was fixed when a conversation began.
func (h *host) config(ctx context.Context, log string) (session.Config, error) {
	for r, err := range h.log.Read(ctx, log, 0) {
		if err != nil {
			return session.Config{}, err
		}
		e, err := world.EventOf(r)
		if err != nil {
			return session.Config{}, err
		}
		created, _ := e.(session.Created)
		return created.Config, nil
	}
	return session.Config{}, fmt.Errorf("%s: %w", log, runelog.ErrNotFound)
}

// earlier returns the conversation that --resume or --continue means.
func (h *host) earlier(ctx context.Context, f *askFlags) (world.View, error) {
	if f.resume != "" {
		m, err := h.find(ctx, f.resume)
		if err != nil {
			return world.View{}, err
		}
		return h.engine.Look(ctx, m.Log)
	}
	for m, err := range h.log.List(ctx) {
		if err != nil {
			return world.View{}, err
		}
		if m.Archived {
			continue
		}
		v, err := h.engine.Look(ctx, m.Log)
		if err != nil {
			return world.View{}, err
		}
		if v.Dir == f.dir && slices.Contains(v.Possible, machine.Verb(session.Say{})) {
			return v, nil
		}
	}
	return world.View{}, badInput("there is no open conversation in %s; leave --continue out to begin one", f.dir)
}

// prompt joins what was typed and what was piped in.
func (a *app) prompt(args []string) (string, error) {
	typed := strings.TrimSpace(strings.Join(args, " "))
	if !utf8.ValidString(typed) {
		return "", badInput("the prompt is not UTF-8 text")
	}
	piped, err := a.readPiped()
	if err != nil {
		return "", err
	}
	switch {
	case typed == "" && piped == "":
		return "", badInput("the prompt is empty; write one, or pipe it in")
	case typed == "":
		return piped, nil
	case piped == "":
		return typed, nil
	}
	return typed + "\n\n" + piped, nil
}

// workDir returns the directory a conversation works in, in the one form that
// compares equal.
func workDir(flag string) (string, error) {
	dir := flag
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", badInput("--cwd %s: %w", dir, cause(err))
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", badInput("--cwd %s: %w", dir, cause(err))
	}
	if !info.IsDir() {
		return "", badInput("--cwd %s is not a directory", dir)
	}
	return abs, nil
}

// cause is what went wrong with a file, without saying its name again.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
