package pebble

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	dirPerm  = 0o700
	filePerm = 0o600
)

// privateFS makes everything it creates readable by its owner alone.
type privateFS struct{ vfs.FS }

// Create implements vfs.FS.
func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	return restrict(f, name, err)
}

// OpenReadWrite implements vfs.FS.
func (p privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.FS.OpenReadWrite(name, category, opts...)
	return restrict(f, name, err)
}

func restrict(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, filePerm); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// MkdirAll implements vfs.FS.
func (p privateFS) MkdirAll(dir string, _ os.FileMode) error { return p.FS.MkdirAll(dir, dirPerm) }

// failStopFS is the file system Pebble sees: the first failed change trips the
// breaker, and a tripped breaker keeps all further changes from the disk. So a
// damaged store stays as the failure left it until it is opened again.
//
// Pebble itself must not learn of every failure. When its write-ahead log fails
// it panics in a way that no recover can stop, and a failed flush it repeats at
// once and for ever. So changes to the write-ahead log and syncs of directories
// always seem to succeed, which is harmless because the committer believes
// nobody after the breaker has tripped; and a flush is held where it creates its
// next file.
type failStopFS struct {
	vfs.FS
	breaker  *breaker
	removals *removals
}

const walSuffix = ".log"

func (f failStopFS) change(verb, name string, do func() error) error {
	if err := f.breaker.check(); err != nil {
		return err
	}
	if err := do(); err != nil {
		err = fmt.Errorf("%s %s: %w", verb, name, err)
		f.breaker.trip(err)
		return err
	}
	return nil
}

// Lock implements vfs.FS. The data directory's own lock covers the store.
func (failStopFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Create implements vfs.FS.
func (f failStopFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.breaker.check() != nil && !strings.HasSuffix(name, walSuffix) {
		<-f.breaker.released
	}
	return f.open("create", name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

// OpenReadWrite implements vfs.FS.
func (f failStopFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.open("open", name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

// ReuseForWrite implements vfs.FS.
func (f failStopFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("reuse", name, func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, category) })
}

// open does what do does, if it may. A write-ahead log that cannot be had is
// replaced by one that nobody will read.
func (f failStopFS) open(verb, name string, do func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.change(verb, name, func() (err error) {
		file, err = do()
		return err
	})
	wal := strings.HasSuffix(name, walSuffix)
	switch {
	case err == nil:
	case wal:
		file = vfs.NewMemFile(nil)
	default:
		return nil, err
	}
	return &failStopFile{File: file, fs: f, name: name, absorbs: wal}, nil
}

// OpenDir implements vfs.FS.
func (f failStopFS) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &failStopFile{File: dir, fs: f, name: name, absorbs: true}, nil
}

// Link implements vfs.FS.
func (f failStopFS) Link(old, name string) error {
	return f.change("link", name, func() error { return f.FS.Link(old, name) })
}

// Rename implements vfs.FS.
func (f failStopFS) Rename(old, name string) error {
	return f.change("rename", name, func() error { return f.FS.Rename(old, name) })
}

// MkdirAll implements vfs.FS.
func (f failStopFS) MkdirAll(dir string, perm os.FileMode) error {
	return f.change("make directory", dir, func() error { return f.FS.MkdirAll(dir, perm) })
}

// Remove implements vfs.FS. A file that stays is harmless, so failing to remove
// one does not break the store.
func (f failStopFS) Remove(name string) error {
	if err := f.breaker.check(); err != nil {
		return err
	}
	return f.removals.remove(name)
}

// RemoveAll implements vfs.FS.
func (f failStopFS) RemoveAll(name string) error {
	if err := f.breaker.check(); err != nil {
		return err
	}
	return f.FS.RemoveAll(name)
}

// Unwrap implements vfs.FS.
func (f failStopFS) Unwrap() vfs.FS { return f.FS }

type failStopFile struct {
	vfs.File
	fs      failStopFS
	name    string
	absorbs bool // failures are for the breaker only
}

func (f *failStopFile) change(verb string, do func() error) error {
	if err := f.fs.change(verb, f.name, do); !f.absorbs {
		return err
	}
	return nil
}

// Write implements vfs.File.
func (f *failStopFile) Write(p []byte) (int, error) {
	err := f.change("write", func() error {
		_, err := f.File.Write(p)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteAt implements vfs.File.
func (f *failStopFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.change("write", func() error {
		_, err := f.File.WriteAt(p, off)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Sync implements vfs.File.
func (f *failStopFile) Sync() error { return f.change("sync", f.File.Sync) }

// SyncData implements vfs.File.
func (f *failStopFile) SyncData() error { return f.change("sync", f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *failStopFile) SyncTo(length int64) (full bool, err error) {
	err = f.change("sync", func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Preallocate implements vfs.File. It only makes later writes faster; a full
// disk shows when they come.
func (f *failStopFile) Preallocate(offset, length int64) error {
	if err := f.File.Preallocate(offset, length); !f.absorbs {
		return err
	}
	return nil
}

// Close implements vfs.File.
func (f *failStopFile) Close() error {
	err := f.File.Close()
	if err == nil || !f.absorbs {
		return err
	}
	f.fs.breaker.trip(fmt.Errorf("close %s: %w", f.name, err))
	return nil
}
