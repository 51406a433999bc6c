//go:build amd64 || arm64

package sandbox

import (
	"os"
	"slices"
	"strconv"
)

// helperPath is where our program is found inside the namespaces.
const helperPath = "/run/stave-sandbox"

// system is what namespaces get of /etc.
type system struct {
	mounted []string
	copied  []*os.File
	numbers []int // of copied, in bubblewrap
}

// bwrapArgs is the command line of bubblewrap up to the command. It copies files
// of the system from the open ones, which it finds under the given numbers.
func bwrapArgs(p Profile, g guard, s system, self, dir string) []string {
	args := []string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL",
		"--die-with-parent", "--new-session", "--hostname", "sandbox",
	}
	if p.Network {
		args = append(args, "--share-net")
	}
	for _, path := range systemDirs() {
		if target, err := os.Readlink(path); err == nil {
			args = append(args, "--symlink", target, path)
		} else if _, err := os.Stat(path); err == nil {
			args = append(args, "--ro-bind", path, path)
		}
	}
	for _, path := range s.mounted {
		args = append(args, "--ro-bind", path, path)
	}
	for i, f := range s.copied {
		args = append(args, "--perms", "0444", "--file", strconv.Itoa(s.numbers[i]), f.Name())
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev")
	if p.TempDir != "" {
		args = append(args, "--bind", p.TempDir, "/tmp")
	} else {
		args = append(args, "--perms", "1777", "--tmpfs", "/tmp")
	}
	for _, path := range p.Readable {
		args = append(args, "--ro-bind-try", path, path)
	}
	for _, path := range slices.Concat(p.Writable, []string{p.Workspace}, g.pinned) {
		args = append(args, "--bind", path, path)
	}
	for _, path := range g.frozen {
		args = append(args, "--ro-bind", path, path)
	}
	return append(args, "--ro-bind", self, helperPath, "--remount-ro", "/", "--chdir", dir, "--")
}
