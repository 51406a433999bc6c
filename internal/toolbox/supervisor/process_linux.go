package supervisor

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killGrace is how long a command may clean up between SIGTERM and SIGKILL.
	killGrace = 2 * time.Second
	// drainDelay is how long we listen to a pipe that orphans hold.
	drainDelay = 250 * time.Millisecond
	// readChunk is how much output is taken from the pipe at once.
	readChunk = 32 << 10
	// maxSweeps bounds the hunt for processes that multiply while they are killed.
	maxSweeps = 100
)

// process is a started command: the leader of a process group of its own, so
// that all it starts can be ended at once.
type process struct {
	*os.Process
	handle *os.File // readable when the leader is dead
	family *family
	output *os.File
	held   []*os.File    // under a shared lock each
	exited chan struct{} // closed when the leader is dead; it is not reaped yet
	told   chan struct{} // closed when the command is cancelled
	tell   sync.Once
	mark   string
	// wrapped leaders are asked for nothing: they would kill the command.
	wrapped bool

	deadline  time.Time
	killAt    time.Time // when patience with a command told to end is over
	drainAt   time.Time // when listening to orphans ends
	killed    bool
	timedOut  bool
	cancelled bool
	orphans   bool
}

// launch starts a command. Standard output and error share one pipe: only so is
// their order the one they were written in.
func launch(s Spec, mark string, f *family) (_ *process, err error) {
	passed, err := openAll(s.Files)
	defer closeAll(passed)
	if err != nil {
		return nil, err
	}
	held, err := hold(s.Hold)
	defer func() {
		if err != nil {
			closeAll(held)
		}
	}()
	if err != nil {
		return nil, err
	}
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
	p := &process{
		family: f, output: r, held: held, mark: mark, wrapped: s.Wrapped, deadline: s.Deadline,
		exited: make(chan struct{}), told: make(chan struct{}),
	}
	attr := &os.ProcAttr{
		Dir: s.Dir, Env: append(s.Env[:len(s.Env):len(s.Env)], mark), Files: append([]*os.File{null, w, w}, passed...),
		Sys: &syscall.SysProcAttr{Setsid: s.Session, Setpgid: !s.Session},
	}
	if len(s.Walls) > 0 && f.confine != nil {
		err = p.startBehind(s.Walls, s.Inner, attr)
	} else {
		err = p.start(s.Argv, attr)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return p, nil
}

// start starts the leader from this thread.
func (p *process) start(argv []string, attr *os.ProcAttr) (err error) {
	handle := -1
	attr.Sys.PidFD = &handle
	p.Process, err = p.family.bear(p.mark, func() (*os.Process, error) { return os.StartProcess(argv[0], argv, attr) })
	if handle >= 0 {
		unix.SetNonblock(handle, true) // else it is waited for on a thread, which works too
		p.handle = os.NewFile(uintptr(handle), "leader")
	}
	return err
}

// startBehind starts the leader behind walls and lets it begin once no thread of
// ours is there with it.
func (p *process) startBehind(walls []byte, argv []string, attr *os.ProcAttr) error {
	g, err := newGate()
	if err != nil {
		return err
	}
	defer g.close()
	argv = g.before(argv, len(attr.Files))
	attr.Files = append(attr.Files, g.r)
	if err = p.family.behindWalls(walls, func() error { return p.start(argv, attr) }); err == nil {
		err = g.open()
	}
	if err != nil && p.Process != nil {
		g.close() // it ends before it began
		_, buried := p.family.bury(p.Process)
		err = errors.Join(err, buried)
		p.handle.Close()
	}
	return err
}

// attend feeds the output to sink until the command and all it started are dead.
func (p *process) attend(sink func([]byte)) (Ending, error) {
	defer p.output.Close()
	defer p.handle.Close()
	defer closeAll(p.held) // last of all: nothing of the command is left then
	go p.watch()
	readErr := p.pump(sink)
	p.awaitExit()
	syscall.Kill(-p.Pid, syscall.SIGKILL) // the last signal before the number is free
	state, err := p.family.bury(p.Process)
	if err != nil {
		return Ending{}, err
	}
	p.sweep()
	return p.result(state), readErr
}

// watch waits for the leader's death and leaves it unreaped, so that its number
// cannot be given to a stranger before we have ended its group. It waits on the
// process's handle as one does on a pipe, which takes no thread of its own.
func (p *process) watch() {
	defer p.wake()
	defer close(p.exited)
	handle, err := p.handle.SyscallConn()
	if err == nil {
		err = handle.Read(func(fd uintptr) (dead bool) {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
	}
	if err == nil {
		return
	}
	for unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// cancel asks for the end; it may be called at any time and again.
func (p *process) cancel() {
	p.tell.Do(func() {
		close(p.told)
		p.wake()
	})
}

// wake ends a read that is under way.
func (p *process) wake() {
	p.output.SetReadDeadline(time.Unix(1, 0)) // closed means nobody reads
}

func is(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// chunks are used again: most commands say little, and all need one.
var chunks = sync.Pool{New: func() any { b := make([]byte, readChunk); return &b }}

// pump copies output until all writers are gone or patience ends.
func (p *process) pump(sink func([]byte)) error {
	chunk := chunks.Get().(*[]byte)
	defer chunks.Put(chunk)
	buf := *chunk
	for {
		// The deadline is set before the state is looked at. So what happens
		// later wakes this read, and what happened before is seen now.
		p.output.SetReadDeadline(p.nextStep()) // a pipe has deadlines
		switch p.step() {
		case moved:
			continue
		case deaf:
			return nil
		}
		n, err := p.output.Read(buf)
		if n > 0 {
			sink(buf[:n])
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
func (p *process) awaitExit() {
	for !is(p.exited) && !p.killed {
		p.step()
		told := p.told
		if !p.killAt.IsZero() {
			told = nil // it has been heard
		}
		timer := time.NewTimer(time.Until(p.nextStep()))
		select {
		case <-p.exited:
		case <-told:
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
func (p *process) step() progress {
	now, cancelled := time.Now(), is(p.told)
	ending := !p.killAt.IsZero() || !p.drainAt.IsZero()
	switch {
	case now.Before(p.nextStep()) && (ending || !is(p.exited) && !cancelled):
		return same
	case p.killed:
		return deaf
	case ending:
		p.orphans = p.killAt.IsZero()
		p.signal(syscall.SIGKILL)
		p.killed = true
		p.drainAt = now.Add(drainDelay)
	case is(p.exited):
		p.drainAt = now.Add(drainDelay)
	default:
		p.timedOut, p.cancelled = !cancelled, cancelled
		p.signal(syscall.SIGTERM)
		p.killAt = now.Add(killGrace)
	}
	return moved
}

// signal reaches the group and those that left it. The leader is not reaped
// before the last signal, so its number cannot name a stranger's group.
func (p *process) signal(s syscall.Signal) {
	if !p.wrapped || s == syscall.SIGKILL {
		syscall.Kill(-p.Pid, s) // an empty group is what we want
	}
	signalMarked(p.mark, p.Pid, s)
}

// sweep makes sure that nothing is left: neither of the group nor among those
// that left it, which are orphans by now and so have come to us.
func (p *process) sweep() {
	for range maxSweeps {
		n := p.family.end(p.mark)
		if p.killed || !p.killAt.IsZero() {
			n += signalMarked(p.mark, noGroup, syscall.SIGKILL)
		}
		if n == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (p *process) result(state *os.ProcessState) Ending {
	e := Ending{Code: state.ExitCode(), TimedOut: p.timedOut, Cancelled: p.cancelled, Orphans: p.orphans}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Code = 128 + int(status.Signal())
		e.Signal = unix.SignalName(status.Signal())
	}
	return e
}
