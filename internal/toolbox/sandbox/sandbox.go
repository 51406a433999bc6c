// Package sandbox starts commands behind walls: it turns a profile, computed from
// a session's configuration and never from a call, into the command line that
// builds the walls and then becomes the command.
//
// A level that cannot be built is refused; nothing here runs a command behind
// fewer walls than were asked for.
package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Verb is the hidden sub-command of our program that builds walls around itself,
// and that tries them from inside. The program hands everything behind it to Main before it does
// anything else.
const Verb = "__sandbox"

// Level is how strong the walls are.
type Level string

const (
	// Off runs a command bare, as the user who started us.
	Off Level = "off"
	// Landlock confines files, signals, the network and the system calls. It cannot
	// keep a path inside the workspace read-only.
	Landlock Level = "landlock"
	// Bwrap gives a command namespaces of its own by bubblewrap, and confines the
	// system calls.
	Bwrap Level = "bwrap"
)

// Levels are all levels, the weakest first.
func Levels() []Level { return []Level{Off, Landlock, Bwrap} }

// ParseLevel reads a level as a person writes it.
func ParseLevel(s string) (Level, error) {
	if l := Level(s); slices.Contains(Levels(), l) {
		return l, nil
	}
	return "", fmt.Errorf("no sandbox level is called %q: choose off, landlock or bwrap", s)
}

const (
	// maxPaths bounds each list of paths of a profile.
	maxPaths = 256
	// maxProfileBytes bounds a profile on a command line; the kernel allows one
	// argument twice as much.
	maxProfileBytes = 64 << 10
)

// Profile says what a command may reach. The zero value of a field is the
// narrowest choice, except that an empty Level is no level at all.
type Profile struct {
	Level     Level  `json:"level"`
	Workspace string `json:"workspace"`           // may be read and written
	ReadOnly  bool   `json:"read_only,omitempty"` // the workspace may only be read

	// Protected are paths relative to the workspace that stay as they are, whether
	// they exist or not: what is run later, outside, by us or by other programs.
	Protected []string `json:"protected,omitempty"`
	// AcceptUnprotected lets a level that cannot keep Protected read-only run
	// nevertheless. Only a person may say so.
	AcceptUnprotected bool `json:"accept_unprotected,omitempty"`
	// AsFound protects only what exists. It is for programs that run long: what
	// stands in for a missing file would lie in the workspace all the time.
	AsFound bool `json:"as_found,omitempty"`

	Writable []string `json:"writable,omitempty"` // further paths, absolute
	Readable []string `json:"readable,omitempty"` // further paths, absolute
	TempDir  string   `json:"temp_dir,omitempty"` // private, kept between commands; empty: none, or a fresh one
	Network  bool     `json:"network,omitempty"`  // the network of this machine, all of it
	Env      []string `json:"-"`                  // the whole environment of the command
	Limits   Limits   `json:"limits"`
}

// DefaultProtected are the paths that make other programs, or us, run something
// outside later.
func DefaultProtected() []string {
	return []string{
		".git", ".stave", ".claude", ".codex", ".cursor", ".gemini", ".vscode", ".idea", ".mcp.json", ".envrc",
	}
}

// Launch is how to start a command so that it ends up behind its walls.
type Launch struct {
	Argv []string
	Env  []string
	Dir  string
	// Files must be open for Argv, from number 3 on.
	Files []File
	// Hold are files that must stay under a shared lock (flock) while the command
	// lives, also if we do not.
	Hold []string
	// Wrapped says that Argv only stands around the command, which has a session of
	// its own: a request to end is for the command alone, and a kill is for Argv.
	Wrapped bool
	// Walls and Inner are the same in another way, for a program that starts many
	// commands: a thread that has called Confine with Walls may start Inner in the
	// place of Argv, as is said there. There is no such way when Walls is empty.
	Walls []byte
	Inner []string
	// Limits are to be set on the process that becomes Argv or Inner before it
	// begins. Who cannot do that starts what Limited returns.
	Limits []Rlimit
	// Release clears up. It is to be called once the command has ended, or will not
	// be started.
	Release func()
}

// File is one that a command line finds open: that of the system at Path, or one
// that holds Data.
type File struct {
	Path string
	Data []byte
}

// ErrUnavailable matches every refusal of a level that cannot be built.
var ErrUnavailable = errors.New("the sandbox is not available")

// UnavailableError says which level cannot be built, why, and what to do.
type UnavailableError struct {
	Level   Level
	Missing string
	Remedy  string
}

// Error implements error.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the %s sandbox cannot be built: %s; %s", e.Level, e.Missing, e.Remedy)
}

// Is makes the error match ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Need is one thing a level is built of.
type Need struct {
	Name string // "user namespaces", "bubblewrap", …
	OK   bool
	Says string // a version, or why it is missing
}

// Finding is what this machine can do for one level.
type Finding struct {
	Level  Level
	Needs  []Need
	Holes  []string // forbidden acts that the self-test could do nevertheless
	OK     bool
	Remedy string // what to do when it is not OK
}

// Report is what this machine can do for every level, the weakest first.
type Report []Finding

// Of is the finding for one level.
func (r Report) Of(l Level) Finding {
	for _, f := range r {
		if f.Level == l {
			return f
		}
	}
	return Finding{Level: l, Remedy: "choose off, landlock or bwrap"}
}

// Best is the strongest level that can be built.
func (r Report) Best() Level {
	for _, f := range slices.Backward(r) {
		if f.OK {
			return f.Level
		}
	}
	return Off
}

// Best is the strongest level that this machine can build.
func Best() Level { return Detect().Best() }

// Err says why a level cannot be built, or nil.
func (f Finding) Err() error {
	if f.OK {
		return nil
	}
	var missing []string
	for _, n := range f.Needs {
		if !n.OK {
			missing = append(missing, n.Name+": "+n.Says)
		}
	}
	for _, hole := range f.Holes {
		missing = append(missing, "its self-test could "+hole)
	}
	if len(missing) == 0 {
		missing = []string{"it is not known here"}
	}
	return &UnavailableError{Level: f.Level, Missing: strings.Join(missing, "; "), Remedy: f.Remedy}
}

// check refuses a profile that no wall could be built from.
func (p Profile) check() error {
	if _, err := ParseLevel(string(p.Level)); err != nil {
		return err
	}
	if p.Level == Off {
		return nil // there are no walls to be told about
	}
	if max(len(p.Protected), len(p.Writable), len(p.Readable)) > maxPaths {
		return fmt.Errorf("the sandbox profile lists more than %d paths", maxPaths)
	}
	absolute := slices.Concat([]string{p.Workspace}, p.Writable, p.Readable)
	if p.TempDir != "" {
		absolute = append(absolute, p.TempDir)
	}
	for _, path := range absolute {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
			return fmt.Errorf("%q in the sandbox profile is not a clean absolute path", path)
		}
	}
	if err := p.checkPlaces(); err != nil {
		return err
	}
	for _, path := range p.Protected {
		if !filepath.IsLocal(path) || filepath.Clean(path) != path || path == "." || strings.ContainsRune(path, 0) {
			return fmt.Errorf("protected path %q must be clean and lie inside the workspace", path)
		}
	}
	return p.checkEnv()
}

// checkPlaces refuses a place that would take the walls' own foundation away.
func (p Profile) checkPlaces() error {
	writable := slices.Clone(p.Writable)
	if p.TempDir != "" {
		writable = append(writable, p.TempDir)
	}
	if p.ReadOnly {
		for _, system := range []string{"/proc", "/sys", "/dev", "/run"} {
			if within(system, p.Workspace) || within(p.Workspace, system) {
				return fmt.Errorf("%s cannot be shown in a sandbox: it holds %s; choose a directory below it", p.Workspace, system)
			}
		}
	} else {
		writable = append(writable, p.Workspace)
	}
	for _, path := range writable {
		if system := swallowed(path); system != "" {
			return fmt.Errorf("%s cannot be writable in a sandbox: it holds %s; choose a directory below it", path, system)
		}
	}
	return nil
}

// checkEnv refuses variables that would make the programs around the command,
// which stand outside the walls, load code of the workspace.
func (p Profile) checkEnv() error {
	for _, v := range p.Env {
		if strings.HasPrefix(v, "LD_") || strings.HasPrefix(v, "GLIBC_TUNABLES=") || strings.HasPrefix(v, "GCONV_PATH=") {
			name, _, _ := strings.Cut(v, "=")
			return fmt.Errorf("%s cannot be set for a sandboxed command from outside; set it inside the command", name)
		}
	}
	return nil
}

// swallowed names the part of the system that a path is or contains.
func swallowed(path string) string {
	for _, system := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev", "/run", "/boot"} {
		if within(system, path) || within(path, system) {
			return system
		}
	}
	return ""
}

// within reports whether a path is a directory or lies below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
