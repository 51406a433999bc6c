package toolbox

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// linkedEnv is a workspace full of links; "canary" stands only outside it.
func linkedEnv(t testing.TB) (env *fakeEnv, outside string) {
	env = newEnv(t)
	outside = t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("canary\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	env.put("dir/f", "inside\n")
	for name, to := range map[string]string{
		"abs-file":    filepath.Join(env.dir, "dir/f"),
		"abs-dir":     filepath.Join(env.dir, "dir"),
		"abs-top":     env.dir,
		"rel-file":    "dir/f",
		"dir/up":      "../dir",
		"chain":       "abs-dir/up",
		"out-file":    filepath.Join(outside, "secret"),
		"out-dir":     outside,
		"out-rel":     "../" + filepath.Base(outside),
		"out-via":     filepath.Join(env.dir, "out-dir"),
		"out-prefix":  env.dir + "x/secret",
		"out-climb":   env.dir + "/../" + filepath.Base(outside),
		"loop":        filepath.Join(env.dir, "loop"),
		"proc":        "/proc/self",
		"dir/out-far": "../../../../../../../../etc/passwd",
	} {
		if err := os.Symlink(to, filepath.Join(env.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return env, outside
}

// TestLinks shows that links inside the workspace work however they are spelled
// and that none leads out of it.
func TestLinks(t *testing.T) {
	env, outside := linkedEnv(t)
	for _, path := range []string{"abs-file", "abs-dir/f", "abs-top/dir/f", "rel-file", "dir/up/f", "chain/f", "abs-top/abs-top/chain/f", filepath.Join(env.dir, "abs-dir/f")} {
		if out := env.must(Read(), args{"path": path}); out.Text != "1\tinside\n" {
			t.Errorf("%s reads as %q", path, out.Text)
		}
		if out := env.must(Grep(), args{"path": path, "pattern": "inside"}); out.Meta["matches"] != 1 {
			t.Errorf("%s: %s", path, out.Text)
		}
	}
	if out := env.must(Glob(), args{"path": "abs-dir", "pattern": "f"}); out.Text != "dir/f\n" {
		t.Errorf("Glob below a link finds %q", out.Text)
	}
	out := env.must(Write(), args{"path": "abs-dir/new/g", "content": "written"})
	if out.Meta["path"] != "dir/new/g" || env.get("dir/new/g") != "written" {
		t.Errorf("%s, %v", out.Text, out.Meta)
	}
	for _, path := range []string{"out-file", "out-dir/secret", "out-rel/secret", "out-via/secret", "out-prefix", "out-climb/secret", "dir/out-far", "proc/environ", "abs-top/out-dir/secret", "loop"} {
		says := "leads out of the workspace through a symbolic link"
		if path == "loop" {
			says = "loop"
		}
		_, err := env.run(Read(), args{"path": path})
		wantError(t, err, says)
		_, err = env.run(Grep(), args{"path": path, "pattern": "."})
		wantError(t, err, says)
		for _, a := range []args{{"path": path + "/x", "content": "bad"}, {"path": path, "content": "bad"}} {
			if out, err := env.run(Write(), a); err == nil {
				t.Errorf("%s was written: %s", path, out.Text)
			}
		}
		if out, err := env.run(Glob(), args{"path": path, "pattern": "*"}); err == nil && out.Meta["matches"] != 0 {
			t.Errorf("Glob found %q in %s", out.Text, path)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there is now %v, %v", entries, err)
	}
}

// FuzzPath shows that whatever path is asked for, what is opened lies inside
// the workspace, and that spelling links out never gains more than os.Root gives.
func FuzzPath(f *testing.F) {
	env, outside := linkedEnv(f)
	for _, seed := range []string{
		"dir/f", "./dir//f", "abs-file", "abs-dir/up/f", "chain/f", "loop/x", "../x", "dir/../../x", "out-file", "out-via/secret", "abs-top/out-climb/secret",
		env.dir, env.dir + "/dir/f", env.dir + "/../" + filepath.Base(outside) + "/secret", outside + "/secret", "/etc/passwd", "", ".", "..", "/", "a\x00b",
		"proc/environ", "dir/f/", "abs-dir/..", "abs-dir/../../x", strings.Repeat("abs-top/", 50) + "dir/f",
	} {
		f.Add(seed)
	}
	w, err := openWorkspace(env)
	if err != nil {
		f.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(env.dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		name, err := w.place(path)
		if err != nil {
			return
		}
		if !filepath.IsLocal(name) {
			t.Fatalf("%q is placed at %q", path, name)
		}
		file, _, err := w.openFile(name)
		if err != nil {
			return
		}
		defer file.Close()
		content, err := io.ReadAll(file)
		if err != nil || strings.Contains(string(content), "canary") {
			t.Errorf("%q, opened as %q, gives %q, %v", path, name, content, err)
		}
		where, err := filepath.EvalSymlinks(filepath.Join(env.dir, name))
		if err != nil || !strings.HasPrefix(where, real+"/") {
			t.Errorf("%q, opened as %q, lies at %q, %v", path, name, where, err)
		}
		if plain, err := w.local(path); err == nil && plain != name {
			if _, err := w.Stat(plain); !escapes(err) {
				t.Errorf("%q was respelled as %q although os.Root follows it: %v", plain, name, err)
			}
		}
	})
}
