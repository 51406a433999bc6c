//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ClearStandIns removes what stands in a workspace for missing protected paths and
// no command needs any more. Whoever is killed while a command runs leaves it there.
func ClearStandIns(workspace string, protected []string) {
	for _, path := range protected {
		at := workspace
		for part := range strings.SplitSeq(path, "/") {
			at = filepath.Join(at, part)
			info, err := os.Lstat(at)
			if err == nil && isStandIn(info) {
				clearStandIn(at)
			}
			if err != nil || !info.IsDir() {
				break
			}
		}
	}
}

func clearStandIn(path string) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return // gone, or none of ours
	}
	dropStandIn(f)
	f.Close()
}

// dropStandIn removes an open stand-in unless somebody else holds it.
func dropStandIn(f *os.File) {
	// Whoever gets the lock alone is the last; others leave it to them.
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	if info, err := f.Stat(); err == nil && isStandIn(info) && sameFile(f, f.Name()) {
		os.Remove(f.Name()) // one that stays is known by its mark and cleared next time
	}
}
