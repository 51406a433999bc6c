package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// drainDelay is how long a finished hook's output is waited for when some
	// process it left behind still holds it.
	drainDelay = 3 * time.Second
	maxErrors  = 4 << 10 // of what it writes to standard error
)

// cleanEnv is the environment of every hook. It lists what is let through
// because secrets come under any name.
func cleanEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

var (
	errTimeout = errors.New("it took longer than its limit")
	errTooMuch = errors.New("it printed too much")
)

// run starts a hook, gives it its input and returns what it printed. When run
// returns, the hook and all processes of its group are dead.
func (s *Set) run(ctx context.Context, h Hook, in input, most int) ([]byte, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("writing its input: %w", err)
	}
	if len(text) > maxInput {
		return nil, fmt.Errorf("its input has more than %d bytes", maxInput)
	}
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-ctx.Done():
		return nil, fmt.Errorf("it did not start: %w", context.Cause(ctx))
	}
	start, err := s.command(h)
	if err != nil {
		return nil, err
	}
	defer start.release()
	// The limit counts from the start of the process: waiting for a place is not its fault.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, h.Timeout, fmt.Errorf("%w of %v", errTimeout, h.Timeout))
	defer stop()

	out := &bounded{most: most, full: func() { cancel(fmt.Errorf("%w: more than %d bytes", errTooMuch, most)) }}
	complaints := &bounded{most: maxErrors, full: func() {}}
	cmd := exec.CommandContext(ctx, start.Argv[0], start.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = start.Dir, start.Env, start.Files
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(text, '\n')), out, complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drainDelay
	err = cmd.Run()
	if cmd.Process != nil {
		// What it left behind. A number is not given away while its group has members.
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // an empty group is what we want
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, failure(err, complaints.kept.Bytes())
	}
	return out.kept.Bytes(), nil
}

// command is how a hook is started, behind its walls if there are any.
func (s *Set) command(h Hook) (Command, error) {
	c := Command{Argv: h.Argv, Dir: "/", Env: append(s.env, "STAVE_HOOK="+h.Name)}
	if s.wrap == nil {
		return c, nil
	}
	c, err := s.wrap(h, s.dir, c)
	if err != nil {
		c.release()
		return Command{}, fmt.Errorf("its walls: %w", err)
	}
	return c, nil
}

// failure says how a hook ended and what it complained of.
func failure(err error, complaints []byte) error {
	if errors.Is(err, exec.ErrWaitDelay) {
		return errors.New("it ended and left a process behind that holds its output")
	}
	if said := shorten(string(bytes.TrimSpace(complaints))); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// bounded keeps the beginning of what is written and calls full once when more
// comes. It swallows the rest, so that the writer meets no error of ours. The
// buffer is not embedded: copying would find its ReadFrom and pass by Write.
type bounded struct {
	kept bytes.Buffer
	most int
	full func()
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.most-b.kept.Len())
	b.kept.Write(p[:keep]) // never fails
	if keep < len(p) && !b.over {
		b.over = true
		b.full()
	}
	return len(p), nil
}
