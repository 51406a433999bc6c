//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitKinds say how a shell sets a limit, and in what units.
var limitKinds = map[int]struct {
	set  string
	unit uint64
}{
	unix.RLIMIT_CORE: {"ulimit -c %d", 512},
	// Shells do not agree on the letter.
	unix.RLIMIT_NPROC:  {"{ ulimit -u %[1]d 2>/dev/null || ulimit -p %[1]d; }", 1},
	unix.RLIMIT_NOFILE: {"ulimit -n %d", 1},
	unix.RLIMIT_FSIZE:  {"ulimit -f %d", 512},
	unix.RLIMIT_DATA:   {"ulimit -d %d", 1024},
	unix.RLIMIT_CPU:    {"ulimit -t %d", 1},
}

// resolve says what to ask the kernel for.
func (l Limits) resolve() ([]Rlimit, error) {
	if l == (Limits{}) {
		return nil, nil
	}
	processes := l.Processes
	if processes > 0 {
		running, err := runningTasks()
		if err != nil {
			return nil, fmt.Errorf("counting the processes of the machine: %w", err)
		}
		processes += running
	}
	list := []Rlimit{{Resource: unix.RLIMIT_CORE}}
	for _, r := range []Rlimit{
		{unix.RLIMIT_NPROC, processes},
		{unix.RLIMIT_NOFILE, l.OpenFiles},
		{unix.RLIMIT_FSIZE, l.FileBytes},
		{unix.RLIMIT_DATA, l.MemoryBytes},
		{unix.RLIMIT_CPU, l.CPUSeconds},
	} {
		if r.Value == 0 {
			continue
		}
		var old unix.Rlimit
		if err := unix.Prlimit(0, r.Resource, nil, &old); err != nil {
			return nil, fmt.Errorf("reading limit number %d: %w", r.Resource, err)
		}
		r.Value = min(r.Value, old.Max) // a limit that is lower already stays
		list = append(list, r)
	}
	return list, nil
}

// Bound sets limits, as Text wrote them, on this process and all it will start.
func Bound(text string) error {
	var l Limits
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return fmt.Errorf("reading limits: %w", err)
	}
	list, err := l.resolve()
	if err != nil {
		return err
	}
	for _, r := range list {
		// Through syscall, which else gives back to children what Go had raised.
		if err := syscall.Setrlimit(r.Resource, &syscall.Rlimit{Cur: r.Value, Max: r.Value}); err != nil {
			return fmt.Errorf("setting limit number %d: %w", r.Resource, err)
		}
	}
	return nil
}

// runningTasks counts the threads of the machine, which are at least as many as
// any user has.
func runningTasks() (uint64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	var load [3]float64
	var running, all uint64
	_, err = fmt.Sscanf(string(text), "%f %f %f %d/%d", &load[0], &load[1], &load[2], &running, &all)
	return all, err
}

// Limited is the launch for somebody who cannot set limits on what they start: a
// shell sets them on itself and becomes the rest, or ends if it cannot.
func (l Launch) Limited() (Launch, error) {
	if len(l.Limits) == 0 {
		return l, nil
	}
	var steps []string
	for _, r := range l.Limits {
		kind, known := limitKinds[r.Resource]
		if !known {
			return l, fmt.Errorf("there is no limit number %d", r.Resource)
		}
		value := r.Value / kind.unit
		if value == 0 && r.Value > 0 {
			value = 1
		}
		steps = append(steps, fmt.Sprintf(kind.set, value))
	}
	script := fmt.Sprintf(`%s || exit %d; exec "$@"`, strings.Join(steps, " && "), exitBroken)
	line := []string{"/bin/sh", "-c", script, "sh"}
	l.Argv = append(line[:len(line):len(line)], l.Argv...)
	if len(l.Inner) > 0 {
		l.Inner = append(line[:len(line):len(line)], l.Inner...)
	}
	l.Limits = nil
	return l, nil
}
