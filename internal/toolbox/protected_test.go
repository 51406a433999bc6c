package toolbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/machine/tool"
	"stave/internal/toolbox/sandbox"
)

// TestProtectedNames shows that tools and walls protect the same names, and that
// the gate knows the trait by the word used here.
func TestProtectedNames(t *testing.T) {
	if d := cmp.Diff(sandbox.DefaultProtected(), Protected()); d != "" {
		t.Error(d)
	}
	if protected != tool.Protected {
		t.Errorf("the gate says %q", tool.Protected)
	}
}

// TestTouches shows which paths are protected, however they are written, and
// that each tool that changes files says so.
func TestTouches(t *testing.T) {
	paths := map[string]bool{
		".git/config": true, ".git": true, ".git/": true, "./.git/hooks/x": true, ".git//config": true, "a/../.git/x": true, "a/./../.git/x": true,
		".GIT/config": true, ".Git/x": true, ".vscode/tasks.json": true, ".vſcode/x": true, ".Mcp.JSON": true, ".mcp.json": true, ".envrc": true,
		".g\u200cit/config": true, ".gi\ufefft/x": true, ".ﬆave/rules.yaml": true, ".git./config": true, ".git /config": true,
		"/w/.git/config": true, "/w/a/../.stave/config.yaml": true, "sub/.git/hooks/x": true, "sub/.envrc": true, "../.git/x": true,
		".claude/a": true, ".codex/a": true, ".cursor/a": true, ".gemini/a": true, ".idea/a": true,
		".gitignore": false, ".github/workflows/x": false, "git/config": false, ".git2/x": false, "a.git/x": false, "x.envrc": false,
		".git/../a": false, "AGENTS.md": false, "main.go": false, "": false, "/w/main.go": false, ".stave-x": false, "..git/x": false,
	}
	for path, want := range paths {
		edit := map[string]any{"path": path, "old_string": "a", "new_string": "b"}
		for _, c := range []struct {
			tool Tool
			args any
		}{
			{Write(), map[string]any{"path": path, "content": "x"}},
			{Edit(), edit},
			{MultiEdit(), map[string]any{"edits": []any{map[string]any{"path": "a"}, edit}}},
		} {
			args, err := json.Marshal(c.args)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(c.tool.Touches(args), protected); got != want {
				t.Errorf("%s of %q: protected %t, want %t", c.tool.Name, path, got, want)
			}
		}
	}
	for _, args := range []string{"", "null x", "[]", `{"path":7}`, `{"path":"a","path":".git"}`, `{"edits":{}}`, "{\"path\":\"\xff\"}"} {
		if got := Write().Touches(json.RawMessage(args)); len(got) != 1 {
			t.Errorf("arguments nobody can read touch %v: %s", got, args)
		}
	}
	for _, other := range []Tool{Read(), Glob(), Grep(), Bash(), Fetch(), Todo()} {
		if other.Touches != nil {
			t.Errorf("%s touches files by their names", other.Name)
		}
	}
}

// TestLinksToProtected shows that no link takes a write from a harmless name to a
// protected place, and that links to ordinary places go on working.
func TestLinksToProtected(t *testing.T) {
	e := newEnv(t)
	e.put(".git/config", "old")
	e.put("src/a", "old")
	for name, to := range map[string]string{
		"direct": ".git", "chain": "direct", "absolute": filepath.Join(e.dir, ".git"), "missing": ".vscode", "up": "src/../.git", "fine": "src",
		"src/back": "../.git", "loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(e.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(path string) args { return args{"path": path, "old_string": "old", "new_string": "new"} }
	for _, path := range []string{
		"direct/config", "direct/hooks/pre-commit", "chain/config", "absolute/config", "missing/tasks.json", "up/config", "src/back/config", "fine/back/config",
		filepath.Join(e.dir, "direct/config"),
	} {
		for _, c := range []struct {
			tool Tool
			args args
		}{
			{Write(), args{"path": path, "content": "new"}},
			{Edit(), edit(path)},
			{MultiEdit(), args{"edits": []any{edit("src/a"), edit(path)}}},
		} {
			_, err := e.run(c.tool, c.args)
			wantError(t, err, "through a symbolic link to .", "which is protected")
		}
	}
	_, err := e.run(Write(), args{"path": "loop/x", "content": "new"})
	wantError(t, err, "loop")
	if got := e.get(".git/config") + e.get("src/a"); got != "oldold" {
		t.Errorf("something was written: %q", got)
	}
	if entries, err := os.ReadDir(filepath.Join(e.dir, ".git")); err != nil || len(entries) != 1 {
		t.Errorf("something was made: %v, %v", entries, err)
	}
	e.must(Write(), args{"path": "fine/a", "content": "new"})
	e.must(Write(), args{"path": "fine/deep/er/b", "content": "new"})
	e.must(Write(), args{"path": ".git/config", "content": "new"}) // the gate has let it through
	if got := e.get("src/a") + e.get("src/deep/er/b") + e.get(".git/config"); got != "newnewnew" {
		t.Errorf("not written: %q", got)
	}
}

// TestWalkPlain shows that the last look before a write follows no link, also one
// that was not there when the path was spelled out.
func TestWalkPlain(t *testing.T) {
	e := newEnv(t)
	e.put("a/b/file", "x")
	e.put(".git/hooks/x", "x")
	if err := os.Symlink("../.git", filepath.Join(e.dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	w, err := openWorkspace(e)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	root, err := walkPlain(w.Root, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := root.Stat("file"); err != nil {
		t.Error(err)
	}
	for dir, says := range map[string]string{"a/link": "was swapped", "a/link/hooks": "was swapped", "a/none": "no such file", "a/b/file": "not a directory"} {
		if _, err := walkPlain(w.Root, dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", dir, err, says)
		}
	}
}
