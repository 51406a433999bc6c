package house

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write docs/house.md instead of comparing with it")

const (
	root   = "../.."
	module = "stave/"
)

// repo is the working tree as git sees it: tracked files and new ones that are
// not ignored, by their path from the root.
type repo struct {
	files    []string
	packages map[string]*pkg // by directory
	fset     *token.FileSet
}

// pkg is one directory of Go source.
type pkg struct {
	dir   string
	files []goFile
}

type goFile struct {
	name string // from the root
	test bool
	*ast.File
}

// readRepo parses the tree once for all tests of this package.
var readRepo = sync.OnceValues(func() (*repo, error) {
	// The checkout may belong to another user, as in most containers.
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard")
	cmd.Dir = root
	listing, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	r := &repo{packages: map[string]*pkg{}, fset: token.NewFileSet()}
	for name := range strings.SplitSeq(strings.TrimRight(string(listing), "\x00"), "\x00") {
		if err := r.add(name); err != nil {
			return nil, err
		}
	}
	return r, nil
})

func (r *repo) add(name string) error {
	if _, err := os.Stat(filepath.Join(root, name)); os.IsNotExist(err) {
		return nil // deleted in the tree, not yet in the index
	}
	r.files = append(r.files, name)
	dir := path.Dir(name)
	// The test cache cannot see what git read; it does see a directory being read,
	// and so runs these tests again when a file is added.
	if _, err := os.ReadDir(filepath.Join(root, dir)); err != nil {
		return err
	}
	if !strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata/") {
		return nil
	}
	file, err := parser.ParseFile(r.fset, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if r.packages[dir] == nil {
		r.packages[dir] = &pkg{dir: dir}
	}
	p := r.packages[dir]
	p.files = append(p.files, goFile{name: name, test: strings.HasSuffix(name, "_test.go"), File: file})
	return nil
}

// lines counts the lines a node covers.
func (r *repo) lines(n ast.Node) int {
	return r.fset.Position(n.End()).Line - r.fset.Position(n.Pos()).Line + 1
}

// at is where a node stands, from the root.
func (r *repo) at(f goFile, n ast.Node) string {
	return f.name + ":" + strconv.Itoa(r.fset.Position(n.Pos()).Line)
}

// shipped yields the files of a package that are part of the program.
func (p *pkg) shipped(yield func(goFile) bool) {
	for _, f := range p.files {
		if !f.test && !yield(f) {
			return
		}
	}
}

// imports yields every import path of a file.
func (f goFile) imports(yield func(string, *ast.ImportSpec) bool) {
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err == nil && !yield(imported, spec) {
			return
		}
	}
}

func open(t *testing.T) *repo {
	t.Helper()
	r, err := readRepo()
	if err != nil {
		t.Fatalf("reading the repository: %v", err)
	}
	return r
}

func contents(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// golden compares a generated file with what is committed, or writes it.
func golden(t *testing.T, name string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(filepath.Join(root, name))
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s is not current; run make docs", name)
	}
}
