package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestStandIns shows that a project says the same while a sandbox keeps empty files
// where it has nothing, and that any other file there is an error or counts.
func TestStandIns(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("AGENTS.md"), []byte("be kind"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := ReadProject(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(at(".stave"), nil, 0o400), os.WriteFile(at(".mcp.json"), nil, 0o400)); err != nil {
		t.Fatal(err)
	}
	during, err := ReadProject(dir)
	if err != nil || during.Digest != before.Digest {
		t.Errorf("with stand-ins it says %v, %v", during.Names(), err)
	}
	if err := os.Chmod(at(".mcp.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := ReadProject(dir); err != nil || changed.Digest == before.Digest {
		t.Errorf("a file of the project does not count: %v, %v", changed.Names(), err)
	}
	if err := errors.Join(os.Chmod(at(".stave"), 0o600), os.WriteFile(at(".stave"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadProject(dir); err == nil {
		t.Error("a file in the place of the directory is no error")
	}
}
