package toolbox

import (
	"bytes"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxEnviron is how much of a process's environment is searched.
const maxEnviron = 256 << 10

// signalStrays sends a signal to every process that has the mark in its
// environment but left the group, as timeout(1), setsid(1) and a shell with job
// control do. It returns how many there were.
func signalStrays(mark string, group int, s unix.Signal) int {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return 0
	}
	n := 0
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && signalStray(pid, mark, group, s) {
			n++
		}
	}
	return n
}

func signalStray(pid int, mark string, group int, s unix.Signal) bool {
	if its, err := unix.Getpgid(pid); err != nil || its == group {
		return false
	}
	// The handle is taken first, so that what was looked at is what is signalled
	// even if the number is given to another process in between.
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(handle)
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	defer f.Close()
	environ, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil || !bytes.Contains(environ, []byte(mark)) {
		return false
	}
	return unix.PidfdSendSignal(handle, s, nil, 0) == nil
}
