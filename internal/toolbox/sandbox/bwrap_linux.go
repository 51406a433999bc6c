//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strconv"
)

// bwrapCommand prepares namespaces by bubblewrap: nothing of ours stands around
// the command or between it and its walls.
func bwrapCommand(p Profile, argv []string, dir string) (Launch, error) {
	bwrap, err := findProgram("bwrap")
	if err != nil {
		return Launch{}, fmt.Errorf("bubblewrap is gone; install it again: %w", err)
	}
	g, err := protect(p)
	if err != nil {
		return Launch{}, err
	}
	files := []File{{Data: filter(p.Network, true).bytes()}}
	line := append([]string{bwrap}, bwrapWalls(p)...)
	copied, mounted := sortSystemFiles(p.Network)
	for _, path := range copied {
		line = append(line, "--perms", "0444", "--file", strconv.Itoa(firstPassed+len(files)), path)
		files = append(files, File{Path: path})
	}
	for _, path := range mounted {
		line = append(line, "--ro-bind", path, path)
	}
	line = append(append(line, bwrapFiles(p, g)...), "--chdir", dir, "--")
	return Launch{
		Argv: append(line, argv...), Env: p.envWith("/tmp"), Dir: dir,
		Files: files, Hold: g.stands(), Wrapped: true, Release: g.release,
	}, nil
}

// bwrapWalls are the namespaces, the filter, which is the first file passed, and
// the system's programs.
func bwrapWalls(p Profile) []string {
	args := []string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--seccomp", strconv.Itoa(firstPassed),
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
	return args
}

// bwrapFiles are the places of a command and of its user.
func bwrapFiles(p Profile, g guard) []string {
	args := []string{"--proc", "/proc", "--dev", "/dev"}
	if p.TempDir != "" {
		args = append(args, "--bind", p.TempDir, "/tmp")
	} else {
		args = append(args, "--perms", "1777", "--tmpfs", "/tmp")
	}
	for _, path := range p.justReadable() {
		args = append(args, "--ro-bind-try", path, path)
	}
	// A mount hides what was mounted below it before, so the wider one comes first.
	around, inside := p.splitWritable()
	for _, path := range around {
		args = append(args, "--bind", path, path)
	}
	how := "--bind"
	if p.ReadOnly {
		how = "--ro-bind"
	}
	args = append(args, how, p.Workspace, p.Workspace)
	for _, path := range g.pinned {
		args = append(args, "--bind", path, path)
	}
	for _, path := range g.frozen {
		args = append(args, "--ro-bind", path, path)
	}
	for _, path := range inside {
		args = append(args, "--bind", path, path)
	}
	return append(args, "--remount-ro", "/")
}

// justReadable are the readable paths that no writable one holds, the widest first.
func (p Profile) justReadable() []string {
	writable := p.Writable
	if !p.ReadOnly {
		writable = append(slices.Clone(writable), p.Workspace)
	}
	return slices.DeleteFunc(slices.Sorted(slices.Values(p.Readable)), func(path string) bool {
		return slices.ContainsFunc(slices.Concat(writable, systemDirs()), func(dir string) bool { return within(path, dir) })
	})
}

// splitWritable tells the writable paths that hold the workspace from the others.
func (p Profile) splitWritable() (around, inside []string) {
	for _, path := range slices.Sorted(slices.Values(p.Writable)) {
		if within(p.Workspace, path) {
			around = append(around, path)
		} else {
			inside = append(inside, path)
		}
	}
	return around, inside
}
