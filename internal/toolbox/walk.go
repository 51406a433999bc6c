package toolbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

const (
	// maxWalkEntries bounds the names one call looks at.
	maxWalkEntries = 200_000
	// maxWalkDepth bounds nesting; every level keeps one directory open.
	maxWalkDepth = 100
	gitDir       = ".git"
)

// errStop ends a walk that has found enough.
var errStop = errors.New("stop walking")

// found is one name a walk came by. Open it through dir, which is the very
// directory it was listed in.
type found struct {
	dir  *os.Root
	name string
	path string // from the top of the workspace, with slashes
	kind fs.FileMode
}

// walker visits what lies below a directory in the order of names. It enters
// neither symbolic links nor .git.
type walker struct {
	ctx     context.Context
	ignored bool // visit what .gitignore files hide too
	visit   func(found) error

	seen int
	cut  bool // a limit was reached, so names are missing
}

// walk visits everything below start, a local path in the workspace.
func (w *walker) walk(top workspace, start string) error {
	start = path.Clean(strings.ReplaceAll(start, string(os.PathSeparator), "/"))
	dir, err := top.OpenRoot(start)
	if err != nil {
		return err
	}
	defer dir.Close()
	if start == "." {
		start = ""
	}
	err = w.enter(dir, start, w.rulesAbove(top.Root, start), 0)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// rulesAbove collects what the parents of the start say about names below it.
func (w *walker) rulesAbove(top *os.Root, start string) *ignores {
	if w.ignored {
		return nil
	}
	rules := (*ignores)(nil).under(top, excludeName, "")
	for i, c := range start {
		if i == 0 {
			rules = rules.under(top, ignoreName, "")
		}
		if c == '/' {
			rules = rules.under(top, start[:i]+"/"+ignoreName, start[:i])
		}
	}
	return rules
}

func (w *walker) enter(dir *os.Root, at string, rules *ignores, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := listDir(dir)
	if err != nil {
		return nil // unreadable or gone since it was listed: there is nothing to visit
	}
	if !w.ignored {
		for _, e := range entries {
			if e.Name() == ignoreName && e.Type().IsRegular() {
				rules = rules.under(dir, ignoreName, at)
			}
		}
	}
	for _, e := range entries {
		if w.seen++; w.seen > maxWalkEntries {
			w.cut = true
			return errStop
		}
		f := found{dir: dir, name: e.Name(), path: below(at, e.Name()), kind: e.Type()}
		if f.name == gitDir || rules.match(f.path, e.IsDir()) {
			continue
		}
		if err := w.visit(f); err != nil {
			return err
		}
		if e.IsDir() {
			if err := w.descend(f, rules, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) descend(f found, rules *ignores, depth int) error {
	if depth > maxWalkDepth {
		w.cut = true
		return nil
	}
	// A link swapped in since the listing may lead elsewhere in the workspace,
	// never out of it.
	dir, err := f.dir.OpenRoot(f.name)
	if err != nil {
		return nil
	}
	defer dir.Close()
	return w.enter(dir, f.path, rules, depth)
}

func below(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
