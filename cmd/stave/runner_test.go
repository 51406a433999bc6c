package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"stave/internal/toolbox/sandbox"
)

// TestRunnerLeavesNothing shows that a runner without a command leaves no directory
// behind, that one with something in it stays, and that none starts after the end.
func TestRunnerLeavesNothing(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	data := t.TempDir()
	r := newRunner(data, sandbox.Limits{})
	if info, err := os.Stat(r.dir); err != nil || !info.IsDir() {
		t.Fatal(err)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty directory stays: %v", err)
	}
	r.expect()
	if _, err := os.Stat(r.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it came back: %v", err)
	}
	first, second := newRunner(data, sandbox.Limits{}), newRunner(data, sandbox.Limits{})
	if err := first.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(second.dir); err != nil {
		t.Errorf("one that is in use was removed: %v", err)
	}
	r = second
	known := filepath.Join(r.dir, wallsName)
	if err := os.WriteFile(known, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(known); err != nil {
		t.Error(err)
	}
}
