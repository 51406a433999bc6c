package house

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	makeTarget  = regexp.MustCompile(`(?m)^([a-z]+):`)
	makeCommand = regexp.MustCompile("(?m)(?:`|^)make ([a-z]+)")
	// A command of ours in code, not the word in prose.
	staveCommand = regexp.MustCompile("(?m)(?:`|^|\\$ )stave ([a-z]+)")
	link         = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// TestDocumentedCommands shows that every make target and every command of
// stave that a document names exists.
func TestDocumentedCommands(t *testing.T) {
	r := open(t)
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllSubmatch(contents(t, "Makefile"), -1) {
		targets[string(m[1])] = true
	}
	verbs := commandNames(r.packages["cmd/stave"])
	if len(targets) == 0 || len(verbs) == 0 {
		t.Fatalf("found %d make targets and %d commands", len(targets), len(verbs))
	}
	for _, name := range documents(r) {
		text := string(contents(t, name))
		for _, m := range makeCommand.FindAllStringSubmatch(text, -1) {
			if !targets[m[1]] {
				t.Errorf("%s says make %s, which the Makefile does not have", name, m[1])
			}
		}
		for _, m := range staveCommand.FindAllStringSubmatch(text, -1) {
			if !verbs[m[1]] {
				t.Errorf("%s says stave %s, which is no command", name, m[1])
			}
		}
	}
}

// TestDocumentLinks shows that every link into the repository leads somewhere.
func TestDocumentLinks(t *testing.T) {
	for _, name := range documents(open(t)) {
		for _, m := range link.FindAllStringSubmatch(string(contents(t, name)), -1) {
			target := path.Join(path.Dir(name), m[1])
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
	}
}

// documents are the pages people read, without the prose tools carry for models.
func documents(r *repo) []string {
	var pages []string
	for _, name := range r.files {
		if path.Ext(name) == ".md" && (path.Dir(name) == "." || strings.HasPrefix(name, "docs/")) {
			pages = append(pages, name)
		}
	}
	return pages
}

// commandNames reads the first word of every command line the program declares.
func commandNames(p *pkg) map[string]bool {
	names := map[string]bool{}
	if p == nil {
		return names
	}
	for f := range p.shipped {
		for n := range ast.Preorder(f.File) {
			kv, ok := n.(*ast.KeyValueExpr)
			if !ok || !isName(kv.Key, "Use") {
				continue
			}
			if lit, ok := kv.Value.(*ast.BasicLit); ok {
				use, _ := strconv.Unquote(lit.Value)
				name, _, _ := strings.Cut(use, " ")
				names[name] = true
			}
		}
	}
	return names
}
