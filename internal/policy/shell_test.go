package policy

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"
)

// TestPlain shows what a plain command is taken apart into.
func TestPlain(t *testing.T) {
	for command, want := range map[string][]Pipeline{
		"ls":                          {{";", [][]string{{"ls"}}}},
		"ls;":                         {{";", [][]string{{"ls"}}}},
		"a 'b c' d\"e f\"'g'":         {{";", [][]string{{"a", "b c", "de fg"}}}},
		"a '' \"\"":                   {{";", [][]string{{"a", "", ""}}}},
		"a | b | c && d || e; f\n\ng": {{";", [][]string{{"a"}, {"b"}, {"c"}}}, {"&&", [][]string{{"d"}}}, {"||", [][]string{{"e"}}}, {";", [][]string{{"f"}}}, {";", [][]string{{"g"}}}},
		"a 'x*\\$(y)' \"*~\"":         {{";", [][]string{{"a", `x*\$(y)`, "*~"}}}},
		"a 'x\ny'":                    {{";", [][]string{{"a", "x\ny"}}}},
		"g++ -o=a":                    {{";", [][]string{{"g++", "-o=a"}}}},
	} {
		s := Shell(command)
		if !s.Plain || s.Reason != "" {
			t.Errorf("%q is not plain: %s", command, s.Reason)
		}
		if d := cmp.Diff(want, s.Pipelines); d != "" {
			t.Errorf("%q: %s", command, d)
		}
	}
}

// TestNotPlain shows that what is not plain says why, and offers nothing to run.
func TestNotPlain(t *testing.T) {
	for command, want := range map[string]string{
		"":                 "there is no command",
		"ls\r":             "it contains the control character U+000D",
		"ls \xff":          "it is not valid UTF-8",
		"ls (":             "it cannot be read as a shell command: 1:1: ",
		"ls é":             "it contains characters beyond ASCII",
		"ls *":             `it uses "*", which the shell may expand`,
		"echo \"$'\"":      `it uses "$", which the shell may expand`,
		"echo $x":          "it uses a variable",
		"echo \"$x\"":      "it uses a variable",
		"echo $'a'":        "it uses $'...' quotes",
		"echo $\"a\"":      `it uses $"..." quotes`,
		"eval ls":          "eval is part of the shell, not a program",
		"'ls'":             "the name of a command is not a bare word",
		"A=b ls":           "it sets a variable",
		"ls > x":           "it redirects input or output",
		"! ls":             "it negates a command",
		"ls &":             "it leaves a command running in the background",
		"ls # x":           "it has a comment",
		"# x":              "it has a comment",
		"ls |& sh":         "it joins commands with |&",
		"a | b > c":        "it redirects input or output",
		"a > b | c":        "it redirects input or output",
		"a > b && c":       "it redirects input or output",
		"a && b &":         "it leaves a command running in the background",
		"(ls)":             "it starts a subshell",
		"ls \\\n-la":       "it continues a line with a backslash",
		"for x; do a;done": "it has a loop",
	} {
		s := Shell(command)
		if s.Plain || s.Pipelines != nil || !strings.HasPrefix(s.Reason, want) {
			t.Errorf("%q: %+v, want reason %q", command, s, want)
		}
	}
}

// TestEveryNodeIsKnown shows that each kind of node of the parser in use is
// either part of plain scripts or has its reason. A new kind fails here.
func TestEveryNodeIsKnown(t *testing.T) {
	plain := []string{"File", "Stmt", "BinaryCmd", "CallExpr", "Word", "Lit", "SglQuoted", "DblQuoted"}
	known := map[string]syntax.Node{}
	for _, n := range []syntax.Node{
		&syntax.Assign{}, &syntax.ArrayExpr{}, &syntax.ArrayElem{}, &syntax.Redirect{}, &syntax.Subshell{}, &syntax.Block{}, &syntax.IfClause{},
		&syntax.CaseClause{}, &syntax.CaseItem{}, &syntax.WhileClause{}, &syntax.ForClause{}, &syntax.WordIter{}, &syntax.CStyleLoop{},
		&syntax.FuncDecl{}, &syntax.CmdSubst{}, &syntax.ProcSubst{}, &syntax.ParamExp{}, &syntax.ArithmExp{}, &syntax.ArithmCmd{},
		&syntax.LetClause{}, &syntax.BinaryArithm{}, &syntax.UnaryArithm{}, &syntax.ParenArithm{}, &syntax.FlagsArithm{}, &syntax.TestClause{},
		&syntax.BinaryTest{}, &syntax.UnaryTest{}, &syntax.ParenTest{}, &syntax.TestDecl{}, &syntax.DeclClause{}, &syntax.ExtGlob{},
		&syntax.BraceExp{}, &syntax.TimeClause{}, &syntax.CoprocClause{}, &syntax.Comment{},
	} {
		known[reflect.TypeOf(n).Elem().Name()] = n
	}
	kinds := nodeKinds(t)
	if len(kinds) < 40 {
		t.Errorf("found only the kinds %v", kinds)
	}
	for _, kind := range kinds {
		n, ok := known[kind]
		if !ok {
			if !slices.Contains(plain, kind) {
				t.Errorf("the parser has a node %s that describe does not know", kind)
			}
			continue
		}
		if why := describe(n); strings.Contains(why, "unknown") {
			t.Errorf("%s: %s", kind, why)
		}
	}
	if why := describe(&syntax.File{}); why != "it contains something unknown (*syntax.File)" {
		t.Errorf("an unexpected node: %q", why)
	}
}

// nodeKinds reads the source of the parser: whatever has a position is a node.
func nodeKinds(t *testing.T) []string {
	t.Helper()
	pkg, err := build.Import("mvdan.cc/sh/v3/syntax", ".", 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, name := range pkg.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Name.Name != "Pos" {
				continue
			}
			if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
				kinds = append(kinds, star.X.(*ast.Ident).Name)
			}
		}
	}
	return kinds
}

func TestGuarded(t *testing.T) {
	if err := guarded(func() error { panic("x") }); err == nil || err.Error() != "the parser gave up: x" {
		t.Errorf("%v", err)
	}
	if err := guarded(func() error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

// bash runs scripts with programs that only note how they were called.
type bash struct{ path, dir, out string }

var stubs = []string{"a", "b", "no", "ls", "git", "echo", "pwd", "true", "false", "rm", "in", "g++"}

func newBash(t testing.TB) bash {
	t.Helper()
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("this test needs bash: it compares our reading of a command with bash's own")
	}
	b := bash{path, t.TempDir(), filepath.Join(t.TempDir(), "out")}
	const stub = "#!/bin/sh\nprintf '%s\\001' \"${0##*/}\" \"$@\" \"$END\" >> \"$OUT\"\n[ \"${0##*/}\" != no ]\n"
	for _, name := range stubs {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(stub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// run returns the calls a script makes, each as its words.
func (b bash) run(t testing.TB, script string) [][]string {
	t.Helper()
	os.Remove(b.out)
	cmd := exec.Command(b.path, "--noprofile", "--norc", "-c", "enable -n echo pwd true false\n"+script)
	cmd.Dir, cmd.Env = b.dir, []string{"PATH=" + b.dir, "OUT=" + b.out, "END=\x02"}
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	noted, _ := os.ReadFile(b.out) // no file: nothing was called
	var calls [][]string
	for call := range bytes.SplitSeq(noted, []byte("\x01\x02\x01")) {
		if len(call) > 0 {
			calls = append(calls, strings.Split(string(call), "\x01"))
		}
	}
	return calls
}

// differs compares what a plain script means to us with what bash makes of it.
// Programs of one pipeline run side by side, so their order is not compared.
func (b bash) differs(t testing.TB, script string, s Script) string {
	t.Helper()
	calls, failed := b.run(t, script), false
	for _, p := range s.Pipelines {
		if p.Joint == "&&" && failed || p.Joint == "||" && !failed {
			continue
		}
		n := min(len(p.Commands), len(calls))
		got := slices.SortedFunc(slices.Values(calls[:n]), slices.Compare[[]string])
		want := slices.SortedFunc(slices.Values(p.Commands), slices.Compare[[]string])
		if d := cmp.Diff(want, got); d != "" {
			return d
		}
		calls = calls[n:]
		failed = p.Commands[len(p.Commands)-1][0] == "no"
	}
	if len(calls) > 0 {
		return fmt.Sprintf("bash also called %q", calls)
	}
	return ""
}

// runnable keeps scripts from calling anything but the stubs.
func runnable(s Script) bool {
	for _, p := range s.Pipelines {
		for _, argv := range p.Commands {
			if !slices.Contains(stubs, argv[0]) || slices.ContainsFunc(argv, func(w string) bool { return strings.ContainsAny(w, "\x01\x02") }) {
				return false
			}
		}
	}
	return s.Plain
}

// TestBashAgrees shows that a plain script calls in bash exactly the programs
// with exactly the words that we read.
func TestBashAgrees(t *testing.T) {
	b := newBash(t)
	pieces := []string{
		"a", "b", "no", "ls", "git", "echo", "pwd", "true", "rm", "in", "g++", " ", " ", " ", " ", " ", "\n", "\t", ";", "|", "||", "&&", " && ", " | ", " || ",
		"'x y'", "\"x y\"", "''", "\"\"", "'*'", "\"a'b\"", "'a\"b'", "'\\'", "-", "--", "-la", "=", "a=b", "x", ".", "%", "%1", "@", ",", ":", "+", "/", "1", "2",
		"\\", "#", "!", "$", "*", "~", "{a,b}", "'", "\"", "(", ")", "<", ">", "&", "time", "if", "then", "[", "]", "\"!\"", "'\n'", "\"\n\"", "\"#\"", "^",
	}
	chance := rand.New(rand.NewPCG(1, 2))
	compared := 0
	for range 20_000 {
		var script strings.Builder
		script.WriteString(stubs[chance.IntN(len(stubs))] + " ")
		for range chance.IntN(9) {
			script.WriteString(pieces[chance.IntN(len(pieces))])
		}
		s := Shell(script.String())
		if !runnable(s) || compared >= 120 && len(s.Pipelines) < 4 || compared == 160 {
			continue
		}
		compared++
		if d := b.differs(t, script.String(), s); d != "" {
			t.Errorf("%q: %s", script.String(), d)
		}
	}
	if compared < 120 {
		t.Errorf("only %d scripts were compared", compared)
	}
	for _, command := range readCorpus(t, "allowed.txt")["all"] {
		if s := Shell(command); runnable(s) {
			if d := b.differs(t, command, s); d != "" {
				t.Errorf("%q: %s", command, d)
			}
		}
	}
}

// FuzzShell looks for texts that we call plain and bash reads differently.
func FuzzShell(f *testing.F) {
	for _, name := range []string{"bypass.txt", "allowed.txt"} {
		for _, commands := range readCorpus(f, name) {
			for _, c := range commands {
				f.Add(c)
			}
		}
	}
	b := newBash(f)
	f.Fuzz(func(t *testing.T, command string) {
		s := Shell(command)
		if s.Plain != (s.Reason == "") || s.Plain != (len(s.Pipelines) > 0) {
			t.Fatalf("%q: %+v", command, s)
		}
		if !runnable(s) {
			return
		}
		own := b
		own.out = filepath.Join(t.TempDir(), "out")
		if d := own.differs(t, command, s); d != "" {
			t.Errorf("%q: %s", command, d)
		}
	})
}
