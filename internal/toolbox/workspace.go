package toolbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxText is how much of a result a model reads at once.
const maxText = 48 << 10

// workspace is the directory a call may touch. All access goes through os.Root,
// so neither ".." nor a symbolic link, even one swapped in mid-call, leads out.
type workspace struct {
	*os.Root
	dir string
}

func openWorkspace(env Env) (workspace, error) {
	root, err := os.OpenRoot(env.Dir())
	if err != nil {
		return workspace{}, fmt.Errorf("opening the workspace: %w", err)
	}
	return workspace{root, env.Dir()}, nil
}

// local turns a path as a model wrote it into one relative to the workspace.
// This is only about what a path says; os.Root decides where it really leads.
func (w workspace) local(path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", errors.New("the path contains a NUL character")
	}
	if !filepath.IsAbs(path) {
		if path == "" {
			path = "."
		}
		if !filepath.IsLocal(path) {
			return "", outside(path)
		}
		return filepath.Clean(path), nil
	}
	for _, dir := range []func() (string, error){
		func() (string, error) { return w.dir, nil },
		func() (string, error) { return filepath.EvalSymlinks(w.dir) },
	} {
		base, err := dir()
		if err != nil {
			return "", fmt.Errorf("resolving the workspace: %w", err)
		}
		if rel, err := filepath.Rel(base, path); err == nil && filepath.IsLocal(rel) {
			return rel, nil
		}
	}
	return "", outside(path)
}

func outside(path string) error {
	return fmt.Errorf("%s is outside the workspace; use a path inside it, relative to its top", shorten(path))
}

// openRegular opens a file for reading. Without O_NONBLOCK a FIFO would hold
// the call until someone writes to it.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: notRegular(info.Mode())}
	}
	if err == nil && isPseudo(f) {
		err = &fs.PathError{Op: "open", Path: name, Err: errPseudo}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// errDirectory marks a directory where a file was wanted.
var errDirectory = errors.New("is a directory")

func notRegular(mode fs.FileMode) error {
	switch {
	case mode.IsDir():
		return errDirectory
	case mode&fs.ModeSymlink != 0:
		return errors.New("is a symbolic link")
	case mode&fs.ModeNamedPipe != 0:
		return errors.New("is a FIFO, not a regular file")
	case mode&fs.ModeSocket != 0:
		return errors.New("is a socket, not a regular file")
	}
	return errors.New("is a device, not a regular file")
}

// pathProblem says what went wrong with a path in words for a model, without
// the absolute path of the workspace.
func pathProblem(path string, err error) error {
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: %w", path, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: no permission: %w", path, fs.ErrPermission)
	case escapes(err):
		return fmt.Errorf("%s leads out of the workspace through a symbolic link", path)
	case errors.As(err, &p):
		return fmt.Errorf("%s: %w", path, p.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
