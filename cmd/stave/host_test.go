package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestEmptyDir shows that whatever is in the place of the scratch directory, an
// empty one that is ours alone is there afterwards, and nothing outside is touched.
func TestEmptyDir(t *testing.T) {
	outside := t.TempDir()
	kept := filepath.Join(outside, "kept")
	write := func(name string) error { return os.WriteFile(name, []byte("x"), 0o600) }
	if err := write(kept); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func(dir string) error{
		"nothing": func(string) error { return nil },
		"empty":   func(dir string) error { return os.Mkdir(dir, 0o700) },
		"open to others": func(dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.Chmod(dir, 0o755)
		},
		"full": func(dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
				return err
			}
			return write(filepath.Join(dir, "sub", "left"))
		},
		"a file": write,
		"a link": func(dir string) error { return os.Symlink(outside, dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), scratchName)
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			if err := emptyDir(dir); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(dir)
			if err != nil || info.Mode() != os.ModeDir|0o700 {
				t.Errorf("%v, %v, want a private directory", info, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("a file outside is gone: %v", err)
	}
}
