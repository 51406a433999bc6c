package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

var (
	errSwapped   = errors.New("was swapped for something else while it was being opened")
	errNoDir     = errors.New("is not a directory")
	errOtherDisk = errors.New("is on another file system")
)

// node is one name a walk came by. Open it through dir, the very directory it was
// listed in.
type node struct {
	dir  *os.Root
	name string
	path string // from the top, with slashes
	info fs.FileInfo
}

// walker visits what the rules cover, a directory before what is in it. It follows
// no link and stays on one file system.
type walker struct {
	ctx    context.Context
	limits limits
	rules  rules
	dev    uint64
	kept   func(path string) bool // the directory is covered even if it is marked as a cache

	visit  func(node) error
	skip   func(n node, why string)
	ignore func(path string)
	temp   func(node)

	seen, bytes int
	cut         bool // a limit was reached: names are missing
}

func (w *walker) walk(top *os.Root) error {
	info, err := top.Stat(".")
	if err != nil {
		return err
	}
	w.dev = stampOf(info).dev
	entries, err := list(top, w.limits.entries)
	if err != nil {
		return err
	}
	return w.enter(top, "", entries, 0)
}

func (w *walker) enter(dir *os.Root, at string, entries []fs.DirEntry, depth int) error {
	for _, e := range entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		n := node{dir: dir, name: e.Name(), path: path.Join(at, e.Name())}
		w.seen, w.bytes = w.seen+1, w.bytes+len(n.path)
		if w.seen > w.limits.entries || w.bytes > w.limits.nameBytes {
			w.cut = true
			return nil
		}
		info, err := dir.Lstat(n.name)
		if err != nil {
			continue // gone since it was listed
		}
		n.info = info
		if err := w.one(n, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) one(n node, depth int) error {
	switch {
	case strings.HasPrefix(n.name, restoreTemp) && !n.info.IsDir():
		w.temp(n)
		return nil
	case neverTouched(n.name):
		return nil
	case !n.info.IsDir():
		return w.visit(n)
	case w.rules.ignores(n.path):
		w.ignore(n.path)
		return nil
	case depth >= w.limits.depth:
		w.skip(n, "nested too deep")
		return nil
	}
	dir, err := step(n.dir, n.name, w.dev)
	if err != nil {
		w.skip(n, reason(err))
		return nil
	}
	defer dir.Close()
	entries, err := list(dir, w.limits.entries)
	if err != nil {
		w.skip(n, reason(err))
		return nil
	}
	if !w.kept(n.path) && isCache(dir, entries) {
		w.ignore(n.path)
		return nil
	}
	if err := w.visit(n); err != nil {
		return err
	}
	return w.enter(dir, n.path, entries, depth+1)
}

// step opens a directory in a directory. A link is refused, also one that would
// stay inside or is swapped in this very moment.
func step(dir *os.Root, name string, dev uint64) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errNoDir
	}
	if stampOf(info).dev != dev {
		return nil, errOtherDisk
	}
	// With the dot the system opens a directory or nothing; a FIFO swapped in now
	// would hold us.
	next, err := dir.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = errSwapped
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// list reads the names of an open directory in order.
func list(dir *os.Root, limit int) ([]fs.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(limit + 1)
	if err != nil && err != io.EOF { // the end comes at once in an empty directory
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// openRegular opens a file for reading, and only what stands there under this
// name. Without O_NONBLOCK a FIFO would hold us until someone writes to it.
func openRegular(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	seen, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !seen.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(seen, info) {
		err = errSwapped
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// reason says what went wrong without the path, which the reader knows.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return err.Error()
}
