package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// alivePipe is the descriptor by which an effect holds its pipe open.
const alivePipe = "9"

// killEffects kills the effects of a stopped program and whatever watches over
// them. Behind walls a process does not know its own number, so they are found by
// the pipe they hold; where a system does not tell who holds what, they are spared.
func (w *workspace) killEffects() error {
	var all []int
	for _, pid := range w.atWork() {
		for _, p := range append(watchers(pid), pid) {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	// Those who watch come first, or they would put on record how the effect ended.
	for _, pid := range all {
		if err := syscall.Kill(pid, syscall.SIGKILL); !gone(err) {
			return fmt.Errorf("killing an effect: %w", err)
		}
	}
	return nil
}

// atWork returns the processes that hold the pipe of this workspace open for
// writing.
func (w *workspace) atWork() []int {
	pipe, err := os.Stat(filepath.Join(w.dir, "alive"))
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		pid, notProcess := strconv.Atoi(e.Name())
		held, notHeld := os.Stat(filepath.Join("/proc", e.Name(), "fd", alivePipe))
		if err != nil || notProcess != nil || notHeld != nil || pid == os.Getpid() || !os.SameFile(pipe, held) {
			continue
		}
		info, err := os.ReadFile(filepath.Join("/proc", e.Name(), "fdinfo", alivePipe))
		if err == nil && writes(string(info)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// writes tells the end of a pipe that is written to by the flags it was opened with.
func writes(info string) bool {
	const octal = 8
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(text), octal, 64)
			return err == nil && flags&syscall.O_ACCMODE == syscall.O_WRONLY
		}
	}
	return false
}

// watchers are the processes above an effect that belong to the program, the
// uppermost first.
func watchers(pid int) []int {
	const deep = 16
	var chain []int
	for range deep {
		pid = parentOf(pid)
		if pid <= 1 || !ours(pid) {
			break
		}
		chain = append([]int{pid}, chain...)
	}
	return chain
}

// ours reports whether a process is the program under test, or the one that
// builds its walls.
func ours(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && (filepath.Dir(exe) == os.Getenv(binVar) || filepath.Base(exe) == "bwrap")
}

func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in brackets may hold anything; the state and the parent follow it.
	_, rest, _ := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// nobodyStays holds that no process of the program is left, not even one that
// watched over commands.
func nobodyStays(t *testing.T) {
	t.Helper()
	const patience, poll = 30 * time.Second, 50 * time.Millisecond
	var left []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(poll) {
		left = nil
		all, _ := filepath.Glob("/proc/[0-9]*/exe")
		for _, link := range all {
			if exe, err := os.Readlink(link); err == nil && filepath.Dir(exe) == os.Getenv(binVar) {
				left = append(left, link)
			}
		}
		if left == nil {
			return
		}
	}
	t.Errorf("after %v these are still there: %v", patience, left)
}

// tellsWhoHolds reports whether the system says which process holds which file.
func tellsWhoHolds() bool {
	_, err := os.Stat("/proc/self/fd")
	return !errors.Is(err, fs.ErrNotExist)
}
