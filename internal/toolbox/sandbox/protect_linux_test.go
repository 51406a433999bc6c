//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProtected shows that protected paths stay as they are, existing or not,
// and that nothing is left behind where nothing was.
func TestProtected(t *testing.T) {
	if !slices.Contains(walls(t), Bwrap) {
		return
	}
	for _, c := range []struct{ name, script string }{
		{"write into", "echo x >.git/config"},
		{"add to", "touch .git/hooks/post-commit"},
		{"remove", "rm -rf .git/hooks"},
		{"move away", "mv .git elsewhere"},
		{"move over", "mkdir new; mv -T new .git"},
		{"link in", "ln .git/config linked && echo x >linked"},
		{"move the parent of a nested one", "mv .vscode elsewhere"},
		{"change a nested one", "echo x >.vscode/settings.json"},
		{"make a missing one", "touch .stave"},
		{"make a missing directory", "mkdir .stave"},
		{"link to a missing one", "ln -s /tmp .stave"},
		{"remove a missing one", "rm -f .stave"},
		{"move to a missing one", "touch a; mv -T a .stave"},
		{"fill a missing one", "echo x >.stave"},
		{"make the parent of a missing one", "mkdir -p .a/b"},
		{"make a missing one beside others", "touch .vscode/tasks.json"},
		{"unmount", "umount .git"},
		{"change the mode", "chmod 777 .git/config"},
	} {
		p := profile(t, Bwrap)
		p.Protected = []string{".git", ".stave", ".vscode/settings.json", ".vscode/tasks.json", ".a/b/c"}
		for path, text := range map[string]string{".git/config": "c", ".git/hooks/x": "h", ".vscode/settings.json": "s"} {
			path = filepath.Join(p.Workspace, path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		before := listing(t, p.Workspace)
		out, code := run(t, p, c.script+" && echo done || exit 9; touch .vscode/free ok")
		if code != 9 {
			t.Errorf("%s: code %d, output %q", c.name, code, out)
		}
		for _, scratch := range []string{"new", "a"} {
			os.Remove(filepath.Join(p.Workspace, scratch))
		}
		if after := listing(t, p.Workspace); after != before {
			t.Errorf("%s: changed from\n%s to\n%s", c.name, before, after)
		}
		if out, code := run(t, p, "touch .vscode/free ok && cat .git/config"); code != 0 || out != "c" {
			t.Errorf("%s: ordinary work gives %q, code %d", c.name, out, code)
		}
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all.WriteString(info.Mode().String() + " " + strings.TrimPrefix(path, dir))
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all.WriteString(" " + string(data))
		}
		all.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestStandInShared shows that a stand-in stays while any command needs it: to
// remove it would open the path to the others.
func TestStandInShared(t *testing.T) {
	p := profile(t, Bwrap)
	p.Protected = []string{".git"}
	stand := filepath.Join(p.Workspace, ".git")
	first, err := protect(p)
	if err != nil {
		t.Fatal(err)
	}
	second, err := protect(p)
	if err != nil {
		t.Fatal(err)
	}
	first.release()
	if _, err := os.Lstat(stand); err != nil {
		t.Errorf("the stand-in went while it was needed: %v", err)
	}
	second.release()
	if _, err := os.Lstat(stand); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stand-in stays: %v", err)
	}
}

// TestStandInLeft shows that a stand-in left by a kill is cleared away next
// time, and that an empty file of the user is not.
func TestStandInLeft(t *testing.T) {
	p := profile(t, Bwrap)
	p.Protected = []string{"left", "empty"}
	left, empty := filepath.Join(p.Workspace, "left"), filepath.Join(p.Workspace, "empty")
	g, err := protect(Profile{Workspace: p.Workspace, Protected: []string{"left"}})
	if err != nil {
		t.Fatal(err)
	}
	g.standIns[0].Close() // as the kernel does for the killed
	if err := os.WriteFile(empty, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	g, err = protect(p)
	if err != nil {
		t.Fatal(err)
	}
	g.release()
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left stays: %v", err)
	}
	if _, err := os.Lstat(empty); err != nil {
		t.Errorf("the user's file is gone: %v", err)
	}
}

// TestRefusals shows that what cannot be held is refused and never weakened.
func TestRefusals(t *testing.T) {
	sound := func(level Level) Profile { return profile(t, level) }
	for _, c := range []struct {
		name        string
		profile     func() Profile
		says        string
		unavailable bool
	}{
		{"no level", func() Profile { p := sound(""); return p }, "no sandbox level", false},
		{"relative workspace", func() Profile { p := sound(Bwrap); p.Workspace = "here"; return p }, "absolute", false},
		{"workspace is everything", func() Profile { p := sound(Bwrap); p.Workspace = "/"; return p }, "cannot be writable", false},
		{"workspace holds the system", func() Profile { p := sound(Landlock); p.Writable = []string{"/usr/bin"}; return p }, "cannot be writable", false},
		{"temporary files everywhere", func() Profile { p := sound(Bwrap); p.TempDir = "/"; return p }, "cannot be writable", false},
		{"temporary files in public", func() Profile { p := sound(Landlock); p.TempDir = os.TempDir(); return p }, "others may enter", false},
		{"foreign code", func() Profile { p := sound(Bwrap); p.Env = []string{"LD_PRELOAD=x.so"}; return p }, "LD_PRELOAD", false},
		{"protected outside", func() Profile { p := sound(Bwrap); p.Protected = []string{"../x"}; return p }, "inside the workspace", false},
		{"protected everything", func() Profile { p := sound(Bwrap); p.Protected = []string{"."}; return p }, "inside the workspace", false},
		{"too many", func() Profile { p := sound(Bwrap); p.Readable = make([]string, 1000); return p }, "more than", false},
		{"inexpressible", func() Profile {
			p := sound(Landlock)
			p.AcceptUnprotected, p.Protected = false, []string{".git"}
			return p
		}, "--sandbox bwrap", true},
		{"workspace behind a link", func() Profile {
			p := sound(Bwrap)
			link := filepath.Join(workspace(t), "link")
			if err := os.Symlink(p.Workspace, link); err != nil {
				t.Fatal(err)
			}
			p.Workspace = link
			return p
		}, "real path", false},
	} {
		p := c.profile()
		_, err := Command(p, []string{"/bin/true"}, p.Workspace)
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrUnavailable) != c.unavailable {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
	p := sound(Bwrap)
	if _, err := Command(p, []string{"/bin/true"}, "/usr"); err == nil {
		t.Error("a directory outside the workspace was accepted")
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(p.Workspace, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if _, err := Command(p, []string{"/bin/true"}, p.Workspace); !errors.Is(err, ErrUnavailable) {
			t.Errorf("the workspace of another user: error %v", err)
		}
	}
	missing := Finding{Level: Bwrap, Needs: []Need{needBwrap(), {Name: "luck", Says: "out of it"}}, Remedy: "try again"}
	if err := missing.Err(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "luck: out of it; try again") {
		t.Errorf("error %v", err)
	}
	if got := (Report{{Level: Off, OK: true}, {Level: Landlock, OK: true}, {Level: Bwrap}}).Best(); got != Landlock {
		t.Errorf("the best level is %s", got)
	}
}

// TestProtectedLink shows that a protected path which is a symbolic link stops
// the command instead of running it unprotected.
func TestProtectedLink(t *testing.T) {
	if !slices.Contains(walls(t), Bwrap) {
		return
	}
	p := profile(t, Bwrap)
	p.Protected = []string{".git"}
	if err := os.Symlink(workspace(t), filepath.Join(p.Workspace, ".git")); err != nil {
		t.Fatal(err)
	}
	_, err := Command(p, []string{"/bin/true"}, p.Workspace)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("error %v", err)
	}
}

// FuzzMain shows that no arguments break the helper before walls are built.
func FuzzMain(f *testing.F) {
	f.Add(stageInner, `{"level":"bwrap","workspace":"/x"}`)
	f.Add(stageInner, `{"level":"landlock","workspace":"/x","protected":["a/../b"]}`)
	f.Add(stageProbe, "{")
	f.Fuzz(func(t *testing.T, stage, profile string) {
		p, argv, err := parse([]string{stage, profile, "--", "/bin/true"})
		if err == nil && (p.check() != nil || len(argv) != 1 || stage != stageInner || p.Level != Landlock) {
			t.Errorf("accepted %q %q", stage, profile)
		}
	})
}

// TestMainRefusesStrangers shows that the hidden verb does nothing for others.
func TestMainRefusesStrangers(t *testing.T) {
	self, err := selfPath()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {stageInner}, {stageInner, "{}", "--", "/bin/echo"}, {"x", "y", "--", "w"}} {
		cmd := prepareSelf(context.Background(), self, args)
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != exitBroken {
			t.Errorf("%q: %v, %s", args, err, out)
		}
	}
}

func prepareSelf(ctx context.Context, self string, args []string) *exec.Cmd {
	return exec.CommandContext(ctx, self, append([]string{Verb}, args...)...)
}
