package house

import (
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxFileLines     = 500
	maxFuncLines     = 70
	minSentenceBytes = 20
)

// ratchet lists what is larger than it should be, with its size. An entry may
// shrink and vanish; a new one needs a reason beside it.
var ratchet = map[string]int{}

// TestSizes shows that no file and no function outgrows what a reader holds in
// the head, and that the ratchet only shrinks.
func TestSizes(t *testing.T) {
	r := open(t)
	found := map[string]int{}
	for _, p := range r.packages {
		for f := range p.shipped {
			if ast.IsGenerated(f.File) {
				continue
			}
			if n := r.fset.File(f.FileStart).LineCount(); n > maxFileLines {
				found[f.name] = n
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && r.lines(fn) > maxFuncLines {
					found[f.name+" "+fn.Name.Name] = r.lines(fn)
				}
			}
		}
	}
	for what, n := range found {
		if n > ratchet[what] {
			t.Errorf("%s has %d lines; a file may have %d, a function %d", what, n, maxFileLines, maxFuncLines)
		}
	}
	for what, n := range ratchet {
		if found[what] < n {
			t.Errorf("%s shrank from %d to %d lines (0: within bounds); lower or drop its entry", what, n, found[what])
		}
	}
}

// TestPackages shows that every package says its one job in a sentence, has a
// name that means something, and does nothing before main.
func TestPackages(t *testing.T) {
	r := open(t)
	empty := []string{"util", "utils", "common", "helper", "helpers", "base", "types"}
	for _, dir := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[dir]
		if slices.Contains(empty, path.Base(dir)) {
			t.Errorf("%s: the name says nothing", dir)
		}
		sentence := 0
		for _, f := range p.files {
			if f.Doc != nil {
				sentence = max(sentence, len(f.Doc.Text()))
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s: init runs before anyone asked; let main do it", r.at(f, fn))
				}
			}
		}
		if sentence < minSentenceBytes {
			t.Errorf("%s has no sentence that says its one job", dir)
		}
	}
}

// TestNoTraces shows that no file names the machine it was written on or leaves
// work for later.
func TestNoTraces(t *testing.T) {
	traces := map[string]*regexp.Regexp{
		"a path of one machine": regexp.MustCompile(`(^|[^\w.])/(home|Users|root|work)/`),
		"a mark for later":      regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`),
	}
	for _, name := range open(t).files {
		if path.Base(name) == "go.sum" || strings.Contains(name, "testdata/fuzz/") {
			continue // made by machines, of arbitrary letters
		}
		data := contents(t, name)
		if !utf8.Valid(data) {
			continue
		}
		n := 0
		for line := range strings.Lines(string(data)) {
			n++
			for what, trace := range traces {
				if found := trace.FindString(line); found != "" {
					t.Errorf("%s:%d has %s: %s", name, n, what, found)
				}
			}
		}
	}
}

// TestToolProse shows that every bundled tool has the prose a model reads, and
// that no prose is left without a tool.
func TestToolProse(t *testing.T) {
	r := open(t)
	tools := map[string]bool{}
	for f := range r.packages["internal/toolbox"].shipped {
		if definesTool(f.File, path.Base(f.name)) {
			tools[strings.TrimSuffix(f.name, ".go")] = true
		}
	}
	if len(tools) == 0 {
		t.Error("found no tool in internal/toolbox")
	}
	for tool := range tools {
		if !slices.Contains(r.files, tool+".md") {
			t.Errorf("%s.go defines a tool without %s.md", tool, path.Base(tool))
		}
	}
	for _, name := range r.files {
		tool, prose := strings.CutSuffix(name, ".md")
		if prose && path.Dir(name) == "internal/toolbox" && !tools[tool] {
			t.Errorf("%s describes no tool", name)
		}
	}
}

// definesTool reports whether a file has an exported function that gives a Tool
// and asks for nothing, or is called like the file.
func definesTool(f *ast.File, file string) bool {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && fn.Name.IsExported() &&
			(fn.Type.Params.NumFields() == 0 || strings.ToLower(fn.Name.Name)+".go" == file) &&
			fn.Type.Results.NumFields() == 1 && isName(fn.Type.Results.List[0].Type, "Tool") {
			return true
		}
	}
	return false
}
