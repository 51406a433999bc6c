package supervisor

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// markName is the variable that all processes of a command inherit.
	markName = "STAVE_CALL"
	// maxEnviron is how much of a process's environment is searched.
	maxEnviron = 256 << 10
	// noGroup is the number of no process group.
	noGroup = -1
)

// marked lists the processes that have a mark in their environment.
func marked(mark string) []int {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || mark == "" {
		return nil
	}
	var found []int
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if _, living, err := processInfo(pid); err == nil && living && hasMark(pid, mark) {
			found = append(found, pid)
		}
	}
	return found
}

func hasMark(pid int, mark string) bool { return bytes.Contains(environ(pid), []byte(mark)) }

func environ(pid int) []byte {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return nil
	}
	return data
}

// signalMarked reaches the processes of a command that left its group, as
// timeout(1), setsid(1), shells with job control and sandboxes do.
func signalMarked(mark string, group int, s unix.Signal) (n int) {
	for _, pid := range marked(mark) {
		if its, err := unix.Getpgid(pid); err == nil && its != group && signalSurely(pid, mark, s) {
			n++
		}
	}
	return n
}

// signalSurely takes the handle first, so that what is looked at is what is
// signalled even if the number is given to another process in between.
func signalSurely(pid int, mark string, s unix.Signal) bool {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(handle)
	return hasMark(pid, mark) && unix.PidfdSendSignal(handle, s, nil, 0) == nil
}

// family knows our children. Orphans of commands become ours too, because we
// asked the kernel for them: so none can hide, whatever it does to its
// environment, group or session.
type family struct {
	confine Confiner // may be nil
	null    *os.File // what commands read

	mu      sync.Mutex
	leaders map[int]string // marks of the commands we started, until they are reaped
	burial  *time.Timer    // runs while there are leaders
}

func newFamily(confine Confiner) (*family, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	f := &family{confine: confine, null: null, leaders: map[int]string{}}
	f.burial = time.AfterFunc(burialDelay, f.reap)
	return f, nil
}

// bear starts a leader, on this thread. Nobody looks at our children meanwhile,
// who would take it for an orphan.
//
// A child may have asked to die with the thread that started it. Threads of this
// program live as long as it does, but for those that build walls, and these are
// gone before their command begins.
func (f *family) bear(mark string, start func() (pid int, err error)) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	child, err := start()
	if err == nil {
		f.leaders[child] = mark
		f.burial.Reset(burialDelay)
	}
	return child, err
}

// bury reaps a dead leader.
func (f *family) bury(leader int) (status unix.WaitStatus, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.leaders, leader)
	for {
		if _, err = unix.Wait4(leader, &status, 0, nil); err != unix.EINTR {
			return status, os.NewSyscallError("wait4", err)
		}
	}
}

// reap buries the orphans that have died, from time to time while a command runs:
// the end of each command buries the rest.
func (f *family) reap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orphans()
	if len(f.leaders) > 0 {
		f.burial.Reset(burialDelay)
	}
}

// end kills the orphans of a buried command and says how many there were. One
// without any mark belongs to nobody we could ask, and is ended with the last
// command.
func (f *family) end(mark string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pid := range f.orphans() {
		if len(f.leaders) > 0 && !hasMark(pid, mark) {
			continue
		}
		// An unreaped child keeps its number.
		if unix.Kill(pid, unix.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// orphans lists our children that are no leaders, and reaps the dead ones.
func (f *family) orphans() []int {
	// Mostly there are no children at all, which the kernel says at once.
	if unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD {
		return nil
	}
	tasks, err := os.Open("/proc/self/task")
	if err != nil {
		return nil
	}
	defer tasks.Close()
	threads, err := tasks.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var found []int
	for _, thread := range threads {
		data, err := os.ReadFile("/proc/self/task/" + thread + "/children")
		if err != nil {
			continue // that thread is gone
		}
		for _, field := range bytes.Fields(data) {
			pid, err := strconv.Atoi(string(field))
			if err != nil || f.leaders[pid] != "" {
				continue
			}
			if reaped, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err == nil && reaped == 0 {
				found = append(found, pid)
			}
		}
	}
	return found
}
