package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stave/internal/workflow"
)

// TestFindWorkflow shows what whoever runs a workflow gets: a settled definition
// with its hash and where it came from, or an error that says what to do.
func TestFindWorkflow(t *testing.T) {
	a, _, _ := testApp(t)
	a.data = t.TempDir()
	dir := t.TempDir()
	own := filepath.Join(a.data, workflowsName, "any.yaml")
	file := filepath.Join(dir, "file.yaml")
	for path, id := range map[string]string{own: "mine", file: "other"} {
		if err := writeNew(path, workflow.New(id)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][3]string{
		"codeReview": {"codeReview", fromBundle, "codeReview.yaml"},
		"mine":       {"mine", fromOwn, own},
		file:         {"other", fromFile, file},
	} {
		w, err := a.findWorkflow(dir, name)
		if got := [3]string{w.ID, w.source, w.path}; err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
		if again := workflow.Settle(w.Definition); w.Hash == "" || again.Hash != w.Hash {
			t.Errorf("%s: the hash is %q, settled again %q", name, w.Hash, again.Hash)
		}
	}
	for name, want := range map[string]string{
		"any":      `there is no workflow "any"; known: codeReview, fixTests, mine, ralph, research`, // a file's name is none
		"codeRevi": "did you mean codeReview?",
		"":         `there is no workflow ""`,
		dir:        "this is a directory",
		"none.md":  "none.md: no such file or directory",
	} {
		if w, err := a.findWorkflow(dir, name); err == nil || !strings.Contains(err.Error(), want) || w.ID != "" {
			t.Errorf("%s: %q, %v, want %q", name, w.ID, err, want)
		}
	}
}

// TestFindBrokenWorkflow shows that a workflow of one's own with mistakes is never
// replaced by a bundled one of the same name.
func TestFindBrokenWorkflow(t *testing.T) {
	a, _, _ := testApp(t)
	a.data = t.TempDir()
	if err := writeNew(filepath.Join(a.data, workflowsName, "ralph.yaml"), []byte("id: ralph\n")); err != nil {
		t.Fatal(err)
	}
	_, err := a.findWorkflow(t.TempDir(), "ralph")
	var problems workflow.Problems
	if !errors.As(err, &problems) || exitCode(err) != exitBadInput {
		t.Errorf("%v", err)
	}
}

// TestReadWorkflow shows the bound of a file's size, and that neither a pipe nor a
// socket's place is waited for.
func TestReadWorkflow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.yaml")
	for size, ok := range map[int]bool{0: true, workflow.MaxFile: true, workflow.MaxFile + 1: false} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := readWorkflow(path); (err == nil) != ok || ok && len(b) != size {
			t.Errorf("%d bytes: %d, %v", size, len(b), err)
		}
	}
	pipe := filepath.Join(t.TempDir(), "p.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readWorkflow(pipe); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

// TestWriteNew shows that a file that is there is left alone, a link to nowhere too.
func TestWriteNew(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "w.yaml"), filepath.Join(dir, "target")
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(path, []byte("x")); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Error(err)
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("the link was followed")
	}
}
