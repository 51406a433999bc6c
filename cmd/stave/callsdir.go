package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"stave/internal/toolbox/supervisor"
)

// callsName is where the supervisors of a data directory keep what they know.
const callsName = "calls"

// callsDir is where what is known of running commands is kept: in memory where
// that can be done privately, since it is needed as long as the machine is up and
// no longer, else in the data directory.
func callsDir(data string, getenv func(string) string) string {
	sum := sha256.Sum256([]byte(data))
	name := "stave-" + hex.EncodeToString(sum[:8])
	for _, memory := range []string{getenv("XDG_RUNTIME_DIR"), "/dev/shm"} {
		dir := filepath.Join(memory, fmt.Sprintf("%s-%d", name, os.Getuid()))
		if memory != "" && privateDir(dir) == nil {
			return dir
		}
	}
	return filepath.Join(data, callsName)
}

// privateDir makes a directory that is ours alone; one that somebody else put
// there is refused.
func privateDir(dir string) error {
	const private = 0o700
	if err := os.Mkdir(dir, private); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm() != private || int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a private directory of ours", dir)
	}
	return nil
}

// maxHoldTries bounds the race with others that take the directory away.
const maxHoldTries = 10

// heldCallsDir is callsDir under a shared lock, which keeps others from removing the
// directory before anything is in it. Without a lock nobody removes it.
func heldCallsDir(data string, getenv func(string) string) (string, *os.File) {
	dir := callsDir(data, getenv)
	for range maxHoldTries {
		_ = os.MkdirAll(dir, 0o700) // one in the data directory may not be there yet
		f, err := os.Open(dir)
		if err == nil && syscall.Flock(int(f.Fd()), syscall.LOCK_SH) == nil {
			opened, err := f.Stat()
			named, gone := os.Lstat(dir)
			if err == nil && gone == nil && os.SameFile(opened, named) {
				return dir, f
			}
		}
		f.Close()
		dir = callsDir(data, getenv) // it was taken away in this moment
	}
	return dir, nil
}

// leaveDir removes the directory if nobody else is there and nothing is in it. A
// supervisor that still has to leave does the same.
func (r *runner) leaveDir() {
	if r.held == nil {
		return
	}
	r.held.Close()
	r.held = nil
	supervisor.Vacate(r.dir)
}
