// Package hooks runs the external programs that watch over tool calls: guards
// that may hold a call back, transforms that may change its arguments, and
// observers that are told how it ended.
package hooks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	defaultTimeout = 10 * time.Second
	// MaxTimeout is the longest a hook may take: a call waits for it.
	MaxTimeout = 5 * time.Minute

	maxHooks = 100
	maxArgv  = 100
	maxTools = 100
	// maxRunning is how many hook processes of one set run at the same time.
	maxRunning = 8
)

// Kind says what a hook is for.
type Kind string

// Kinds.
const (
	Guard     Kind = "guard"     // answers allow, ask or deny
	Transform Kind = "transform" // may return other arguments
	Observer  Kind = "observer"  // is told of results
)

// Hook is one external program.
type Hook struct {
	Name    string
	Kind    Kind
	Argv    []string      // the program, by its absolute path or its name on the PATH, and its words
	Tools   []string      // names or globs of the tools it is for; none: all
	Timeout time.Duration // 0: ten seconds
}

// Command is how a hook's program is started.
type Command struct {
	Argv []string
	Dir  string
	Env  []string
	// Files are open for the program from number 3 on. They are closed when it has
	// ended.
	Files []*os.File
	// Release clears up when the program has ended, or was not started; it may be nil.
	Release func()
}

func (c Command) release() {
	for _, f := range c.Files {
		f.Close()
	}
	if c.Release != nil {
		c.Release()
	}
}

// Wrap puts a hook's program behind walls, for calls about a workspace, or says
// why that cannot be done: then it is not started, which for a guard is a refusal.
type Wrap func(h Hook, workspace string, c Command) (Command, error)

// Set is the hooks of one conversation. It may be used by many at once.
type Set struct {
	hooks   []Hook
	dir     string
	env     []string
	wrap    Wrap
	running chan struct{}
}

// New checks hooks and finds their programs. Dir is the workspace, which hooks
// are told of; they do not run in it, so that nothing in it is taken for theirs.
// Without a wrap they run as they are.
func New(dir string, list []Hook, wrap Wrap) (*Set, error) {
	if len(list) > maxHooks {
		return nil, fmt.Errorf("there are %d hooks; at most %d are allowed", len(list), maxHooks)
	}
	s := &Set{dir: dir, env: slices.Clip(cleanEnv()), wrap: wrap, running: make(chan struct{}, maxRunning)}
	for i, h := range list {
		checked, err := check(h)
		if err != nil {
			return nil, fmt.Errorf("hook %d (%q): %w", i+1, shorten(h.Name), err)
		}
		if slices.ContainsFunc(s.hooks, func(other Hook) bool { return other.Name == h.Name }) {
			return nil, fmt.Errorf("hook %d (%q): another hook has the same name; give each its own", i+1, h.Name)
		}
		s.hooks = append(s.hooks, checked)
	}
	return s, nil
}

var hookName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`) })

// check returns the hook as it will run: with the whole path of its program.
func check(h Hook) (Hook, error) {
	switch {
	case !hookName().MatchString(h.Name):
		return h, errors.New("the name is none; write small letters, digits, dots and dashes")
	case h.Kind != Guard && h.Kind != Transform && h.Kind != Observer:
		return h, fmt.Errorf("the kind %q is unknown; write %s, %s or %s", shorten(string(h.Kind)), Guard, Transform, Observer)
	case h.Timeout < 0 || h.Timeout > MaxTimeout:
		return h, fmt.Errorf("the timeout %v is out of range; write at most %v", h.Timeout, MaxTimeout)
	case len(h.Argv) == 0 || len(h.Argv) > maxArgv || h.Argv[0] == "":
		return h, fmt.Errorf("there is no program to run; write argv with 1 to %d words", maxArgv)
	case len(h.Tools) > maxTools:
		return h, fmt.Errorf("it names %d tools; write at most %d, or a glob", len(h.Tools), maxTools)
	}
	for _, pattern := range h.Tools {
		if !doublestar.ValidatePattern(pattern) {
			return h, fmt.Errorf("the tool %q is no glob; check its brackets and braces", shorten(pattern))
		}
	}
	if h.Timeout == 0 {
		h.Timeout = defaultTimeout
	}
	// A relative path would mean another program in another directory.
	if strings.ContainsRune(h.Argv[0], filepath.Separator) && !filepath.IsAbs(h.Argv[0]) {
		return h, fmt.Errorf("the program %q is a relative path; write the whole path", shorten(h.Argv[0]))
	}
	path, err := exec.LookPath(h.Argv[0])
	if err != nil {
		return h, fmt.Errorf("finding its program: %w", err)
	}
	h.Argv = append([]string{path}, h.Argv[1:]...)
	h.Tools = slices.Clone(h.Tools)
	return h, nil
}

// of lists the hooks of a kind that are for a tool, in their order.
func (s *Set) of(kind Kind, tool string) []Hook {
	var list []Hook
	for _, h := range s.hooks {
		if h.Kind == kind && h.wants(tool) {
			list = append(list, h)
		}
	}
	return list
}

func (h Hook) wants(tool string) bool {
	return len(h.Tools) == 0 || slices.ContainsFunc(h.Tools, func(pattern string) bool {
		return doublestar.MatchUnvalidated(pattern, tool)
	})
}

const maxQuoted = 300

// shorten keeps what others wrote small, valid and on one line.
func shorten(text string) string {
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "…"
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
