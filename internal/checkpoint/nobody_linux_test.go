package checkpoint

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

const nobody = 65534

// becomeNobody takes root's rights over files from the calling thread only.
func becomeNobody(t *testing.T) {
	for _, call := range []uintptr{syscall.SYS_SETFSGID, syscall.SYS_SETFSUID} {
		if _, _, errno := syscall.RawSyscall(call, nobody, 0, 0); errno != 0 {
			t.Error(errno)
		}
	}
}

// giveAway lets nobody own a tree, if it is root's, and reach it.
func giveAway(t *testing.T, dir string) {
	if os.Geteuid() != 0 {
		return
	}
	for above := filepath.Dir(dir); above != filepath.Clean(os.TempDir()); above = filepath.Dir(above) {
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, nobody, nobody)
	})
	if err != nil {
		t.Fatal(err)
	}
}
