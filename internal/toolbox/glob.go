package toolbox

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

const maxGlobResults = 500

//go:embed glob.md
var globDoc string

type globArgs struct {
	Pattern        string `json:"pattern" min:"1" max:"1000" jsonschema:"the glob, such as src/**/*.go"`
	Path           string `json:"path,omitempty" jsonschema:"directory to start from (default: the top of the workspace)"`
	IncludeIgnored bool   `json:"include_ignored,omitempty" jsonschema:"also list what .gitignore hides"`
}

// Glob returns the tool that finds files by name.
func Glob() Tool { return New("Glob", globDoc, ReadOnly, true, runGlob).with(private) }

type globMatch struct {
	path    string
	changed time.Time
}

func runGlob(ctx context.Context, env Env, args globArgs) (Output, error) {
	w, err := openWorkspace(env)
	if err != nil {
		return Output{}, err
	}
	defer w.Close()
	if !doublestar.ValidatePattern(args.Pattern) {
		return Output{}, fmt.Errorf("%q is not a valid glob: check brackets, braces and a backslash at the end", shorten(args.Pattern))
	}
	base, pattern := doublestar.SplitPattern(args.Pattern)
	if !path.IsAbs(base) {
		base = path.Join(args.Path, base)
	}
	start, err := w.place(base)
	if err != nil {
		return Output{}, err
	}
	matches, cut, err := globBelow(ctx, w, start, pattern, args.IncludeIgnored)
	if err != nil {
		return Output{}, err
	}
	return globOutput(matches, cut), nil
}

func globBelow(ctx context.Context, w workspace, start, pattern string, ignored bool) (matches []globMatch, cut bool, err error) {
	prefix := start + "/"
	if start == "." {
		prefix = ""
	}
	walk := walker{ctx: ctx, ignored: ignored, visit: func(f found) error {
		if ok, _ := doublestar.Match(pattern, f.path[len(prefix):]); !ok {
			return nil
		}
		info, err := f.dir.Lstat(f.name)
		if err != nil {
			return nil // gone since it was listed
		}
		m := globMatch{f.path, info.ModTime()}
		if info.IsDir() {
			m.path += "/"
		}
		matches = append(matches, m)
		return nil
	}}
	err = walk.walk(w, start)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // a pattern below a directory that is not there matches nothing
	}
	if err != nil && ctx.Err() == nil {
		err = pathProblem(start, err)
	}
	return matches, walk.cut, err
}

func globOutput(matches []globMatch, cut bool) Output {
	slices.SortFunc(matches, func(a, b globMatch) int {
		return cmp.Or(b.changed.Compare(a.changed), cmp.Compare(a.path, b.path))
	})
	var text strings.Builder
	shown := 0
	for _, m := range matches[:min(len(matches), maxGlobResults)] {
		if text.Len()+len(m.path) >= maxText {
			break
		}
		text.WriteString(strings.ToValidUTF8(m.path, "\uFFFD") + "\n")
		shown++
	}
	switch {
	case len(matches) == 0:
		text.WriteString("(nothing matches)\n")
	case shown < len(matches):
		fmt.Fprintf(&text, "[%d of %d shown; narrow the pattern]\n", shown, len(matches))
	}
	if cut {
		fmt.Fprintf(&text, "[stopped after looking at %d names; start from a deeper path]\n", maxWalkEntries)
	}
	return Output{Text: text.String(), Meta: map[string]any{"matches": len(matches), "shown": shown, "complete": !cut}}
}
