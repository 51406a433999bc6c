package toolbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// searchTree is a small project with everything a search must pass by.
func searchTree(t testing.TB) *fakeEnv {
	env := newEnv(t)
	for i, f := range []struct{ name, content string }{
		{"old.go", "package old\n"},
		{"main.go", "package main\n\nfunc main() {\n\tprintln(\"needle\")\n}\n"},
		{"sub/deep/x.go", "// Needle one\n// needle two\nlast\n"},
		{"sub/y.txt", "nothing\r\nneedle at end\r\n"},
		{"build/out.go", "needle ignored\n"},
		{"sub/.gitignore", "*.log\n"},
		{"sub/z.log", "needle in log\n"},
		{".gitignore", "/build/\n"},
		{".git/config", "needle in git\n"},
		{".hidden/h.go", "needle hidden\n"},
		{"bin.dat", "needle\x00binary\n"},
	} {
		env.put(f.name, f.content)
		changed := time.Unix(1_700_000_000+int64(i), 0)
		if err := os.Chtimes(filepath.Join(env.dir, f.name), changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("sub", filepath.Join(env.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(env.dir, "pipe.go"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1_600_000_000, 0)
	if err := os.Chtimes(filepath.Join(env.dir, "pipe.go"), old, old); err != nil {
		t.Fatal(err)
	}
	return env
}

// TestGlob shows which names a glob finds and in which order.
func TestGlob(t *testing.T) {
	env := searchTree(t)
	for _, c := range []struct {
		name string
		args args
		want string
	}{
		{"one directory, newest first", args{"pattern": "*.go"}, "main.go\nold.go\npipe.go\n"},
		{"all directories", args{"pattern": "**/*.go"}, ".hidden/h.go\nsub/deep/x.go\nmain.go\nold.go\npipe.go\n"},
		{"ignored too", args{"pattern": "**/*.{log,go}", "include_ignored": true}, ".hidden/h.go\nsub/z.log\nbuild/out.go\nsub/deep/x.go\nmain.go\nold.go\npipe.go\n"},
		{"from a path", args{"pattern": "**/*.go", "path": "sub"}, "sub/deep/x.go\n"},
		{"static start", args{"pattern": "sub/deep/*"}, "sub/deep/x.go\n"},
		{"one file", args{"pattern": "sub/y.txt"}, "sub/y.txt\n"},
		{"absolute", args{"pattern": env.dir + "/sub/*.txt"}, "sub/y.txt\n"},
		{"inside an ignored directory", args{"pattern": "*", "path": "build"}, "build/out.go\n"},
		{"directories are marked", args{"pattern": "s*"}, "sub/\n"},
		{"links are listed, not followed", args{"pattern": "l*/**"}, "link\n"},
		{"through a link on request", args{"pattern": "link/*.txt"}, "link/y.txt\n"},
		{".git is skipped", args{"pattern": "**/config", "include_ignored": true}, "(nothing matches)\n"},
		{".git on request", args{"pattern": ".git/*"}, ".git/config\n"},
		{"nothing", args{"pattern": "*.rs"}, "(nothing matches)\n"},
		{"no such directory", args{"pattern": "nowhere/*"}, "(nothing matches)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := env.must(Glob(), c.args).Text
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	_, err := env.run(Glob(), args{"pattern": "[a"})
	wantError(t, err, "not a valid glob")
	_, err = env.run(Glob(), args{"pattern": "../*"})
	wantError(t, err, "outside the workspace")
	_, err = env.run(Glob(), args{"pattern": "*", "path": ".."})
	wantError(t, err, "outside the workspace")
}

// TestGlobCaps shows that a long list is cut and says so.
func TestGlobCaps(t *testing.T) {
	env := newEnv(t)
	for i := range maxGlobResults + 100 {
		env.put(fmt.Sprintf("f%04d", i), "")
	}
	out := env.must(Glob(), args{"pattern": "*"})
	if !strings.HasSuffix(out.Text, "[500 of 600 shown; narrow the pattern]\n") || strings.Count(out.Text, "\n") != 501 {
		t.Errorf("%d lines ending in %q", strings.Count(out.Text, "\n"), out.Text[len(out.Text)-60:])
	}
}

// TestGrep shows what a search gives back in its modes.
func TestGrep(t *testing.T) {
	env := searchTree(t)
	for _, c := range []struct {
		name string
		args args
		want string
	}{
		{"content", args{"pattern": "needle"}, ".hidden/h.go:1:needle hidden\nmain.go:4:\tprintln(\"needle\")\nsub/deep/x.go:2:// needle two\nsub/y.txt:2:needle at end\n"},
		{"files", args{"pattern": "needle", "mode": "files"}, ".hidden/h.go\nmain.go\nsub/deep/x.go\nsub/y.txt\n"},
		{"count", args{"pattern": "(?i)needle|last", "mode": "count"}, ".hidden/h.go:1\nmain.go:1\nsub/deep/x.go:3\nsub/y.txt:1\n"},
		{"case", args{"pattern": "NEEDLE", "ignore_case": true, "path": "sub"}, "sub/deep/x.go:1:// Needle one\nsub/deep/x.go:2:// needle two\nsub/y.txt:2:needle at end\n"},
		{"anchors, CRLF", args{"pattern": "^needle.*end$"}, "sub/y.txt:2:needle at end\n"},
		{"one file", args{"pattern": "func", "path": "main.go"}, "main.go:3:func main() {\n"},
		{"ignored too", args{"pattern": "needle i", "include_ignored": true}, "build/out.go:1:needle ignored\nsub/z.log:1:needle in log\n"},
		{"an ignored directory", args{"pattern": "needle", "path": "build"}, "build/out.go:1:needle ignored\n"},
		{"glob by name", args{"pattern": "needle", "glob": "*.txt"}, "sub/y.txt:2:needle at end\n"},
		{"glob by path", args{"pattern": "needle", "glob": "sub/**"}, "sub/deep/x.go:2:// needle two\nsub/y.txt:2:needle at end\n"},
		{"glob by path below a path", args{"pattern": "needle", "glob": "deep/*", "path": "sub"}, "sub/deep/x.go:2:// needle two\n"},
		{"context", args{"pattern": "needle", "context": 1, "path": "main.go"}, "main.go-3-func main() {\nmain.go:4:\tprintln(\"needle\")\nmain.go-5-}\n"},
		{"nothing", args{"pattern": "absent", "path": "sub"}, "(no match in 3 files)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, env.must(Grep(), c.args).Text); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, c := range []struct {
		args args
		says string
	}{
		{args{"pattern": "("}, "not a valid RE2"},
		{args{"pattern": "a(?=b)"}, "not a valid RE2"},
		{args{"pattern": "a", "glob": "{a"}, "glob"},
		{args{"pattern": "a", "path": "nowhere"}, "nowhere does not exist"},
		{args{"pattern": "a", "path": "../x"}, "outside"},
		{args{"pattern": "a", "path": "pipe.go"}, "FIFO"},
	} {
		_, err := env.run(Grep(), c.args)
		wantError(t, err, c.says)
	}
}

// TestGrepContext shows that neighbouring groups join and distant ones are set
// apart, across files too.
func TestGrepContext(t *testing.T) {
	env := newEnv(t)
	env.put("a", "1\nx\n3\n4\nx\n6\n7\n8\n9\nx\n")
	env.put("b", "x\n")
	want := "a-1-1\na:2:x\na-3-3\na-4-4\na:5:x\na-6-6\n--\na-9-9\na:10:x\n--\nb:1:x\n"
	if diff := cmp.Diff(want, env.must(Grep(), args{"pattern": "x", "context": 1}).Text); diff != "" {
		t.Error(diff)
	}
}

// TestGrepCaps shows that long lines, many matches and endless lines are cut.
func TestGrepCaps(t *testing.T) {
	env := newEnv(t)
	env.put("long", strings.Repeat("é", 5000)+"needle"+strings.Repeat("ü", 5000)+"\n")
	out := env.must(Grep(), args{"pattern": "needle"})
	if len(out.Text) > maxGrepLineBytes+50 || !strings.Contains(out.Text, "éneedleü") || !strings.HasPrefix(out.Text, "long:1:…é") || !strings.HasSuffix(out.Text, "ü…\n") {
		t.Errorf("a long line is shown as %q", out.Text)
	}
	env.put("many", strings.Repeat("hit\n", 2*maxGrepMatches))
	out = env.must(Grep(), args{"pattern": "hit"})
	if out.Meta["matches"] != maxGrepMatches || out.Meta["complete"] != false || !strings.HasSuffix(out.Text, "[stopped: too many results; narrow pattern, path or glob]\n") {
		t.Errorf("%v, %q", out.Meta, out.Text[len(out.Text)-80:])
	}
	env.put("wide", strings.Repeat(strings.Repeat("w", 300)+"\n", 400))
	out = env.must(Grep(), args{"pattern": "w+"})
	if len(out.Text) > maxText+100 || out.Meta["complete"] != false {
		t.Errorf("%d bytes, %v", len(out.Text), out.Meta)
	}
	env.put("endless", strings.Repeat("z", 3*grepWindow)+"needle")
	out = env.must(Grep(), args{"pattern": "needle", "path": "endless", "mode": "count"})
	if out.Text != "endless:1\n" {
		t.Errorf("a match late in a line of %d bytes: %q", 3*grepWindow, out.Text)
	}
}

func TestGrepCancel(t *testing.T) {
	env := searchTree(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tool := range []Tool{Grep(), Glob()} {
		if _, err := env.runCtx(ctx, tool, args{"pattern": "x"}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", tool.Name, err)
		}
	}
}

// TestPrefilter shows which texts a search looks for before it matches.
func TestPrefilter(t *testing.T) {
	for pattern, want := range map[string]string{
		"abc":             "abc",
		"a.*longer":       "longer",
		"(foo)+bar":       "foo",
		"(?:foobar)?x":    "x",
		"foo|bar|quux":    "foo bar quux",
		"foo|far":         "oo ar",
		"foo|.":           "",
		"x(foo|)y":        "x",
		"(?i)abc":         "abc",
		"(?i)TASK":        "ta",
		"(?i)ks":          "",
		"(?i)größer":      "gr",
		"(?i:Foo)|BarBaz": "foo barbaz",
		"x{0,3}yy":        "yy",
		"(abc){2}":        "abc",
		"[ab]cd$":         "cd",
		`\bword\b`:        "word",
		".*":              "",
	} {
		s, err := newSearch(grepArgs{Pattern: pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(bytes.Join(s.filter.literals, []byte(" "))); got != want {
			t.Errorf("%s needs %q, want %q", pattern, got, want)
		}
	}
}

// FuzzPrefilter shows that a prefilter never hides a match.
func FuzzPrefilter(f *testing.F) {
	for _, pattern := range []string{"foo|bar", "(?i)TASK", "(?i)größer", "a(b|c)*d", "(?i:k)s|x+y", "(ab){2,3}c?", "^$", `\Aß\z`} {
		f.Add(pattern, "a FOO tas\u212A GRÖSSER größer abbd ababc ks \u017F")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		s, err := newSearch(grepArgs{Pattern: pattern})
		if err != nil {
			return
		}
		if s.re.MatchString(text) && !s.filter.pass([]byte(text)) {
			t.Errorf("%q matches %q, which has none of %q", pattern, text, s.filter.literals)
		}
	})
}

// BenchmarkGrep searches a tree of a thousand files for a rare word.
func BenchmarkGrep(b *testing.B) {
	env := newEnv(b)
	line := strings.Repeat("some ordinary text of a source file ", 2) + "\n"
	for i := range 1000 {
		env.put(fmt.Sprintf("d%d/f%d.go", i%20, i), strings.Repeat(line, 150))
	}
	env.put("d3/hit.go", "needle\n")
	env.put("d4/hit.go", "n e d l e\n")
	for _, pattern := range []string{"needle", "n[e]+dle", "(?i)needle", "needle|thimble", "n.e.d.l.e"} {
		b.Run(pattern, func(b *testing.B) {
			b.SetBytes(int64(1000 * 150 * len(line)))
			for b.Loop() {
				if out := env.must(Grep(), args{"pattern": pattern}); out.Meta["matches"] == 0 {
					b.Fatal(out.Text)
				}
			}
		})
	}
}
