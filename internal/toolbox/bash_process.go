package toolbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readChunk is how much output is taken from the pipe at once.
	readChunk = 32 << 10
	// maxSweeps bounds the hunt for processes that multiply while they are killed.
	maxSweeps = 100
)

// direct runs commands as children of this process: they die with it.
type direct struct{}

// Run implements Runner.
func (direct) Run(ctx context.Context, c Command, out func([]byte)) (Ending, error) {
	if c.Again {
		return Ending{Unknown: "the process ended while it ran"}, nil
	}
	mark := "STAVE_CALL=" + rand.Text()
	c.Env = append(slices.Clone(c.Env), mark)
	return runCommand(ctx, c, mark, out)
}

// process is a started command: the leader of a process group of its own, so
// that all it starts can be ended at once.
type process struct {
	*os.Process
	output *os.File
	exited chan struct{} // closed when the leader is dead; it is not reaped yet
	mark   string

	deadline time.Time
	killAt   time.Time // when patience with a command told to end is over
	drainAt  time.Time // when listening to orphans ends
	killed   bool
	timedOut bool
	orphans  bool
}

// runCommand starts a command, feeds its output to out and returns when it and
// its group are dead. Standard output and error share one pipe: only so is
// their order the one they were written in.
func runCommand(ctx context.Context, c Command, mark string, out func([]byte)) (Ending, error) {
	p, err := start(c, mark)
	if err != nil {
		return Ending{}, err
	}
	defer p.output.Close()
	stop := context.AfterFunc(ctx, p.wake)
	defer stop()
	go p.watch()
	readErr := p.pump(ctx, out)
	p.awaitExit(ctx)
	p.finish()
	state, err := p.Wait()
	if err != nil {
		return Ending{}, err
	}
	return p.result(state), readErr
}

func start(c Command, mark string) (*process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	proc, err := os.StartProcess(c.Argv[0], c.Argv, &os.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: []*os.File{null, w, w},
		Sys: &syscall.SysProcAttr{Setsid: c.Session, Setpgid: !c.Session},
	})
	if err != nil {
		r.Close()
		return nil, err
	}
	return &process{Process: proc, output: r, exited: make(chan struct{}), deadline: c.Deadline, mark: mark}, nil
}

// watch waits for the leader's death and tells the reader.
func (p *process) watch() {
	awaitDeath(p.Pid)
	close(p.exited)
	p.wake()
}

// wake ends a read that is under way.
func (p *process) wake() {
	p.output.SetReadDeadline(time.Unix(1, 0)) // closed means nobody reads
}

func (p *process) dead() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// pump copies output until all writers are gone or patience ends.
func (p *process) pump(ctx context.Context, out func([]byte)) error {
	buf := make([]byte, readChunk)
	for {
		// The deadline is set before the state is looked at. So what happens
		// later wakes this read, and what happened before is seen now.
		p.output.SetReadDeadline(p.nextStep()) // a pipe has deadlines
		switch p.step(ctx) {
		case moved:
			continue
		case deaf:
			return nil
		}
		n, err := p.output.Read(buf)
		if n > 0 {
			out(buf[:n])
		}
		switch {
		case err == nil || errors.Is(err, os.ErrDeadlineExceeded):
		case err == io.EOF:
			return nil
		default:
			return err
		}
	}
}

// awaitExit waits for a leader that closed its output and runs on.
func (p *process) awaitExit(ctx context.Context) {
	for !p.dead() && !p.killed {
		p.step(ctx)
		cancelled := ctx.Done()
		if !p.killAt.IsZero() {
			cancelled = nil // it has been told
		}
		timer := time.NewTimer(time.Until(p.nextStep()))
		select {
		case <-p.exited:
		case <-cancelled:
		case <-timer.C:
		}
		timer.Stop()
	}
	<-p.exited
}

// nextStep is when step has something to do if nothing else happens.
func (p *process) nextStep() time.Time {
	switch {
	case !p.drainAt.IsZero():
		return p.drainAt
	case !p.killAt.IsZero():
		return p.killAt
	}
	return p.deadline
}

// progress is what a step brought.
type progress int

const (
	same  progress = iota
	moved          // nextStep has changed
	deaf           // listening is over
)

// step moves the end of a command on: told to end when cancelled or out of
// time, killed after a grace, no longer listened to after a delay.
func (p *process) step(ctx context.Context) progress {
	now := time.Now()
	switch {
	case now.Before(p.nextStep()) && (p.ending() || !p.dead() && ctx.Err() == nil):
		return same
	case p.killed:
		return deaf
	case p.ending():
		p.orphans = p.killAt.IsZero()
		p.signal(syscall.SIGKILL)
		p.killed = true
		p.drainAt = now.Add(drainDelay)
	case p.dead():
		p.drainAt = now.Add(drainDelay)
	default:
		p.timedOut = ctx.Err() == nil
		p.signal(syscall.SIGTERM)
		p.killAt = now.Add(killGrace)
	}
	return moved
}

// ending says that the command is dead or was told to end.
func (p *process) ending() bool { return !p.killAt.IsZero() || !p.drainAt.IsZero() }

// signal reaches the group and, when something went wrong enough to look for
// them, those that left it. The leader is not reaped before the last signal, so
// its number cannot name a stranger's group.
func (p *process) signal(s syscall.Signal) {
	syscall.Kill(-p.Pid, s) // an empty group is what we want
	signalStrays(p.mark, p.Pid, s)
}

// finish makes sure that nothing is left. After a plain end only the group is
// looked after: the search for strays would cost more than most commands.
func (p *process) finish() {
	syscall.Kill(-p.Pid, syscall.SIGKILL)
	if !p.killed && p.killAt.IsZero() {
		return
	}
	for range maxSweeps {
		if signalStrays(p.mark, p.Pid, syscall.SIGKILL) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (p *process) result(state *os.ProcessState) Ending {
	e := Ending{Code: state.ExitCode(), TimedOut: p.timedOut, Orphans: p.orphans}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Code = 128 + int(status.Signal())
		e.Signal = unix.SignalName(status.Signal())
	}
	return e
}
