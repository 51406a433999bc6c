package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnified(t *testing.T) {
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	for _, c := range []struct{ name, old, now, want string }{
		{"the same", "a\nb\n", "a\nb\n", ""},
		{"a new file", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b"},
		{"emptied", "a\n", "", "@@ -1,1 +0,0 @@\n-a"},
		{"one line", ten, strings.Replace(ten, "5", "five", 1), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8"},
		{"two far apart", ten, strings.Replace("0\n"+ten, "10", "ten", 1), "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -7,4 +8,4 @@\n 7\n 8\n 9\n-10\n+ten"},
		{"two near each other", "1\n2\n3\n4\n5\n6\n", "1\nb\n3\n4\ne\n6\n", "@@ -1,6 +1,6 @@\n 1\n-2\n+b\n 3\n 4\n-5\n+e\n 6"},
		{"the last newline", "a\nb\n", "a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, strings.Join(unified(c.old, c.now), "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzUnified shows that nothing is lost in a comparison: what git makes of the
// old text with it is the new text.
func FuzzUnified(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd\n")
	f.Add("", "x")
	f.Add("x\ny", "x\ny\n")
	f.Add("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n1\n2\n3\n4\n5\n6\n7\n8\n")
	f.Fuzz(func(t *testing.T, old, now string) {
		if strings.ContainsAny(old+now, "\r\x00") || old == "" || now == "" || old == now {
			return // git reads these in its own way
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("git", "apply", "--whitespace=nowarn", "-")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		cmd.Stdin = strings.NewReader("--- a/f\n+++ b/f\n" + strings.Join(unified(old, now), "\n") + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q to %q: %v\n%s", old, now, err, out)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != now {
			t.Errorf("%q became %q, want %q (%v)", old, got, now, err)
		}
	})
}
