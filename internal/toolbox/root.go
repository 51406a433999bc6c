package toolbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks is how many symbolic links one path may lead through.
const maxLinks = 40

// errPseudo marks a file whose content the kernel makes up on the spot.
var errPseudo = errors.New("belongs to the kernel (a proc or sys file system), not to the workspace")

// place turns a path as a model wrote it into one that os.Root can follow.
func (w workspace) place(path string) (string, error) {
	name, err := w.local(path)
	if err != nil {
		return "", err
	}
	if _, err := w.Stat(name); escapes(err) {
		if other, ok := w.respell(name); ok {
			return other, nil
		}
	}
	return name, nil
}

// respell writes out the links of a path. os.Root refuses every absolute link,
// also one that leads back into the workspace; spelled out such a path needs no
// link. This only proposes a name: os.Root judges it again when it is opened.
func (w workspace) respell(name string) (string, bool) {
	done, left := ".", elements(name)
	for links := 0; len(left) > 0; {
		next := left[0]
		left = left[1:]
		if next == ".." {
			if done == "." {
				return "", false
			}
			done = filepath.Dir(done)
			continue
		}
		here := filepath.Join(done, next)
		info, err := w.Lstat(here)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			done = here
			continue
		}
		to, err := w.Readlink(here)
		if links++; err != nil || links > maxLinks {
			return "", false
		}
		if filepath.IsAbs(to) {
			if to, err = w.local(to); err != nil {
				return "", false
			}
			done = "."
		}
		left = append(elements(to), left...)
	}
	return done, true
}

// elements splits a path and leaves out what means "here".
func elements(path string) []string {
	var parts []string
	for part := range strings.SplitSeq(path, string(filepath.Separator)) {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}

// escapes reports that os.Root refused a path because it leads outside.
func escapes(err error) bool {
	var p *fs.PathError
	return errors.As(err, &p) && p.Err.Error() == "path escapes from parent"
}

// openFile opens a file a model named. It looks before it opens, because merely
// opening some devices has an effect.
func (w workspace) openFile(name string) (*os.File, fs.FileInfo, error) {
	info, err := w.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: notRegular(info.Mode())}
	}
	return openRegular(w.Root, name)
}

// listDir reads the names of an open directory in order. A directory of the
// kernel has none that a search should visit.
func listDir(dir *os.Root) ([]fs.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if isPseudo(f) {
		return nil, errPseudo
	}
	entries, err := f.ReadDir(maxWalkEntries + 1)
	if err == io.EOF {
		err = nil // an empty directory
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}
