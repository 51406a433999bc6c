package toolbox

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"stave/internal/policy"
)

const (
	defaultTimeout = 120 * time.Second
	// killGrace is how long a command may clean up between SIGTERM and SIGKILL.
	killGrace = 2 * time.Second
	// drainDelay is how long we listen to a pipe that the shell's orphans hold.
	drainDelay = 250 * time.Millisecond
)

//go:embed bash.md
var bashDoc string

type bashArgs struct {
	Command        string `json:"command" min:"1" max:"100000" jsonschema:"the shell command"`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty" min:"1" max:"1800" jsonschema:"time limit (default 120)"`
	Description    string `json:"description,omitempty" max:"500" jsonschema:"what the command does, in a few words, for the people who watch"`
}

// Runner starts commands for Bash and follows them to their end.
type Runner interface {
	// Run hands on the command's output in order, standard error included, and
	// returns when it and all it started are gone. When ctx ends, so do they.
	Run(ctx context.Context, c Command, out func([]byte)) (Ending, error)
}

// Command is one command to run.
type Command struct {
	ID       string   // names this attempt for ever
	Again    bool     // it was begun by a process that died: take it up, never start it
	Argv     []string // the first is an absolute path
	Dir      string
	Env      []string // all of it
	Deadline time.Time
	Session  bool // it needs a session of its own, without our terminal
}

// Ending is how a command came to its end.
type Ending struct {
	Code     int // as a shell reports it: 128 + n for signal n
	Signal   string
	TimedOut bool
	Orphans  bool   // background processes held the output open
	Unknown  string // what is known, where nobody saw the end
}

// Bash returns the tool that runs shell commands, as children of this process.
func Bash() Tool { return BashOn(direct{}) }

// BashOn returns the tool that runs shell commands by a runner.
func BashOn(r Runner) Tool {
	argv, session, inherited := shellArgv(), hasTerminal(), inheritedEnv()
	t := New("Bash", bashDoc, SideEffect, false, func(ctx context.Context, env Env, args bashArgs) (Output, error) {
		if argv == nil {
			return Output{}, errors.New("this machine has no shell: neither bash nor sh is on the PATH")
		}
		if strings.ContainsRune(args.Command, 0) {
			return Output{}, errors.New("the command contains a NUL character")
		}
		limit := defaultTimeout
		if args.TimeoutSeconds > 0 {
			limit = time.Duration(args.TimeoutSeconds) * time.Second
		}
		c := Command{
			ID: env.CallID() + "." + strconv.Itoa(env.Attempt()), Again: env.Again(), Session: session,
			Argv: slices.Concat(argv, []string{args.Command}), Dir: env.Dir(), Deadline: time.Now().Add(limit),
			Env: slices.Concat([]string{"PWD=" + env.Dir()}, inherited),
		}
		if env.Plain() {
			var err error
			if c.Argv, err = plainArgv(argv, args.Command); err != nil {
				return Output{}, err
			}
		}
		return runBash(ctx, env, r, c, limit)
	})
	t.Workspace = true
	return t.with(private)
}

// plainArgv is how a command runs that a rule allowed without asking a person:
// not as the shell would read it but as the rule did. One program runs by
// itself; several are joined by a shell that finds each word quoted.
func plainArgv(shell []string, command string) ([]string, error) {
	script := policy.Shell(command)
	if !script.Plain || len(script.Pipelines) == 0 {
		return nil, errors.New("it was allowed as a plain command and is none: " + script.Reason)
	}
	if len(script.Pipelines) == 1 && len(script.Pipelines[0].Commands) == 1 {
		argv := slices.Clone(script.Pipelines[0].Commands[0])
		path, err := exec.LookPath(argv[0])
		if err != nil {
			return nil, fmt.Errorf("%s: there is no such program on the PATH", argv[0])
		}
		argv[0] = path
		return argv, nil
	}
	var b strings.Builder
	for i, p := range script.Pipelines {
		if i > 0 {
			b.WriteString(" " + p.Joint + " ")
		}
		for j, words := range p.Commands {
			if j > 0 {
				b.WriteString(" | ")
			}
			b.WriteString("command")
			for _, w := range words {
				b.WriteString(" '" + strings.ReplaceAll(w, "'", `'\''`) + "'")
			}
		}
	}
	return append(slices.Clone(shell), b.String()), nil
}

// shellArgv is what a command is appended to. The two dashes keep a command
// that starts with one from being read as an option.
func shellArgv() []string {
	if path, err := exec.LookPath("bash"); err == nil {
		return []string{path, "--noprofile", "--norc", "-c", "--"}
	}
	if path, err := exec.LookPath("sh"); err == nil {
		return []string{path, "-c", "--"}
	}
	return nil
}

// hasTerminal says whether a command could reach for a terminal of ours, to ask
// for a password or to draw on it. Only then is a session of its own worth its
// price: the scheduler treats every session as a rival of ours on a busy machine.
func hasTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

func runBash(ctx context.Context, env Env, r Runner, c Command, limit time.Duration) (Output, error) {
	if err := ctx.Err(); err != nil && !c.Again { // what runs already has to be ended
		return Output{}, err
	}
	out := &live{capture: capture{env: env}}
	defer out.close()
	began := time.Now()
	end, err := r.Run(ctx, c, out.take)
	out.end(ctx.Err() != nil)
	if err != nil && ctx.Err() == nil {
		return Output{}, fmt.Errorf("running the command: %w", err)
	}
	var text strings.Builder
	text.WriteString(out.text())
	if text.Len() > 0 && !strings.HasSuffix(text.String(), "\n") {
		text.WriteByte('\n')
	}
	if end.Unknown != "" {
		return Output{Unknown: true, Text: end.Unknown + lastWords(text.String())}, ctx.Err()
	}
	meta := map[string]any{
		"exit_code": end.Code, "duration_ms": time.Since(began).Milliseconds(), "output_bytes": out.total,
	}
	if end.Signal != "" {
		meta["signal"] = end.Signal
	}
	result := Output{Meta: meta, TimedOut: end.TimedOut}
	if ctx.Err() == nil {
		result.Blob, err = out.keep(ctx)
		if err != nil {
			fmt.Fprintf(&text, "[the whole output was not kept: %v]\n", err)
		}
	}
	text.WriteString(end.verdict(limit, out.total == 0))
	result.Text = text.String()
	return result, ctx.Err()
}

// lastWords is what a command had said when it was last heard of.
func lastWords(text string) string {
	const most = 2000
	switch {
	case text == "":
		return "; it had printed nothing"
	case len(text) > most:
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return "; what it had printed: " + text
}

// live is a capture that is fed from elsewhere and shows what it has in time.
type live struct {
	mu sync.Mutex
	capture
	timer *time.Timer
	over  bool
}

func (l *live) take(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(b)
	if !l.flushAt.IsZero() && l.timer == nil {
		l.timer = time.AfterFunc(progressDelay, l.show)
	}
}

func (l *live) show() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if !l.over && !l.flushAt.IsZero() {
		l.sendWhole()
	}
}

func (l *live) end(always bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.endStream(always)
}

// verdict is the last line a model reads; nothing is said about plain success.
func (e Ending) verdict(limit time.Duration, silent bool) string {
	var notes []string
	if e.Orphans {
		notes = append(notes, "[background processes were ended with the shell]")
	}
	switch {
	case e.TimedOut:
		notes = append(notes, fmt.Sprintf("[timed out after %v; the command and all it started were ended]", limit))
	case e.Signal != "":
		notes = append(notes, fmt.Sprintf("[ended by signal %s]", e.Signal))
	case e.Code != 0:
		notes = append(notes, fmt.Sprintf("[exit code %d]", e.Code))
	case silent && !e.Orphans:
		notes = append(notes, "(no output)")
	}
	return strings.Join(notes, "\n")
}

// inheritedEnv is the environment a command may see, but for its directory. It is a
// list of what is let through because secrets come under any name.
func inheritedEnv() []string {
	env := []string{"TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0"}
	for _, name := range []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
