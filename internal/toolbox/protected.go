package toolbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// Protected names the files and directories that make other programs, or us, run
// something later, outside every wall: hooks, settings of editors, servers.
func Protected() []string {
	return []string{
		".git", ".stave", ".claude", ".codex", ".cursor", ".gemini", ".vscode", ".idea", ".mcp.json", ".envrc",
	}
}

// touchesFiles gives the trait of a call that names a protected path. Arguments
// that cannot be read may name anything.
func touchesFiles(args json.RawMessage) []string {
	var named struct {
		Path  string `json:"path"`
		Edits []struct {
			Path string `json:"path"`
		} `json:"edits"`
	}
	if err := jsonv2.Unmarshal(args, &named); err != nil {
		return []string{protected}
	}
	touched := isProtected(named.Path)
	for _, e := range named.Edits {
		touched = touched || isProtected(e.Path)
	}
	if touched {
		return []string{protected}
	}
	return nil
}

// isProtected says whether a path, as it is written, is or lies below a protected
// name, at any depth: a repository inside the workspace has hooks as well.
func isProtected(path string) bool {
	for _, part := range elements(filepath.Clean(path)) {
		part = plainName(part)
		for _, name := range Protected() {
			if strings.EqualFold(part, name) {
				return true
			}
		}
	}
	return false
}

// plainName writes a name as those file systems read it that are generous: HFS+
// passes over invisible letters, APFS folds ligatures, FAT drops dots and spaces
// at the end. Which of them a path lies on a name cannot tell.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
	name = strings.NewReplacer("\ufb05", "st", "\ufb06", "st").Replace(name)
	return strings.TrimRight(name, ". ")
}

// openParent opens the directory a file is to be put in. The gate has judged the
// path by its name, so a link must not lead from an ordinary name to a protected
// place. Spelled out, the path is walked without following any link; then nobody
// can swap one in between.
func (t *target) openParent(dir string) (*os.Root, error) {
	if t.asked {
		return t.OpenRoot(dir)
	}
	real, ok := t.respell(dir)
	if !ok {
		root, err := t.OpenRoot(dir)
		if err == nil {
			root.Close()
			err = errSwapped(dir)
		}
		return nil, err
	}
	if isProtected(filepath.Join(real, t.name)) {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fmt.Errorf(
			"leads through a symbolic link to %s, which is protected; name that path itself, and a person is asked", shorten(real))}
	}
	return walkPlain(t.Root, real)
}

// walkPlain opens a directory below root, one real directory after another.
func walkPlain(root *os.Root, dir string) (*os.Root, error) {
	at, err := root.OpenRoot(".")
	for _, name := range elements(dir) {
		if err != nil {
			break
		}
		var next *os.Root
		next, err = stepInto(at, name)
		at.Close()
		at = next
	}
	return at, err
}

func stepInto(at *os.Root, name string) (*os.Root, error) {
	seen, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if seen.Mode()&fs.ModeSymlink != 0 {
		return nil, errSwapped(name)
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := next.Stat("."); err != nil || !os.SameFile(seen, opened) {
		next.Close()
		return nil, errSwapped(name)
	}
	return next, nil
}

func errSwapped(name string) error {
	return &fs.PathError{Op: "open", Path: name, Err: errors.New("was swapped while it was being opened; try again")}
}
