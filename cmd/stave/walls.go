package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"stave/internal/config"
	"stave/internal/machine/session"
	"stave/internal/policy"
	"stave/internal/toolbox/sandbox"
)

// landlockOnly says what commands can do that run behind Landlock alone.
const landlockOnly = "commands run behind Landlock alone, which cannot keep paths like .git from being changed"

const moreWalls = "install bubblewrap and allow user namespaces for more (`stave doctor` says what is missing)"

// wallsNote says that commands nobody is asked about run behind fewer walls than
// there could be, unless a person chose so.
func wallsNote(c session.Config, walls func() sandbox.Report) string {
	asks := c.Mode != policy.ModeYolo && c.Mode != policy.ModeAllowlist
	if asks || c.ReadOnly || c.Sandbox != "" && c.Sandbox != autoLevel {
		return ""
	}
	if walls().Best() != sandbox.Landlock {
		return "" // better, or no command runs
	}
	return landlockOnly + "; " + moreWalls + ", or say --sandbox landlock if that is what you want"
}

// levelOf reads a level; auto is the strongest that can be built, and where none
// can, a person has to say that they want none.
func levelOf(name string, walls func() sandbox.Report) (sandbox.Level, error) {
	if name != "" && name != autoLevel {
		return sandbox.ParseLevel(name)
	}
	report := walls()
	if best := report.Best(); best != sandbox.Off {
		return best, nil
	}
	return "", fmt.Errorf("no sandbox can be built here: %w", errors.Join(report.Of(sandbox.Bwrap).Err(), report.Of(sandbox.Landlock).Err()))
}

// machineWalls says what can be built here, for those who do not know of a runner.
// It is remembered where only we can write, as long as the machine is up.
var machineWalls = sync.OnceValue(func() sandbox.Report {
	if dir := callsDir("", os.Getenv); filepath.IsAbs(dir) {
		return sandbox.Remembered(filepath.Join(dir, wallsName))
	}
	return sandbox.Detect()
})

// guest is a program of the person's that is neither theirs to watch nor an
// agent's command: an MCP server or a hook.
type guest struct {
	level     string
	workspace string // empty for none
	readOnly  bool   // the workspace
	network   bool
	read      []string // further paths
	write     []string
	home      string // of its own, kept; empty for one that is gone when it ends
	argv      []string
	dir       string
	env       []string
}

// launch says how to start a guest behind its walls. A level that cannot be built
// is refused.
func (g guest) launch(walls func() sandbox.Report) (sandbox.Launch, error) {
	level, err := levelOf(g.level, walls)
	if err != nil {
		return sandbox.Launch{}, err
	}
	p := sandbox.Profile{Level: level, Env: g.env, Limits: sandbox.DefaultLimits()}
	if level == sandbox.Off {
		launch, err := sandbox.Report(nil).Command(p, g.argv, g.dir)
		if err != nil {
			return launch, err
		}
		return launch.Limited()
	}
	scratch, err := os.MkdirTemp("", "stave-guest-")
	if err != nil {
		return sandbox.Launch{}, fmt.Errorf("making a place for temporary files: %w", err)
	}
	clear := func() { _ = os.RemoveAll(scratch) } // what stays is private
	launch, err := g.build(p, scratch, walls())
	if err != nil {
		clear()
		return launch, err
	}
	release := launch.Release
	launch.Release = func() {
		release()
		clear()
	}
	return launch, nil
}

// build puts the profile of a guest together. Its home is never the person's.
func (g guest) build(p sandbox.Profile, scratch string, report sandbox.Report) (sandbox.Launch, error) {
	scratch, err := filepath.EvalSymlinks(scratch)
	if err != nil {
		return sandbox.Launch{}, err
	}
	p.TempDir, p.Network = scratch, g.network
	p.Readable, p.Writable = slices.Clone(g.read), slices.Clone(g.write)
	p.Workspace, p.ReadOnly, p.AsFound = g.workspace, g.readOnly, true
	if g.workspace == "" {
		p.Workspace, p.ReadOnly = scratch, false
	} else if !g.readOnly {
		p.Protected, p.AcceptUnprotected = sandbox.DefaultProtected(), p.Level == sandbox.Landlock
	}
	home := g.home
	switch {
	case home != "":
		p.Writable = append(p.Writable, home)
	case p.Level == sandbox.Bwrap:
		home = "/tmp" // which is the scratch directory
	default:
		home = scratch
	}
	p.Env = append(slices.DeleteFunc(slices.Clone(g.env), func(v string) bool { return strings.HasPrefix(v, "HOME=") }), "HOME="+home)
	launch, err := report.Command(p, g.argv, g.dir)
	if err != nil {
		return launch, err
	}
	limited, err := launch.Limited()
	if err != nil {
		launch.Release()
	}
	return limited, err
}

// programPaths are what a program needs of the person's files to be started: the
// files themselves, the packages around them, and the directories of programs on
// the PATH, which an interpreter may have to be found in.
func programPaths(files []string, private ...string) []string {
	var paths []string
	for _, file := range files {
		for _, path := range []string{file, realPath(file)} {
			if path == "" {
				continue
			}
			if before, _, inside := strings.Cut(path, "/node_modules/"); inside {
				path = before + "/node_modules"
			}
			paths = append(paths, path)
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		holds := func(path string) bool {
			return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
		}
		if filepath.IsAbs(dir) && filepath.Clean(dir) == dir && !slices.ContainsFunc(private, holds) {
			paths = append(paths, dir)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// realPath is where a file is without symbolic links, or empty.
func realPath(file string) string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return ""
	}
	return real
}

// fromHome fills in the person's home directory.
func fromHome(paths []string, home string) []string {
	var whole []string
	for _, path := range paths {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(home, rest)
		}
		whole = append(whole, path)
	}
	return whole
}

// limitsOf are a person's limits in the words of the sandbox.
func limitsOf(l config.Limits) sandbox.Limits {
	const mega = 1 << 20
	l = l.OrUsual()
	return sandbox.Limits{
		Processes: uint64(l.Processes), OpenFiles: uint64(l.OpenFiles), FileBytes: uint64(l.FileMB) * mega,
		MemoryBytes: uint64(l.MemoryMB) * mega, CPUSeconds: uint64(l.CPU.Seconds()),
	}
}

// boundCommands sets the limits of commands in a directory. A project that cannot
// be read says nothing: no conversation begins in it, and old ones can be ended.
func (a *app) boundCommands(r *runner, dir string) error {
	own, err := a.userConfig()
	if err != nil {
		return err
	}
	if s, err := a.settingsFor(dir); err == nil {
		own = s.Config
	}
	r.bound(limitsOf(own.Limits))
	return nil
}
