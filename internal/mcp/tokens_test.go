package mcp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFileTokens(t *testing.T) {
	// Sign-ins survive, are private, belong to one server each, and a damaged one
	// is as good as none.
	dir := filepath.Join(t.TempDir(), "tokens")
	for server, secret := range map[string]string{"a": "old", "b@/some/dir": "other"} {
		if err := NewFileTokens(dir).Save(server, []byte(secret)); err != nil {
			t.Fatal(err)
		}
	}
	if err := NewFileTokens(dir).Save("a", []byte("new")); err != nil {
		t.Fatal(err)
	}
	for server, want := range map[string]string{"a": "new", "b@/some/dir": "other", "c": ""} {
		if got, err := NewFileTokens(dir).Load(server); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", server, got, err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("there are %v, %v", files, err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, %v", f.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v", info.Mode(), err)
	}
	whole, err := os.ReadFile(NewFileTokens(dir).file("a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []string{"", string(whole[:len(whole)-3]), strings.Replace(string(whole), `"a"`, `"x"`, 1), strings.Replace(string(whole), "1", "2", 1)} {
		if err := os.WriteFile(NewFileTokens(dir).file("a"), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := NewFileTokens(dir).Load("a"); err != nil || got != nil {
			t.Errorf("of %q was read %q, %v", damage, got, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	// What was filled in and what a name calls secret is one; a path or a word is
	// not, and what is not set is not there.
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"TOKEN": "filled-in-1", "PLAIN": "filled-in-2"}[name]
		return v, ok
	}
	c := Config{Servers: map[string]Server{
		"a": {Env: map[string]string{"ROOT": "/srv/files", "GREETING": "x ${PLAIN}", "API_KEY": "literal-3", "GONE": "${NOBODY}"}},
		"b": {Headers: map[string]string{"Authorization": "Bearer ${TOKEN}", "Accept": "application/json"}, ClientSecret: "client-4"},
	}}
	got := c.Secrets(lookup)
	slices.Sort(got)
	got = slices.Compact(got)
	want := []string{"Bearer filled-in-1", "client-4", "filled-in-1", "filled-in-2", "literal-3"}
	if diff := cmp.Diff(want, slices.DeleteFunc(got, func(s string) bool { return s == "" })); diff != "" {
		t.Error(diff)
	}
}
