package pebble

import (
	"fmt"
	"io"
	"os"

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
	if err != nil {
		return nil, err
	}
	return f, os.Chmod(name, filePerm)
}

// OpenReadWrite implements vfs.FS.
func (p privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.FS.OpenReadWrite(name, category, opts...)
	if err != nil {
		return nil, err
	}
	return f, os.Chmod(name, filePerm)
}

// MkdirAll implements vfs.FS.
func (p privateFS) MkdirAll(dir string, _ os.FileMode) error { return p.FS.MkdirAll(dir, dirPerm) }

// failStopFS is the file system Pebble sees: the first failed change trips the
// breaker, and a tripped breaker refuses all further changes. So a damaged store
// stays as the failure left it until it is opened again.
type failStopFS struct {
	vfs.FS
	breaker *breaker
}

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

// Create implements vfs.FS. Pebble repeats a failed flush at once and for ever;
// creating its next file is where that loop is held until the store is closed.
func (f failStopFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.breaker.check() != nil {
		<-f.breaker.released
	}
	var file vfs.File
	err := f.change("create", name, func() (err error) {
		file, err = f.FS.Create(name, category)
		return err
	})
	return f.wrap(file, name, err)
}

// OpenReadWrite implements vfs.FS.
func (f failStopFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	var file vfs.File
	err := f.change("open", name, func() (err error) {
		file, err = f.FS.OpenReadWrite(name, category, opts...)
		return err
	})
	return f.wrap(file, name, err)
}

// ReuseForWrite implements vfs.FS.
func (f failStopFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	var file vfs.File
	err := f.change("reuse", name, func() (err error) {
		file, err = f.FS.ReuseForWrite(old, name, category)
		return err
	})
	return f.wrap(file, name, err)
}

// OpenDir implements vfs.FS.
func (f failStopFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return f.wrap(file, name, err)
}

func (f failStopFS) wrap(file vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &failStopFile{File: file, fs: f, name: name}, nil
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
	return f.FS.Remove(name)
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
	fs   failStopFS
	name string
}

// Write implements vfs.File.
func (f *failStopFile) Write(p []byte) (n int, err error) {
	err = f.fs.change("write", f.name, func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

// WriteAt implements vfs.File.
func (f *failStopFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fs.change("write", f.name, func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

// Sync implements vfs.File.
func (f *failStopFile) Sync() error { return f.fs.change("sync", f.name, f.File.Sync) }

// SyncData implements vfs.File.
func (f *failStopFile) SyncData() error { return f.fs.change("sync", f.name, f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *failStopFile) SyncTo(length int64) (full bool, err error) {
	err = f.fs.change("sync", f.name, func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}
