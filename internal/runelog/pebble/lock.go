package pebble

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"stave/internal/runelog"
)

const (
	lockName   = "lock"
	maxLockLen = 1 << 10
)

// lockDir makes this process the only user of the data directory. The kernel
// drops the lock with the process, so a file left behind is no obstacle; what is
// written in it only tells the next one who is there.
func lockDir(dir string) (io.Closer, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, maxLockLen))
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		who, _, _ := strings.Cut(string(holder), "\n")
		if who == "" {
			who = "another process"
		}
		return nil, fmt.Errorf("%w: %s is held by %s", runelog.ErrLocked, dir, who)
	}
	if err := writeHolder(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return f, nil
}

// writeHolder writes the first line, the only one that counts: a longer one that
// was there before shows behind it, which is cheaper than cutting it off.
func writeHolder(f *os.File) error {
	_, err := f.WriteAt([]byte(holderLine(os.Getpid(), os.Args, time.Now())), 0)
	return err
}

// holderLine names program and subcommand but no further arguments, which may
// hold what a person typed.
func holderLine(pid int, args []string, since time.Time) string {
	command := filepath.Base(args[0])
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		command += " " + args[1]
	}
	return fmt.Sprintf("%s (pid %d) since %s\n", command, pid, since.Format(time.RFC3339))
}
