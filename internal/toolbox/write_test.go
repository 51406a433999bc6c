package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWrite shows how files come to be and change, with hashes of both sides.
func TestWrite(t *testing.T) {
	env := newEnv(t)
	out := env.must(Write(), args{"path": "a/b/c.txt", "content": "one"})
	want := map[string]any{"path": "a/b/c.txt", "before": "", "after": sum([]byte("one")), "bytes": 3}
	if diff := cmp.Diff(want, out.Meta); diff != "" || out.Text != "created a/b/c.txt (3 bytes)" {
		t.Errorf("%s: %s", out.Text, diff)
	}
	var declared change
	if err := json.Unmarshal(env.intent, &declared); err != nil {
		t.Fatal(err)
	}
	if declared.Path != "a/b/c.txt" || declared.Before != "" || declared.After != sum([]byte("one")) {
		t.Errorf("declared %+v", declared)
	}
	out = env.must(Write(), args{"path": filepath.Join(env.dir, "a/b/c.txt"), "content": "two"})
	if out.Text != "replaced a/b/c.txt (3 bytes)" || out.Meta["before"] != sum([]byte("one")) || env.get("a/b/c.txt") != "two" {
		t.Errorf("%s, %v", out.Text, out.Meta)
	}
	env.intent = nil
	out = env.must(Write(), args{"path": "a/b/c.txt", "content": "two"})
	if out.Text != "no change: the content is already that of a/b/c.txt (3 bytes)" || env.intent != nil {
		t.Errorf("%s, declared %s", out.Text, env.intent)
	}
	out = env.must(Write(), args{"path": "empty", "content": ""})
	if out.Text != "created empty (0 bytes)" || env.get("empty") != "" {
		t.Error(out.Text)
	}
	wantNoTemp(t, env)
}

// TestWriteKeepsMode shows that a replaced file keeps its permissions and a new
// one follows the umask.
func TestWriteKeepsMode(t *testing.T) {
	env := newEnv(t)
	for _, mode := range []os.FileMode{0o755, 0o600, 0o444} {
		env.put("f", "old")
		path := filepath.Join(env.dir, "f")
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		env.must(Write(), args{"path": "f", "content": "new"})
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode || env.get("f") != "new" {
			t.Errorf("mode %v became %v", mode, info.Mode())
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	umask := syscall.Umask(0o027)
	defer syscall.Umask(umask)
	env.must(Write(), args{"path": "new", "content": ""})
	if info, err := os.Stat(filepath.Join(env.dir, "new")); err != nil || info.Mode() != 0o640 {
		t.Errorf("a new file has mode %v, %v", info.Mode(), err)
	}
}

// TestWriteRefuses shows that nothing is written through links, devices and
// FIFOs, or outside.
func TestWriteRefuses(t *testing.T) {
	env := newEnv(t)
	env.put("f", "safe")
	env.put("dir/x", "safe")
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("safe"), 0o644); err != nil {
		t.Fatal(err)
	}
	link(t, env, filepath.Join(outside, "f"), "escape")
	link(t, env, outside, "escape-dir")
	link(t, env, "f", "inner-link")
	link(t, env, filepath.Join(outside, "new"), "dangling")
	if err := os.Link(filepath.Join(env.dir, "dir/x"), filepath.Join(env.dir, "hard")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(env.dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"escape":                        "is a symbolic link",
		"inner-link":                    "is a symbolic link",
		"dangling":                      "is a symbolic link",
		"escape-dir/f":                  "leads out of the workspace",
		"escape-dir/new/f":              "leads out of the workspace",
		"hard":                          "hard links",
		"fifo":                          "is a FIFO",
		"dir":                           "is a directory",
		"dir/":                          "names a directory",
		".":                             "names a directory",
		"f/x":                           "not a directory",
		"../f":                          "outside the workspace",
		outside + "/f":                  "outside the workspace",
		"x/../../f":                     "outside the workspace",
		"a\x00":                         "NUL",
		strings.Repeat("x", 300):        "file name too long",
		strings.Repeat("d/", 101) + "x": "deeper than 100",
	} {
		for _, tool := range []Tool{Write(), Edit()} {
			a := args{"path": path, "content": "bad"}
			if tool.Name == "Edit" {
				a = args{"path": path, "old_string": "safe", "new_string": "bad"}
			}
			_, err := env.run(tool, a)
			wantError(t, err, says)
		}
	}
	for _, path := range []string{filepath.Join(env.dir, "f"), filepath.Join(env.dir, "dir/x"), filepath.Join(outside, "f")} {
		if b, err := os.ReadFile(path); err != nil || string(b) != "safe" {
			t.Errorf("%s has %q, %v", path, b, err)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("outside there is now %v", entries)
	}
	wantNoTemp(t, env)
}

// TestEdit shows replacements and what is said when a text does not fit.
func TestEdit(t *testing.T) {
	const file = "func a() {\n\treturn 1\n}\n\nfunc b() {\n\treturn 1\n}\n"
	for _, c := range []struct {
		name, content string
		args          args
		want, says    string
	}{
		{"once", file, args{"old_string": "func b", "new_string": "func c"}, strings.Replace(file, "func b", "func c", 1), "edited f at line 5"},
		{"delete", file, args{"old_string": "func b() {\n\treturn 1\n}\n", "new_string": ""}, "func a() {\n\treturn 1\n}\n\n", "edited f at line 5"},
		{"all", file, args{"old_string": "return 1", "new_string": "return 2", "replace_all": true}, strings.ReplaceAll(file, "return 1", "return 2"), "edited f in 2 places, the first at line 2"},
		{"not UTF-8 around it", "\xff old \xfe", args{"old_string": "old", "new_string": "new"}, "\xff new \xfe", "edited f at line 1"},
		{"ambiguous", file, args{"old_string": "return 1", "new_string": "x"}, "", "old_string occurs 2 times, at lines 2, 6; add surrounding text to make it unique or set replace_all"},
		{"overlapping", "aaa", args{"old_string": "aa", "new_string": "x"}, "", "occurs 2 times, at lines 1, 1"},
		{"very ambiguous", strings.Repeat("a", 100), args{"old_string": "a", "new_string": "x"}, "", "occurs more than 20 times"},
		{"white space", file, args{"old_string": "func b() {\n  return 1\n}", "new_string": "x"}, "", "does not occur in the file; at line 5 it differs only in white space:\n\"func b() {\"\n\"\\treturn 1\"\n\"}\""},
		{"one wrong line", file, args{"old_string": "func b() {\n\treturn 2\n}", "new_string": "x"}, "", "it fits from line 5 on, but line 6 is:\n\"\\treturn 1\""},
		{"past the end", file, args{"old_string": "func b() {\n\treturn 1\n}\nmore", "new_string": "x"}, "", "it fits from line 5 on, but the file ends after line 7"},
		{"nothing like it", file, args{"old_string": "zzz", "new_string": "x"}, "", "does not occur in the file; read the file again"},
		{"CRLF", "a\r\nb\r\n", args{"old_string": "a\nb", "new_string": "x"}, "", `its lines end in CRLF`},
		{"same", file, args{"old_string": "a", "new_string": "a"}, "", "nothing to change"},
		{"too large a result", strings.Repeat("a", 1000), args{"old_string": "a", "new_string": strings.Repeat("b", 100_000), "replace_all": true}, "", "more than the 16777216"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newEnv(t)
			env.put("f", c.content)
			c.args["path"] = "f"
			out, err := env.run(Edit(), c.args)
			if c.want == "" {
				wantError(t, err, c.says)
				c.want = c.content
			} else if err != nil || out.Text != c.says || out.Meta["before"] != sum([]byte(c.content)) || out.Meta["after"] != sum([]byte(c.want)) {
				t.Errorf("%q, %v, %v", out.Text, out.Meta, err)
			}
			if diff := cmp.Diff(c.want, env.get("f")); diff != "" {
				t.Error(diff)
			}
		})
	}
	env := newEnv(t)
	_, err := env.run(Edit(), args{"path": "missing", "old_string": "a", "new_string": "b"})
	wantError(t, err, "missing does not exist; create it with Write")
	env.put("big", strings.Repeat("x", maxEditBytes+1))
	_, err = env.run(Edit(), args{"path": "big", "old_string": "x", "new_string": "y"})
	wantError(t, err, "more than the 16777216")
}

// TestCrash shows that a call repeated after a crash at any point ends with the
// file changed exactly once, or says that it cannot tell.
func TestCrash(t *testing.T) {
	crash := errors.New("crash")
	calls := []struct {
		tool          Tool
		args          args
		before, after string // of the file; "" is no file
	}{
		{Write(), args{"path": "d/f", "content": "new"}, "old", "new"},
		{Write(), args{"path": "d/f", "content": "new"}, "", "new"},
		{Edit(), args{"path": "d/f", "old_string": "old", "new_string": "old and new"}, "old", "old and new"},
	}
	for _, c := range calls {
		for _, point := range []string{"before declaring", "after declaring", "temporary file left", "after the effect", "someone else wrote"} {
			t.Run(c.tool.Name+" "+c.before+" "+point, func(t *testing.T) {
				env := newEnv(t)
				if c.before != "" {
					env.put("d/f", c.before)
				}
				var declared change
				if point != "before declaring" {
					env.declare = func(b json.RawMessage) error { return errors.Join(json.Unmarshal(b, &declared), crash) }
					if _, err := env.run(c.tool, c.args); !errors.Is(err, crash) {
						t.Fatalf("first attempt: %v", err)
					}
				}
				switch point {
				case "temporary file left":
					env.put("d/"+declared.Temp, "half")
				case "after the effect":
					env.put("d/f", c.after)
				case "someone else wrote":
					env.put("d/f", "third")
				}
				declares := 0
				env.attempt, env.declare = 2, func(json.RawMessage) error { declares++; return nil }
				out := env.must(c.tool, c.args)
				switch point {
				case "someone else wrote":
					if !out.Unknown || env.get("d/f") != "third" || !strings.Contains(out.Text, "neither the content from before") {
						t.Errorf("unknown %v: %s", out.Unknown, out.Text)
					}
					return
				case "after the effect":
					if !strings.HasSuffix(out.Text, "(already done before the restart)") || out.Meta["recovered"] != true {
						t.Errorf("%s, %v", out.Text, out.Meta)
					}
				}
				if want := map[bool]int{true: 1, false: 0}[point == "before declaring"]; declares != want {
					t.Errorf("declared %d times, want %d", declares, want)
				}
				if out.Unknown || env.get("d/f") != c.after || out.Meta["after"] != sum([]byte(c.after)) {
					t.Errorf("unknown %v, content %q, %v", out.Unknown, env.get("d/f"), out.Meta)
				}
				wantNoTemp(t, env)
			})
		}
	}
}

// TestDeclareFirst shows that the intent is kept before anything changes, and
// that a call cancelled then leaves the file alone.
func TestDeclareFirst(t *testing.T) {
	env := newEnv(t)
	env.put("f", "old")
	ctx, cancel := context.WithCancel(context.Background())
	env.declare = func(json.RawMessage) error {
		if env.get("f") != "old" {
			t.Error("the file changed before the intent was kept")
		}
		cancel()
		return nil
	}
	_, err := env.runCtx(ctx, Write(), args{"path": "f", "content": "new"})
	if !errors.Is(err, context.Canceled) || env.get("f") != "old" {
		t.Errorf("%v, content %q", err, env.get("f"))
	}
}

// TestWriteSeesOthers shows that a file changed by someone else in the middle of
// an edit is not overwritten.
func TestWriteSeesOthers(t *testing.T) {
	for name, other := range map[string]string{"old": "changed", "": "appeared"} {
		env := newEnv(t)
		if name != "" {
			env.put("f", name)
		}
		env.declare = func(json.RawMessage) error {
			env.put("f", other)
			return nil
		}
		_, err := env.run(Write(), args{"path": "f", "content": "mine"})
		wantError(t, err, "changed while it was being written")
		if env.get("f") != other {
			t.Errorf("%q was lost to %q", other, env.get("f"))
		}
		wantNoTemp(t, env)
	}
}

func wantNoTemp(t *testing.T, env *fakeEnv) {
	t.Helper()
	filepath.WalkDir(env.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), tempPrefix) {
			t.Errorf("%s was left behind", path)
		}
		return nil
	})
}
