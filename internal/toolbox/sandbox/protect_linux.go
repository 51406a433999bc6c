//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxHoldTries bounds the race with others that clear the same stand-in away.
const maxHoldTries = 100

// guard is how the protected paths of a workspace are mounted.
type guard struct {
	pinned   []string   // directories above a protected path: mount points cannot be renamed
	frozen   []string   // what is read-only
	standIns []*os.File // files made where nothing was, each under a shared lock
	asFound  bool       // nothing is made
}

// protect looks at every protected path and makes a stand-in for what does not
// exist: a mount needs something to be put on, and a file that is missing now
// must not be made by the command.
//
// A command that runs at the same time under the same profile cannot change what
// is looked at here, because its own mounts are in the way.
func protect(p Profile) (guard, error) {
	g := guard{asFound: p.AsFound}
	if p.ReadOnly {
		return g, nil // all of it stays as it is
	}
	for _, path := range p.Protected {
		if err := g.add(p.Workspace, path); err != nil {
			g.release()
			return guard{}, err
		}
	}
	return g, nil
}

func (g *guard) add(workspace, path string) error {
	at := workspace
	parts := strings.Split(path, "/")
	for i, part := range parts {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		last := i == len(parts)-1
		switch {
		case errors.Is(err, os.ErrNotExist) && g.asFound:
			return nil
		case errors.Is(err, os.ErrNotExist):
			return g.stand(at)
		case err != nil:
			return fmt.Errorf("looking at protected path %s: %w", at, err)
		case info.Mode()&os.ModeSymlink != 0:
			return &UnavailableError{
				Level: Bwrap, Missing: at + " is a symbolic link, which cannot be kept from being replaced",
				Remedy: "put the file itself there or take it off the protected paths",
			}
		case isStandIn(info) && g.asFound:
			g.frozen = appendNew(g.frozen, at) // as long as others need it
			return nil
		case isStandIn(info):
			return g.stand(at)
		case last || !info.IsDir():
			g.frozen = appendNew(g.frozen, at)
			return nil
		}
		g.pinned = appendNew(g.pinned, at)
	}
	return nil
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// stand makes or shares the stand-in at a path. The shared lock says that a
// command needs it: to unlink it would take the mount off for that command too.
func (g *guard) stand(path string) error {
	if slices.Contains(g.frozen, path) {
		return nil
	}
	for range maxHoldTries {
		f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, standInMode)
		if err != nil {
			return fmt.Errorf("making a stand-in for protected path %s: %w", path, err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
			f.Close()
			return fmt.Errorf("locking the stand-in %s: %w", path, err)
		}
		if !sameFile(f, path) { // cleared away before the lock was ours
			f.Close()
			continue
		}
		if info, err := f.Stat(); err == nil && info.Size() == 0 && !isStandIn(info) {
			if err := os.Chtimes(path, standInTime, standInTime); err != nil {
				f.Close()
				return fmt.Errorf("marking the stand-in %s: %w", path, err)
			}
		}
		g.standIns = append(g.standIns, f)
		g.frozen = append(g.frozen, path)
		return nil
	}
	return fmt.Errorf("making a stand-in for protected path %s: it vanished %d times", path, maxHoldTries)
}

func sameFile(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, named)
}

// stands are the paths of the stand-ins.
func (g *guard) stands() (paths []string) {
	for _, f := range g.standIns {
		paths = append(paths, f.Name())
	}
	return paths
}

// release clears away the stand-ins that nobody else needs.
func (g *guard) release() {
	for _, f := range g.standIns {
		dropStandIn(f)
		f.Close()
	}
	g.standIns = nil
}
