package checkpoint

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
)

var errInTheWay = errors.New("something that is not kept is in the way")

func (r *restorer) makeDirs() {
	for _, d := range r.m.Dirs {
		if err := r.makeDir(string(d.Path)); err != nil {
			r.fail(string(d.Path), err)
		}
	}
}

func (r *restorer) makeDir(p string) error {
	dir, err := r.at(path.Dir(p))
	if err != nil {
		return err
	}
	info, err := dir.Lstat(path.Base(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir.Mkdir(path.Base(p), 0o700)
	case err == nil && !info.IsDir():
		return errInTheWay
	}
	return err
}

func (r *restorer) putFiles() {
	for _, f := range r.m.Files {
		if r.ctx.Err() != nil {
			return
		}
		if err := r.putFile(f); err != nil {
			r.fail(string(f.Path), err)
		}
	}
}

func (r *restorer) putFile(f keptFile) error {
	dir, base, info, err := r.stands(string(f.Path))
	if err != nil {
		return err
	}
	if info != nil && info.Mode().IsRegular() {
		same, err := r.asKept(dir, base, info, f)
		if err != nil || same {
			return err
		}
	}
	content, err := r.store.get(r.ctx, f.SHA, f.Size)
	if err != nil {
		return err
	}
	err = r.replace(dir, base, func(temp string) error { return writeFile(dir, temp, content, f.Mode.Perm()) })
	if err == nil {
		r.restored++
	}
	return err
}

// stands looks at what is now where something has to come back; nil if nothing is.
func (r *restorer) stands(p string) (dir *os.Root, base string, info fs.FileInfo, err error) {
	base = path.Base(p)
	if dir, err = r.at(path.Dir(p)); err != nil {
		return nil, "", nil, err
	}
	info, err = dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir, base, nil, nil
	case err != nil:
		return nil, "", nil, err
	case info.IsDir() || r.isSpared(p, info):
		return nil, "", nil, errInTheWay
	}
	return dir, base, info, nil
}

// asKept reports whether a file has the content that was kept, and then sees to
// its mode. A file that cannot be read is not as kept.
func (r *restorer) asKept(dir *os.Root, base string, info fs.FileInfo, f keptFile) (bool, error) {
	if info.Size() != f.Size {
		return false, nil
	}
	was, ok := r.place.known[string(f.Path)]
	if ok && was.stamp == stampOf(info) && was.sha == f.SHA && info.Mode().Perm() == f.Mode.Perm() {
		return true, nil
	}
	file, info, err := openRegular(dir, base)
	if err != nil {
		return false, nil
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, f.Size+1))
	if err != nil || hash(content) != f.SHA {
		return false, nil
	}
	if info.Mode().Perm() == f.Mode.Perm() {
		return true, nil
	}
	// The other bits of the mode are not ours to give or take.
	if err := file.Chmod(info.Mode()&^fs.ModePerm | f.Mode.Perm()); err != nil {
		return false, err
	}
	r.restored++
	return true, nil
}

func (r *restorer) putLinks() {
	for _, l := range r.m.Links {
		if r.ctx.Err() != nil {
			return
		}
		if err := r.putLink(l); err != nil {
			r.fail(string(l.Path), err)
		}
	}
}

func (r *restorer) putLink(l keptLink) error {
	dir, base, info, err := r.stands(string(l.Path))
	if err != nil {
		return err
	}
	if info != nil && info.Mode().Type() == fs.ModeSymlink {
		if target, err := dir.Readlink(base); err == nil && target == string(l.Target) {
			return nil
		}
	}
	err = r.replace(dir, base, func(temp string) error { return dir.Symlink(string(l.Target), temp) })
	if err == nil {
		r.restored++
	}
	return err
}

// replace makes something under another name and moves it into place, so that
// there is never half of it.
func (r *restorer) replace(dir *os.Root, base string, make func(temp string) error) error {
	temp := restoreTemp + rand.Text()
	err := make(temp)
	if err == nil {
		err = dir.Rename(temp, base)
	}
	if err != nil {
		_ = dir.Remove(temp) // else the next restore does
	}
	return err
}

func writeFile(dir *os.Root, temp string, content []byte, mode fs.FileMode) error {
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// setDirModes works from the inside out: an outer directory may become closed.
func (r *restorer) setDirModes() {
	for _, d := range slices.Backward(r.m.Dirs) {
		p := string(d.Path)
		dir, err := r.at(path.Dir(p))
		if err != nil {
			continue // makeDirs said so
		}
		info, err := dir.Lstat(path.Base(p))
		if err != nil || !info.IsDir() || info.Mode().Perm() == d.Mode.Perm() {
			continue
		}
		if err := dir.Chmod(path.Base(p), info.Mode()&^fs.ModePerm|d.Mode.Perm()); err != nil {
			r.fail(p, fmt.Errorf("set its mode: %w", err))
		}
	}
}
