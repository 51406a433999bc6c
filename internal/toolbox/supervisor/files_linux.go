package supervisor

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openAll opens what a program shall find open. What was opened before an error
// is returned with it.
func openAll(files []File) (opened []*os.File, err error) {
	for _, f := range files {
		var file *os.File
		if f.Path != "" {
			file, err = os.Open(f.Path)
		} else {
			file, err = inMemory(f.Data)
		}
		if err != nil {
			return opened, fmt.Errorf("opening a file for the command: %w", err)
		}
		opened = append(opened, file)
	}
	return opened, nil
}

// inMemory makes a file without a name, to be read from its beginning.
func inMemory(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("stave", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "memory")
	if _, err := f.WriteAt(data, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// hold puts a shared lock on files that somebody else keeps there with one until
// we have ours. A lock that is not to be had at once is held by one who takes the
// file away.
func hold(paths []string) (held []*os.File, err error) {
	for _, path := range paths {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return held, fmt.Errorf("holding a file for the command: %w", err)
		}
		held = append(held, f)
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
			return held, fmt.Errorf("holding %s for the command: %w", path, err)
		}
	}
	return held, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Vacate removes a directory of supervisors if nothing is in it. Who holds it open
// under a shared lock keeps it.
func Vacate(dir string) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	locked, err := f.Stat()
	named, gone := os.Lstat(dir)
	if err == nil && gone == nil && os.SameFile(locked, named) {
		_ = os.Remove(dir) // one with something in it stays
	}
}
