package pebble

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stave/internal/runelog"
)

var errIsFile = errors.New("it is a file: name another directory or move the file away")

// makeDir creates the data directory durably: the entry of each new directory
// is synced in its parent.
func makeDir(fs vfs.FS, dir string) error {
	switch info, err := fs.Stat(dir); {
	case err == nil && !info.IsDir():
		return errIsFile
	case err == nil:
		return nil
	}
	parent := fs.PathDir(dir)
	if parent != dir && parent != "." {
		if err := makeDir(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, dirPerm); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	return syncDir(fs, parent)
}

// explain adds what a person can do about an error at opening.
func explain(dir string, err error) error {
	switch {
	case errors.Is(err, runelog.ErrLocked):
		return err
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("open data directory %s: %w: make it writable for this user or name another directory", dir, err)
	case errors.Is(err, runelog.ErrCorrupt):
		return fmt.Errorf("open data directory %s: %w: put it back from a backup, or move it away to begin anew", dir, err)
	default:
		return fmt.Errorf("open data directory %s: %w", dir, err)
	}
}

// readFile returns a whole file of at most max bytes.
func readFile(fs vfs.FS, name string, max int64) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > max {
		return nil, errors.New("file is too large")
	}
	return content, nil
}

// writeFile replaces a file atomically and durably.
func writeFile(fs vfs.FS, name string, content []byte) error {
	temp := name + tempSuffix
	err := func() error {
		f, err := fs.Create(temp, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		if err == nil {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	}()
	if err != nil {
		return fmt.Errorf("write %s: %w", temp, err)
	}
	return publish(fs, temp, name)
}

// publish gives a synced file its name, durably.
func publish(fs vfs.FS, temp, name string) error {
	if err := fs.Rename(temp, name); err != nil {
		return fmt.Errorf("rename %s: %w", temp, err)
	}
	return syncDir(fs, fs.PathDir(name))
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
