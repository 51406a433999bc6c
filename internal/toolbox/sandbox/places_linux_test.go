//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadOnly shows that a read-only workspace can be read and not changed, that
// places inside and around it keep their own rights, and that no stand-in is made.
func TestReadOnly(t *testing.T) {
	for _, level := range walls(t) {
		root := workspace(t)
		p := profile(t, level)
		p.Workspace, p.ReadOnly = filepath.Join(root, "work"), true
		p.Protected, p.AcceptUnprotected = DefaultProtected(), false
		inside, beside, seen := filepath.Join(p.Workspace, "mine"), filepath.Join(root, "beside"), filepath.Join(root, "seen")
		for _, dir := range []string{inside, beside, seen} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.WriteFile(filepath.Join(p.Workspace, "text"), []byte("text\n"), 0o600),
			os.WriteFile(filepath.Join(seen, "text"), []byte("seen\n"), 0o600),
			os.WriteFile(filepath.Join(root, "secret"), []byte("secret\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		p.Writable, p.Readable = []string{inside, beside}, []string{seen}
		out, _ := run(t, p, `cat text; cat ../seen/text; cat ../secret; echo x >new; echo x >text; rm -f text; echo x >../seen/new; echo x >mine/new; echo x >../beside/new; true`)
		if !strings.Contains(out, "text\n") || !strings.Contains(out, "seen\n") || strings.Contains(out, "secret\n") {
			t.Errorf("%s: read %q", level, out)
		}
		for path, want := range map[string]bool{
			"work/new": false, "work/text": true, "seen/new": false, "work/mine/new": true, "beside/new": true, "work/.git": false,
		} {
			if _, err := os.Stat(filepath.Join(root, path)); (err == nil) != want {
				t.Errorf("%s: %s is there: %v", level, path, err == nil)
			}
		}
		if text, err := os.ReadFile(filepath.Join(p.Workspace, "text")); err != nil || string(text) != "text\n" {
			t.Errorf("%s: the text is %q, %v", level, text, err)
		}
	}
}

// TestAround shows that a writable place around the workspace does not take the
// protection inside it away, and that one that is missing is told.
func TestAround(t *testing.T) {
	for _, level := range walls(t) {
		if level != Bwrap {
			continue
		}
		root := workspace(t)
		p := profile(t, level)
		p.Workspace, p.Writable, p.Protected, p.AsFound = filepath.Join(root, "work"), []string{root}, []string{".git", ".envrc"}, true
		if err := os.MkdirAll(filepath.Join(p.Workspace, ".git"), 0o700); err != nil {
			t.Fatal(err)
		}
		run(t, p, "echo x >../new; echo x >.git/config; ls -A >seen")
		if _, err := os.Stat(filepath.Join(root, "new")); err != nil {
			t.Errorf("the place around cannot be written: %v", err)
		}
		if _, err := os.Stat(filepath.Join(p.Workspace, ".git", "config")); err == nil {
			t.Error("a protected path was changed")
		}
		if seen, err := os.ReadFile(filepath.Join(p.Workspace, "seen")); err != nil || strings.Contains(string(seen), ".envrc") {
			t.Errorf("something stands in for a missing file: %q, %v", seen, err)
		}
		p.Writable = []string{filepath.Join(root, "gone")}
		if _, err := Command(p, []string{"/bin/true"}, p.Workspace); err == nil || !strings.Contains(err.Error(), "gone") {
			t.Errorf("a missing place: %v", err)
		}
	}
}
