package toolbox

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	maxGrepMatches   = 500
	maxGrepFiles     = 1000
	maxGrepLineBytes = 400
)

//go:embed grep.md
var grepDoc string

// Modes of Grep.
const (
	grepContent = "content"
	grepFiles   = "files"
	grepCount   = "count"
)

type grepArgs struct {
	Pattern        string `json:"pattern" min:"1" max:"4000" jsonschema:"the regular expression (RE2)"`
	Path           string `json:"path,omitempty" jsonschema:"file or directory to search (default: the whole workspace)"`
	Glob           string `json:"glob,omitempty" max:"1000" jsonschema:"search only files whose name matches this glob"`
	Mode           string `json:"mode,omitempty" enum:"content,files,count" jsonschema:"what to give back (default content)"`
	Context        int    `json:"context,omitempty" min:"0" max:"10" jsonschema:"lines to show before and after each match (mode content)"`
	IgnoreCase     bool   `json:"ignore_case,omitempty" jsonschema:"match without regard to case"`
	IncludeIgnored bool   `json:"include_ignored,omitempty" jsonschema:"also search what .gitignore hides"`
}

// Grep returns the tool that searches in files.
func Grep() Tool { return New("Grep", grepDoc, ReadOnly, true, runGrep).with(private) }

func runGrep(ctx context.Context, env Env, args grepArgs) (Output, error) {
	s, err := newSearch(args)
	if err != nil {
		return Output{}, err
	}
	w, err := openWorkspace(env)
	if err != nil {
		return Output{}, err
	}
	defer w.Close()
	start, err := w.place(args.Path)
	if err != nil {
		return Output{}, err
	}
	info, err := w.Stat(start)
	if err != nil {
		return Output{}, pathProblem(start, err)
	}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return Output{}, fmt.Errorf("%s %w", start, notRegular(info.Mode()))
		}
		err := s.file(ctx, w.Root, start, start)
		if err != nil && err != errStop {
			return Output{}, pathProblem(start, err)
		}
		return s.output(false), nil
	}
	walk := walker{ctx: ctx, ignored: args.IncludeIgnored, visit: func(f found) error {
		if !f.kind.IsRegular() || !fits(args.Glob, start, f.path) {
			return nil
		}
		switch err := s.file(ctx, f.dir, f.name, f.path); {
		case err == errStop || err == nil || ctx.Err() != nil:
			return err
		default:
			s.unreadable++
			return nil
		}
	}}
	if err := walk.walk(w, start); err != nil {
		if ctx.Err() != nil {
			return Output{}, ctx.Err()
		}
		return Output{}, pathProblem(start, err)
	}
	return s.output(walk.cut), nil
}

// fits matches a glob with a slash against the path below start and one without
// against the name alone.
func fits(glob, start, file string) bool {
	if glob == "" {
		return true
	}
	name := path.Base(file)
	if strings.Contains(glob, "/") {
		name = strings.TrimPrefix(file, start+"/")
	}
	ok, _ := doublestar.Match(strings.TrimPrefix(glob, "/"), name)
	return ok
}

func newSearch(args grepArgs) (*search, error) {
	if args.Glob != "" && !doublestar.ValidatePattern(args.Glob) {
		return nil, fmt.Errorf("glob %q is not valid: check brackets, braces and a backslash at the end", shorten(args.Glob))
	}
	pattern := args.Pattern
	if args.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("pattern is not a valid RE2 expression: %w", err)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("compiling pattern: %w", err)
	}
	s := &search{re: re, mode: args.Mode, context: args.Context, filter: newPrefilter(tree)}
	if s.mode == "" {
		s.mode = grepContent
	}
	if s.mode != grepContent {
		s.context = 0
	}
	return s, nil
}
