package toolbox

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
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

// Bash returns the tool that runs shell commands.
func Bash() Tool {
	shell := command{argv: shellArgv(), session: hasTerminal()}
	return New("Bash", bashDoc, SideEffect, false, func(ctx context.Context, env Env, args bashArgs) (Output, error) {
		if shell.argv == nil {
			return Output{}, errors.New("this machine has no shell: neither bash nor sh is on the PATH")
		}
		if strings.ContainsRune(args.Command, 0) {
			return Output{}, errors.New("the command contains a NUL character")
		}
		limit := defaultTimeout
		if args.TimeoutSeconds > 0 {
			limit = time.Duration(args.TimeoutSeconds) * time.Second
		}
		c := shell
		c.argv = append(slices.Clone(c.argv), args.Command)
		return runBash(ctx, env, c, limit)
	})
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

func runBash(ctx context.Context, env Env, c command, limit time.Duration) (Output, error) {
	if err := ctx.Err(); err != nil {
		return Output{}, err
	}
	out := &capture{env: env}
	defer out.close()
	began := time.Now()
	c.mark = "STAVE_CALL=" + rand.Text()
	c.dir, c.env, c.deadline = env.Dir(), append(childEnv(env.Dir()), c.mark), began.Add(limit)
	end, err := runCommand(ctx, c, out)
	if err != nil {
		return Output{}, fmt.Errorf("running the command: %w", err)
	}
	out.endStream(ctx.Err() != nil)
	var text strings.Builder
	text.WriteString(out.text())
	if text.Len() > 0 && !strings.HasSuffix(text.String(), "\n") {
		text.WriteByte('\n')
	}
	meta := map[string]any{
		"exit_code": end.code, "duration_ms": time.Since(began).Milliseconds(), "output_bytes": out.total,
	}
	if end.signal != "" {
		meta["signal"] = end.signal
	}
	result := Output{Meta: meta, TimedOut: end.timedOut}
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

// ending is how a command came to its end.
type ending struct {
	code     int // as a shell reports it: 128 + n for signal n
	signal   string
	timedOut bool
	orphans  bool // background processes held the output open
}

// verdict is the last line a model reads; nothing is said about plain success.
func (e ending) verdict(limit time.Duration, silent bool) string {
	var notes []string
	if e.orphans {
		notes = append(notes, "[background processes were ended with the shell]")
	}
	switch {
	case e.timedOut:
		notes = append(notes, fmt.Sprintf("[timed out after %v; the command and all it started were ended]", limit))
	case e.signal != "":
		notes = append(notes, fmt.Sprintf("[ended by signal %s]", e.signal))
	case e.code != 0:
		notes = append(notes, fmt.Sprintf("[exit code %d]", e.code))
	case silent && !e.orphans:
		notes = append(notes, "(no output)")
	}
	return strings.Join(notes, "\n")
}

// childEnv is the environment a command may see. It is a list of what is let
// through because secrets come under any name.
func childEnv(dir string) []string {
	env := []string{
		"PWD=" + dir, "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0",
	}
	for _, name := range []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
