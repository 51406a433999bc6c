//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The stages of Main.
const (
	stageInner = "inner" // confines itself and becomes the command
	stageProbe = "probe" // the self-test in the command's place
)

// Command says how to start argv in dir behind the walls of a profile, on this
// machine as Detect finds it.
//
// A request to end is left to the command: what stands around it waits for it,
// and all die when the first one is killed.
func Command(p Profile, argv []string, dir string) (Launch, error) {
	return checked(Detect, p, argv, dir)
}

// Command is Command for who has the report already.
func (r Report) Command(p Profile, argv []string, dir string) (Launch, error) {
	return checked(func() Report { return r }, p, argv, dir)
}

func checked(report func() Report, p Profile, argv []string, dir string) (Launch, error) {
	if err := p.check(); err != nil {
		return Launch{}, err
	}
	if p.Level != Off {
		if err := report().Of(p.Level).Err(); err != nil {
			return Launch{}, err
		}
	}
	return command(p, argv, dir)
}

// command is Command for a checked profile whose level can be built.
func command(p Profile, argv []string, dir string) (Launch, error) {
	if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
		return Launch{}, errors.New("a sandboxed command needs the absolute path of its program")
	}
	limits, err := p.Limits.resolve()
	if err != nil {
		return Launch{}, err
	}
	if p.Level == Off {
		return Launch{Argv: argv, Env: slices.Clone(p.Env), Dir: dir, Limits: limits, Release: func() {}}, nil
	}
	if err := p.usable(dir); err != nil {
		return Launch{}, err
	}
	build := landlockCommand
	if p.Level == Bwrap {
		build = bwrapCommand
	}
	l, err := build(p, argv, dir)
	l.Limits = limits
	return l, err
}

// landlockCommand carries the profile on the command line; the environment is the
// command's own.
func landlockCommand(p Profile, argv []string, dir string) (Launch, error) {
	self, err := selfPath()
	if err != nil {
		return Launch{}, err
	}
	profile, err := json.Marshal(p)
	if err != nil {
		return Launch{}, fmt.Errorf("encoding the sandbox profile: %w", err)
	}
	if len(profile) > maxProfileBytes {
		return Launch{}, fmt.Errorf("the sandbox profile has %d bytes; %d are allowed", len(profile), maxProfileBytes)
	}
	return Launch{
		Argv: append([]string{self, Verb, stageInner, string(profile), "--"}, argv...), Env: p.envWith(p.TempDir), Dir: dir,
		Walls: profile, Inner: argv, Release: func() {},
	}, nil
}

// envWith is the environment with the place for temporary files.
func (p Profile) envWith(temp string) []string {
	env := slices.DeleteFunc(slices.Clone(p.Env), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") })
	if temp != "" {
		env = append(env, "TMPDIR="+temp)
	}
	return env
}

// selfPath is our own program, which must still be where it was started from.
func selfPath() (string, error) {
	self, err := os.Executable()
	if err == nil {
		_, err = os.Stat(self)
	}
	if err != nil {
		return "", fmt.Errorf("finding our own program for the sandbox: %w; start Stave again if it was replaced", err)
	}
	return self, nil
}

// usable refuses what the walls would make useless or could not hold.
func (p Profile) usable(dir string) error {
	places := slices.Concat([]string{p.Workspace}, p.Writable, p.Readable)
	if dir != "/" && !slices.ContainsFunc(places, func(place string) bool { return within(dir, place) }) {
		return fmt.Errorf("a sandboxed command must start in the workspace %s, not in %s", p.Workspace, dir)
	}
	if p.Level == Landlock && len(p.Protected) > 0 && !p.AcceptUnprotected && !p.ReadOnly {
		return &UnavailableError{
			Level: Landlock, Missing: "it cannot keep " + strings.Join(p.Protected, ", ") + " in the workspace read-only",
			Remedy: "use --sandbox bwrap, or accept that a command may change them",
		}
	}
	real, err := filepath.EvalSymlinks(p.Workspace)
	if err != nil {
		return fmt.Errorf("looking at the workspace: %w", err)
	}
	if real != p.Workspace {
		return fmt.Errorf("the sandbox needs the real path of the workspace: %s, not %s", real, p.Workspace)
	}
	return p.owned()
}

// owned refuses directories that a command could not write to once it has no
// powers over the files of others.
func (p Profile) owned() error {
	for _, path := range p.Writable {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("looking at what may be written: %w; make it, or take it off the list", err)
		}
	}
	paths := []string{p.Workspace}
	if p.TempDir != "" {
		paths = append(paths, p.TempDir)
	}
	for _, path := range paths {
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil {
			return fmt.Errorf("looking at %s: %w", path, err)
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
			return fmt.Errorf("%s is not a directory", path)
		}
		if path == p.TempDir && stat.Mode&0o077 != 0 {
			return fmt.Errorf("others may enter the directory for temporary files %s; make one of mode 0700 for the session", path)
		}
		if uid := os.Geteuid(); uid == 0 && stat.Uid != 0 && (path == p.TempDir || !p.ReadOnly) {
			return &UnavailableError{
				Level:   p.Level,
				Missing: fmt.Sprintf("%s belongs to user %d and a sandboxed root may not write there", path, stat.Uid),
				Remedy:  fmt.Sprintf("start Stave as user %d, or give the directory to root", stat.Uid),
			}
		}
	}
	return nil
}
