package crash

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// hangs is when a process that should have ended is asked for its stacks.
const hangs = 60 * time.Second

// run is one process of the program, from its start to its end.
type run struct {
	args   []string
	pid    int
	began  time.Time
	seen   []line // complete lines of its standard output
	stderr bytes.Buffer
	ended  time.Time
	killed bool
	code   int
}

// cut reports whether the process could not end as it wanted: it was killed, or
// its disk failed.
func (r *run) cut() bool { return r.killed || r.code == 1 }

// line is what a program showed, and when.
type line struct {
	at  time.Time
	raw string
}

func (r *run) String() string {
	end := fmt.Sprintf("ended with code %d", r.code)
	if r.killed {
		end = "was killed"
	}
	return fmt.Sprintf("`stave %s` (pid %d) %s after %d lines: %s",
		strings.Join(r.args, " "), r.pid, end, len(r.seen), strings.TrimSpace(r.stderr.String()))
}

// aim is the moment at which a process is to be killed.
type aim struct {
	heads string        // a file to wait for that grows with every synced write
	runes int           // or how many runes to wait for
	kind  string        // whose kind begins so
	after time.Duration // and how long then
	all   *workspace    // whose effects die at the same moment; nil spares them
}

// never lets a process live.
var never = aim{after: -1}

// start runs a command to its end, which the aim may hasten.
func start(cmd *exec.Cmd, a aim) (*run, error) {
	r := &run{args: cmd.Args[1:]}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = &r.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if a.all != nil {
		// Effects that outlived an earlier process are over, so those from now on are this one's.
		if err := a.all.awaitEffects(); err != nil {
			return nil, err
		}
	}
	r.began = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.pid = cmd.Process.Pid
	// Nobody waits for the process before kill is done with it, so its pid stays its own.
	hit, end := make(chan struct{}), make(chan error, 1)
	go func() { end <- r.read(stdout, a, hit) }()
	err = errors.Join(r.shoot(a, hit, end), r.wait(cmd))
	return r, err
}

// size is the length of a file, 0 if there is none.
func size(name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// read collects what the process shows and closes hit at the rune aimed at.
func (r *run) read(stdout io.Reader, a aim, hit chan<- struct{}) error {
	const blockSize = 64 << 10
	mark, left := []byte(`"kind":"`+a.kind), a.runes
	lines := bufio.NewReaderSize(stdout, blockSize)
	for {
		raw, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil // what has no end was never shown
		}
		if err != nil {
			return fmt.Errorf("reading standard output: %w", err)
		}
		r.seen = append(r.seen, line{time.Now(), string(raw[:len(raw)-1])})
		if bytes.Contains(raw, mark) {
			if left--; left == 0 {
				close(hit)
			}
		}
	}
}

// shoot kills the process at the moment the aim says, unless it ends before.
func (r *run) shoot(a aim, hit <-chan struct{}, end <-chan error) error {
	var moment, look <-chan time.Time
	switch {
	case a.heads != "":
		const often = 100 * time.Microsecond
		ticker := time.NewTicker(often)
		defer ticker.Stop()
		look = ticker.C
	case a.runes == 0 && a.after >= 0:
		moment = time.After(a.after)
	}
	was, patience := size(a.heads), time.After(hangs)
	for {
		select {
		case err := <-end:
			return err
		case <-look:
			if size(a.heads) > was {
				look, moment = nil, time.After(a.after)
			}
		case <-hit:
			hit, moment = nil, time.After(a.after)
		case <-moment:
			return errors.Join(r.kill(a.all), <-end)
		case <-patience:
			_ = syscall.Kill(r.pid, syscall.SIGQUIT)
			return errors.Join(fmt.Errorf("the process did not end within %v", hangs), <-end)
		}
	}
}

// kill ends the process and, at the same moment, the effects it runs.
func (r *run) kill(w *workspace) error {
	if w != nil {
		if err := syscall.Kill(-r.pid, syscall.SIGSTOP); !gone(err) {
			return fmt.Errorf("stopping the process: %w", err)
		}
		if err := w.killEffects(); err != nil {
			return errors.Join(err, syscall.Kill(-r.pid, syscall.SIGKILL))
		}
	}
	if err := syscall.Kill(-r.pid, syscall.SIGKILL); !gone(err) {
		return fmt.Errorf("killing the process: %w", err)
	}
	return nil
}

// gone reports whether a signal was sent or came too late: a group of which only
// the dead leader is left cannot be signalled everywhere.
func gone(err error) bool {
	return err == nil || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM)
}

func (r *run) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	r.ended = time.Now()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	r.killed = status.Signaled() && status.Signal() == syscall.SIGKILL
	r.code = cmd.ProcessState.ExitCode()
	return nil
}

// opened reports whether the process got as far as owning the data directory:
// the last one that did has its name in the lock.
func (r *run) opened(data string) bool {
	holder, err := os.ReadFile(filepath.Join(data, "lock"))
	return err == nil && strings.Contains(string(holder), fmt.Sprintf("(pid %d)", r.pid))
}
