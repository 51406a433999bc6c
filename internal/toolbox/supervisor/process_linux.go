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
	pid    int
	proof  proof
	handle *os.File // readable when the leader is dead
	family *family
	output *os.File
	// ours is our own end for writing of the output. Open while the leader lives, it
	// keeps the output from ending before the leader: one event is all that wakes us.
	ours   *os.File
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
	r, w, err := outputPipe()
	if err != nil {
		return nil, err
	}
	p := &process{
		family: f, output: r, ours: w, held: held, mark: mark, wrapped: s.Wrapped, deadline: s.Deadline,
		exited: make(chan struct{}), told: make(chan struct{}),
	}
	attr := &syscall.ProcAttr{
		Dir: s.Dir, Env: append(s.Env[:len(s.Env):len(s.Env)], mark), Files: []uintptr{f.null.Fd(), w.Fd(), w.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: s.Session, Setpgid: !s.Session},
	}
	for _, file := range passed {
		attr.Files = append(attr.Files, file.Fd())
	}
	if len(s.Walls) > 0 && f.confine != nil {
		err = p.startBehind(s.Walls, s.Inner, attr)
	} else {
		err = p.start(s.Argv, attr)
	}
	if err != nil {
		closeAll([]*os.File{r, w})
		return nil, err
	}
	return p, nil
}

// outputPipe is a pipe whose one end we wait at, while the other is made for
// commands, which do not expect to be told to come back later.
func outputPipe() (r, w *os.File, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return awaited(ends[0], "output"), os.NewFile(uintptr(ends[1]), "output"), nil
}

// awaited makes a file that is waited for without a thread of its own.
func awaited(fd int, name string) *os.File {
	unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK) // else it is waited for on a thread, which works too
	return os.NewFile(uintptr(fd), name)
}

// start starts the leader from this thread. Package os would keep a second handle
// of it.
func (p *process) start(argv []string, attr *syscall.ProcAttr) (err error) {
	handle := -1
	attr.Sys.PidFD = &handle
	before := ticksNow()
	p.pid, err = p.family.bear(p.mark, func() (int, error) {
		pid, _, err := syscall.StartProcess(argv[0], argv, attr)
		return pid, err
	})
	if err != nil {
		return &os.PathError{Op: "fork/exec", Path: argv[0], Err: err}
	}
	p.proof = proof{PID: p.pid, Ticks: before, Until: ticksNow()}
	if handle >= 0 {
		p.handle = awaited(handle, "leader")
	}
	return nil
}

// startBehind starts the leader behind walls and lets it begin once no thread of
// ours is there with it.
func (p *process) startBehind(walls []byte, argv []string, attr *syscall.ProcAttr) error {
	g, err := newGate()
	if err != nil {
		return err
	}
	defer g.close()
	argv = g.before(argv, len(attr.Files))
	attr.Files = append(attr.Files, g.r.Fd())
	if err = p.family.behindWalls(walls, func() error { return p.start(argv, attr) }); err == nil {
		err = g.open()
	}
	if err != nil && p.pid != 0 {
		g.close() // it ends before it began
		_, buried := p.family.bury(p.pid)
		err = errors.Join(err, buried)
		p.handle.Close()
	}
	return err
}

// attend feeds the output to sink until the command and all it started are dead.
func (p *process) attend(sink func([]byte)) (Ending, error) {
	defer closeAll(p.held) // last of all: nothing of the command is left then
	go p.watch()
	readErr := p.pump(sink)
	p.awaitExit()
	syscall.Kill(-p.pid, syscall.SIGKILL) // the last signal before the number is free
	status, err := p.family.bury(p.pid)
	if err != nil {
		return Ending{}, err
	}
	p.sweep()
	return p.result(status), readErr
}

// close lets go of what a command that was attended leaves.
func (p *process) close() { closeAll([]*os.File{p.output, p.handle}) }

// watch waits for the leader's death and leaves it unreaped, so that its number
// cannot be given to a stranger before we have ended its group. It waits on the
// process's handle as one does on a pipe, which takes no thread of its own.
func (p *process) watch() {
	defer p.wake()
	defer close(p.exited)
	defer p.ours.Close()
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
	for unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
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

// awaitExit waits for a leader whose output has ended, which it cannot before its
// death, or could not be read.
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
		syscall.Kill(-p.pid, s) // an empty group is what we want
	}
	signalMarked(p.mark, p.pid, s)
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

func (p *process) result(status unix.WaitStatus) Ending {
	e := Ending{Code: status.ExitStatus(), TimedOut: p.timedOut, Cancelled: p.cancelled, Orphans: p.orphans}
	if status.Signaled() {
		e.Code = 128 + int(status.Signal())
		e.Signal = unix.SignalName(status.Signal())
	}
	return e
}
