//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestClearStandIns shows that stand-ins go that nobody holds, also nested ones, and
// that one a command needs stays, as does every file of the user.
func TestClearStandIns(t *testing.T) {
	dir := workspace(t)
	protected := []string{".held", ".left", ".deep/down/x", ".empty", ".full", ".dir", ".link", ".none"}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(at(".deep"), 0o700), os.Mkdir(at(".dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	g, err := protect(Profile{Workspace: dir, Protected: protected[:3]})
	if err != nil {
		t.Fatal(err)
	}
	defer g.release()
	for _, f := range g.standIns[1:] {
		f.Close() // as the kernel does for the killed
	}
	g.standIns = g.standIns[:1]
	if err := errors.Join(
		os.WriteFile(at(".empty"), nil, 0o400),
		os.WriteFile(at(".full"), []byte("x"), 0o400), os.Chtimes(at(".full"), standInTime, standInTime),
		os.Symlink(".held", at(".link")),
	); err != nil {
		t.Fatal(err)
	}
	ClearStandIns(dir, protected)
	for _, name := range []string{".left", ".deep/down"} {
		if _, err := os.Lstat(at(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s stays: %v", name, err)
		}
	}
	for _, name := range []string{".held", ".deep", ".empty", ".full", ".dir", ".link"} {
		if _, err := os.Lstat(at(name)); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	g.standIns[0].Close()
	g.standIns = nil
	ClearStandIns(dir, protected)
	if _, err := os.Lstat(at(".held")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("held by nobody, it stays: %v", err)
	}
}
