package toolbox

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var ignoreCases = flag.Int("ignorecases", 30, "generated trees to compare with git")

// TestIgnoreAgainstGit shows that we hide exactly what git ignores, in generated
// trees with generated .gitignore files at several depths.
func TestIgnoreAgainstGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal("this test needs git: ", err)
	}
	hidden, all := 0, 0
	for seed := range *ignoreCases {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		env := newEnv(t)
		paths := plantTree(env, rng)
		plantRules(env, rng, paths)
		want := gitIgnored(t, git, env.dir, paths)
		got := ourIgnored(t, env, paths)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-git +ours):\n%s\n%s", seed, diff, rulesOf(env))
		}
		hidden, all = hidden+len(want), all+len(paths)
	}
	if hidden*10 < all || hidden*10 > all*9 {
		t.Errorf("%d of %d paths are ignored: the trees show too little", hidden, all)
	}
}

// plantTree makes directories and files with names that patterns can tell apart
// only by looking closely.
func plantTree(env *fakeEnv, rng *rand.Rand) []string {
	names := []string{"a", "b", "ab", "abc", "a.go", "b.go", ".a", "a b", "a ", "#a", "!a", "[a]", "a*", `a\b`, "é", "foo", "Foo", "a-b", "-", "]", "^a", "0", "x9"}
	seen := map[string]bool{}
	var paths []string
	var plant func(dir string, depth int)
	plant = func(dir string, depth int) {
		for range 4 + rng.IntN(5) {
			path := below(dir, names[rng.IntN(len(names))])
			if seen[path] {
				continue
			}
			seen[path] = true
			paths = append(paths, path)
			if depth < 2 && rng.IntN(2) == 0 {
				if err := os.Mkdir(filepath.Join(env.dir, path), 0o755); err != nil {
					env.t.Fatal(err)
				}
				plant(path, depth+1)
			} else {
				env.put(path, "")
			}
		}
	}
	plant("", 0)
	return paths
}

func plantRules(env *fakeEnv, rng *rand.Rand, paths []string) {
	rules := func() string {
		var b strings.Builder
		for range 1 + rng.IntN(6) {
			b.WriteString(randomRule(rng, paths))
			b.WriteString([]string{"\n", "\n", "\n", "\r\n"}[rng.IntN(4)])
		}
		return b.String()
	}
	env.put(".gitignore", rules())
	for _, path := range paths {
		info, err := os.Stat(filepath.Join(env.dir, path))
		if err != nil {
			env.t.Fatal(err)
		}
		if info.IsDir() && rng.IntN(3) == 0 {
			env.put(path+"/.gitignore", rules())
		}
	}
	env.put(".git/info/exclude", rules())
}

// randomRule is a path of the tree with parts replaced by wildcards, or a row
// of pattern pieces.
func randomRule(rng *rand.Rand, paths []string) string {
	pieces := []string{
		"*", "*", "**", "/", "/", "?", "a", "b", "ab", ".go", "foo", "[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[]-a]", "[a-]", "[[:alpha:]]", "[[:digit:]x]",
		"[[:bad:]]", "[[:alpha]", "[", "]", `\`, `\a`, `\*`, `\[`, `\ `, " ", "\t", "!", "#", "-", "**/", "/**", "/**/", "***", `**\/`, "é", "[é]", `[\]]`, `[a\-c]`, "[--0]", "[!]a]",
	}
	var rule string
	if rng.IntN(3) > 0 {
		parts := strings.Split(paths[rng.IntN(len(paths))], "/")
		parts = parts[rng.IntN(len(parts)):]
		for i := range parts {
			switch rng.IntN(5) {
			case 0:
				parts[i] = pieces[rng.IntN(len(pieces))]
			case 1:
				at := rng.IntN(len(parts[i]) + 1)
				parts[i] = parts[i][:at] + pieces[rng.IntN(len(pieces))] + parts[i][at:]
			case 2:
				parts[i] = parts[i][:rng.IntN(len(parts[i]))] + "*"
			}
		}
		rule = strings.Join(parts, "/")
	} else {
		for range 1 + rng.IntN(5) {
			rule += pieces[rng.IntN(len(pieces))]
		}
	}
	rule = []string{"", "", "", "!", "/", `\`}[rng.IntN(6)] + rule
	return rule + []string{"", "", "", "/", " ", `\ `, "//"}[rng.IntN(7)]
}

// gitIgnored asks git about every path. A path below an ignored directory is
// ignored whatever else is said about it.
func gitIgnored(t *testing.T, git, dir string, paths []string) []string {
	// What "git init" makes, without its price.
	for _, d := range []string{".git/objects", ".git/refs"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".git/HEAD"), []byte("ref: refs/heads/main\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(git, "check-ignore", "--stdin", "-z", "--no-index")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: nothing is ignored
		t.Fatalf("asking git: %v", err)
	}
	var ignored []string
	for path := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if len(path) > 0 {
			ignored = append(ignored, string(path))
		}
	}
	slices.Sort(ignored)
	return ignored
}

func ourIgnored(t *testing.T, env *fakeEnv, paths []string) []string {
	w, err := openWorkspace(env)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	visited := map[string]bool{}
	walk := walker{ctx: context.Background(), visit: func(f found) error {
		visited[f.path] = true
		return nil
	}}
	if err := walk.walk(w, "."); err != nil {
		t.Fatal(err)
	}
	var ignored []string
	for _, path := range paths {
		if !visited[path] {
			ignored = append(ignored, path)
		}
	}
	slices.Sort(ignored)
	return ignored
}

func rulesOf(env *fakeEnv) string {
	var b strings.Builder
	filepath.WalkDir(env.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && (d.Name() == ".gitignore" || d.Name() == "exclude") {
			text, _ := os.ReadFile(path)
			fmt.Fprintf(&b, "%s:\n%q\n", path, strings.SplitAfter(string(text), "\n"))
		}
		return nil
	})
	return b.String()
}

// TestWildMatch pins what generated trees meet too rarely.
func TestWildMatch(t *testing.T) {
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"a[!x]b", "a/b", false},
		{"a?b", "a/b", false},
		{"a*b", "a/b", false},
		{"a**b", "a/b", false},
		{"a/**/b", "a/b", true},
		{"a/**/b", "a/x/y/b", true},
		{"**/b", "b", true},
		{"a/**", "a/x/y", true},
		{"a/**", "a", false},
		{`**\/b`, "x/y/b", true},
		{"[]-a]", "^", true},
		{"[z-a]", "m", false},
		{"a[", "a[", false},
		{`a\`, `a\`, false},
	} {
		if got := wildMatch(c.glob, c.path); got != c.want {
			t.Errorf("wildMatch(%q, %q) = %v", c.glob, c.path, got)
		}
	}
}

// TestWildMatchTime shows that a hostile pattern costs no exponential time.
func TestWildMatchTime(t *testing.T) {
	path := strings.Repeat("a", 200) + "/" + strings.Repeat("a", 200)
	for _, glob := range []string{strings.Repeat("*a", 100) + "b", strings.Repeat("**/*a*", 40) + "/b", strings.Repeat("a*", 150) + "/" + strings.Repeat("*a", 100) + "b"} {
		if wildMatch(glob, path) {
			t.Errorf("%.40s… matches", glob)
		}
	}
}
