// Package supervisor runs commands in a small process that outlives ours: when
// we are killed, the command goes on, its output and its end are kept, and the
// next of us takes both up without a gap.
//
// All that is known of a command lies in files, so that even the death of the
// supervisor leaves an honest answer: ended so, still running, or unknown.
package supervisor

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Verb is the hidden sub-command of our program that is the supervisor. The
// program hands everything behind it to Main before it does anything else.
const Verb = "__supervise"

const (
	// MaxKept is how much of a command's output is kept, from its beginning.
	MaxKept = 64 << 20
	// MaxTail is how much of the end is kept of an output longer than MaxKept.
	MaxTail = 64 << 10
	// DefaultLinger is how long a supervisor waits for somebody to ask for the
	// results it still has.
	DefaultLinger = time.Hour

	maxID       = 256
	maxArgs     = 4096
	maxFiles    = 512
	maxCommands = 256
	maxClients  = 512
)

var (
	// ErrStarted refuses a second start of what another supervisor started.
	ErrStarted = errors.New("the command was started before")
	// ErrUnknown is the answer about a command that nobody knows.
	ErrUnknown = errors.New("the command is not known")
	// ErrDetached ends a wait because the client was closed; the command goes on.
	ErrDetached = errors.New("detached from the command, which goes on")
	// ErrLost ends a wait because the supervisor died; Recover says what is known.
	ErrLost = errors.New("the supervisor is gone")
	// ErrUnsupported refuses systems that cannot do this.
	ErrUnsupported = errors.New("supervised commands need Linux")
)

// Spec is a command to start.
type Spec struct {
	ID       string   // names this attempt for ever: call and attempt
	Argv     []string // the first is an absolute path
	Dir      string
	Env      []string // all of it
	Deadline time.Time
	Session  bool // a session of its own, not only a group
	// Files are open for the program, from number 3 on.
	Files []File
	// Hold are files that stay under a shared lock while the command lives.
	Hold []string
	// Wrapped says that the program only stands around a command that leaves its
	// process group, and that a request to end is for the command alone.
	Wrapped bool
	// Walls are for the supervisor's Confiner: if it has one, Inner is started
	// behind them instead of Argv, which would build the same walls by itself.
	Walls []byte
	Inner []string
	// Collect lists ended commands to forget meanwhile, as Client.Collect would.
	Collect []string
}

// File is one that a program finds open: that of the system at Path, or a small
// one that holds Data.
type File struct {
	Path string
	Data []byte
}

// Confiner builds walls around the thread it is called on, for all that is
// started there from then on. The thread starts one command and is never used
// again.
type Confiner func(walls []byte) error

// Bounder sets limits on this process.
type Bounder func(limits string) error

// Ending is how a command came to its end.
type Ending struct {
	Code      int    `json:"code"` // as a shell reports it: 128 + n for signal n
	Signal    string `json:"signal,omitempty"`
	TimedOut  bool   `json:"timed_out,omitempty"`
	Cancelled bool   `json:"cancelled,omitempty"`
	Orphans   bool   `json:"orphans,omitempty"` // background processes held the output open

	OutputBytes int64  `json:"output_bytes"`         // all it wrote
	KeptBytes   int64  `json:"kept_bytes"`           // how much of that, from the beginning, is in Output
	Tail        []byte `json:"tail,omitempty"`       // the end of an output that was not kept whole
	KeepError   string `json:"keep_error,omitempty"` // why less was kept than could have been

	// Failure says why the command could not be started. Nothing else is set then.
	Failure string `json:"failure,omitempty"`
	Output  string `json:"-"` // path of the kept output; nothing is there if nothing was written
}

// State is what can be told about a command.
type State string

const (
	// Absent commands were never started, or have been collected.
	Absent State = "absent"
	// Running commands have a live process.
	Running State = "running"
	// Ended commands have an Ending.
	Ended State = "ended"
	// Lost commands ran; they are not running any more and nobody saw their end.
	Lost State = "lost"
	// Unclear commands were about to start when their supervisor died.
	Unclear State = "unclear"
)

// Known is what is known about a command.
type Known struct {
	ID    string
	State State
	Began time.Time
	PID   int // of a running command whose supervisor got to note it

	Supervised  bool   // its supervisor is alive and can be attached to
	Output      string // path of what was kept
	OutputBytes int64  // size of that
	Ending      Ending // for Ended
}

// Options are what a client may choose.
type Options struct {
	Linger time.Duration // zero is DefaultLinger
	// Limits are for the supervisor's Bounder: what it holds for itself, all it
	// starts inherits.
	Limits string
}

// check refuses what could not be started or found again.
func (s Spec) check() error {
	if err := checkID(s.ID); err != nil {
		return err
	}
	if len(s.Argv) == 0 || len(s.Argv) > maxArgs || !filepath.IsAbs(s.Argv[0]) {
		return fmt.Errorf("command %s needs the absolute path of its program and at most %d arguments", s.ID, maxArgs)
	}
	if !filepath.IsAbs(s.Dir) {
		return fmt.Errorf("command %s needs an absolute directory, not %q", s.ID, s.Dir)
	}
	if len(s.Env) > maxArgs {
		return fmt.Errorf("command %s has more than %d variables", s.ID, maxArgs)
	}
	if len(s.Walls) > 0 && (len(s.Inner) == 0 || len(s.Inner) > maxArgs || !filepath.IsAbs(s.Inner[0])) {
		return fmt.Errorf("command %s needs the absolute path of the program behind its walls", s.ID)
	}
	if max(len(s.Files), len(s.Hold)) > maxFiles {
		return fmt.Errorf("command %s has more than %d files", s.ID, maxFiles)
	}
	for _, list := range [][]string{s.Argv, s.Inner, s.Env, {s.Dir}} {
		for _, v := range list {
			if strings.ContainsRune(v, 0) {
				return fmt.Errorf("command %s contains a NUL character", s.ID)
			}
		}
	}
	if s.Deadline.IsZero() {
		return fmt.Errorf("command %s has no deadline", s.ID)
	}
	return nil
}

func checkID(id string) error {
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' }) {
		return fmt.Errorf("%.40q is no id of a command: 1 to %d bytes without control characters", id, maxID)
	}
	return nil
}
