package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// maxNamed is how many failures an error spells out.
const maxNamed = 10

// Unfinished says which files a restore could not put back. Restoring again
// goes on with them.
type Unfinished struct {
	Paths   []string
	Reasons []error // one for each path
}

// Error names the first few files.
func (u *Unfinished) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d not put back", len(u.Paths))
	for i, p := range u.Paths {
		if i == maxNamed {
			fmt.Fprintf(&b, "; and %d more", len(u.Paths)-i)
			break
		}
		fmt.Fprintf(&b, "; %s: %s", p, reason(u.Reasons[i]))
	}
	return b.String()
}

// Unwrap implements the convention of package errors.
func (u *Unfinished) Unwrap() []error { return u.Reasons }

// restorer puts back one checkpoint.
type restorer struct {
	store *Store
	place *place
	m     *manifest

	ctx    context.Context
	top    *os.Root
	dev    uint64
	kinds  map[string]fs.FileMode // what the list says a path is
	spared map[string]bool        // skipped and ignored paths
	inodes map[[2]uint64]bool     // skipped files, wherever they are now
	here   *os.Root               // the directory opened last
	hereAt string
	failed Unfinished

	restored, removed int
}

func (r *restorer) restore(ctx context.Context, dir string) error {
	top, err := openTop(dir)
	if err != nil {
		return err
	}
	defer top.Close()
	info, err := top.Stat(".")
	if err != nil {
		return err
	}
	r.ctx, r.top, r.dev = ctx, top, stampOf(info).dev
	defer r.closeHere()
	r.index()
	r.loosen()
	found, err := r.look()
	if err != nil {
		return err
	}
	// What is new goes first: it may stand where something else has to come back.
	for _, stage := range []func(){func() { r.removeNew(found) }, r.makeDirs, r.putFiles, r.putLinks, r.setDirModes} {
		stage()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if len(r.failed.Paths) > 0 {
		return &r.failed
	}
	return nil
}

func (r *restorer) index() {
	r.kinds, r.spared, r.inodes = map[string]fs.FileMode{}, map[string]bool{}, map[[2]uint64]bool{}
	for _, d := range r.m.Dirs {
		r.kinds[string(d.Path)] = fs.ModeDir
	}
	for _, f := range r.m.Files {
		r.kinds[string(f.Path)] = 0
	}
	for _, l := range r.m.Links {
		r.kinds[string(l.Path)] = fs.ModeSymlink
	}
	for _, p := range r.m.Ignored {
		r.spared[string(p)] = true
	}
	for _, s := range r.m.Skipped {
		r.spared[string(s.Path)] = true
		if s.Ino != 0 {
			r.inodes[[2]uint64{s.Dev, s.Ino}] = true
		}
	}
}

// loosen makes kept directories accessible that no longer are. Their modes are
// set at the end.
func (r *restorer) loosen() {
	for _, d := range r.m.Dirs {
		p := string(d.Path)
		dir, err := r.at(path.Dir(p))
		if err != nil {
			continue // the reason shows again where the directory is needed
		}
		info, err := dir.Lstat(path.Base(p))
		if err == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 && stampOf(info).dev == r.dev {
			_ = dir.Chmod(path.Base(p), info.Mode()|0o700)
		}
	}
}

// look finds what the rules cover now, by path.
func (r *restorer) look() (map[string]fs.FileInfo, error) {
	found := map[string]fs.FileInfo{}
	w := walker{
		ctx: r.ctx, limits: r.store.limits, rules: r.m.Ignore,
		kept: func(p string) bool { return r.kinds[p].IsDir() },
		visit: func(n node) error {
			_, comesBack := r.kinds[n.path]
			// A stand-in is of use to somebody, unless something else has to be there.
			if comesBack || !r.store.standsIn(n.info.Mode(), n.info.Size(), n.info.ModTime()) {
				found[n.path] = n.info
			}
			return nil
		},
		skip:   func(node, string) {},
		ignore: func(string) {},
		temp:   func(n node) { _ = n.dir.Remove(n.name) }, // left by a restore that was cut off
	}
	return found, w.walk(r.top)
}

// removeNew removes what was not there, the inner before the outer.
func (r *restorer) removeNew(found map[string]fs.FileInfo) {
	if r.m.Unlisted > 0 {
		return
	}
	paths := make([]string, 0, len(found))
	for p, info := range found {
		kind, kept := r.kinds[p]
		inTheWay := kept && kind != info.Mode().Type() && (kind.IsDir() || info.IsDir())
		if (!kept || inTheWay) && !r.isSpared(p, info) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, p := range slices.Backward(paths) {
		if r.ctx.Err() != nil {
			return
		}
		r.remove(p, found[p])
	}
}

func (r *restorer) isSpared(p string, info fs.FileInfo) bool {
	s := stampOf(info)
	if !info.IsDir() && r.inodes[[2]uint64{s.dev, s.ino}] {
		return true
	}
	for ; p != "."; p = path.Dir(p) {
		if r.spared[p] {
			return true
		}
	}
	return false
}

// remove takes away one new name, if it is of a sort that is kept.
func (r *restorer) remove(p string, info fs.FileInfo) {
	dir, err := r.at(path.Dir(p))
	if err != nil {
		r.fail(p, err)
		return
	}
	base := path.Base(p)
	switch mode := info.Mode(); {
	case mode.IsRegular():
		if info.Size() > r.store.limits.fileBytes {
			return
		}
		f, _, err := openRegular(dir, base)
		if err != nil {
			return // a file that cannot be read would not have been kept
		}
		f.Close()
	case mode.Type() != fs.ModeSymlink && !mode.IsDir():
		return
	}
	err = dir.Remove(base)
	if errors.Is(err, fs.ErrPermission) && r.allow(dir) {
		err = dir.Remove(base)
	}
	switch {
	case info.IsDir(): // one that is not empty holds something that is spared
	case err == nil:
		r.removed++
	case !errors.Is(err, fs.ErrNotExist):
		r.fail(p, err)
	}
}

// allow makes a new directory writable, so that what is new in it can go.
func (r *restorer) allow(dir *os.Root) bool {
	info, err := dir.Stat(".")
	return err == nil && r.hereAt != "." && !r.kinds[r.hereAt].IsDir() && dir.Chmod(".", info.Mode()|0o700) == nil
}

// at opens a directory of the tree without following a link on the way.
func (r *restorer) at(p string) (*os.Root, error) {
	if r.here != nil && r.hereAt == p {
		return r.here, nil
	}
	r.closeHere()
	dir, err := r.top.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	if p != "." {
		for part := range strings.SplitSeq(p, "/") {
			next, err := step(dir, part, r.dev)
			dir.Close()
			if err != nil {
				return nil, fmt.Errorf("directory %s: %w", part, err)
			}
			dir = next
		}
	}
	r.here, r.hereAt = dir, p
	return dir, nil
}

func (r *restorer) closeHere() {
	if r.here != nil {
		r.here.Close()
		r.here = nil
	}
}

func (r *restorer) fail(p string, err error) {
	r.failed.Paths = append(r.failed.Paths, p)
	r.failed.Reasons = append(r.failed.Reasons, err)
}
