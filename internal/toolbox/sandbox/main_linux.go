//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of a helper that did not become the command, as env(1) and
// timeout(1) use them.
const (
	exitBroken   = 125
	exitNoExec   = 126
	exitNotFound = 127
)

// firstPassed is the number of the first file behind the standard three.
const firstPassed = 3

// Main is the hidden sub-command: it builds the walls around itself and becomes
// the command. It returns only when that is impossible.
func Main(args []string) int {
	runtime.LockOSThread() // walls belong to threads, and this one becomes the command
	if len(args) == 2 && args[0] == stageProbe {
		return probe(args[1])
	}
	p, argv, err := parse(args)
	if err == nil {
		err = confine(p)
	}
	if err == nil {
		// Nothing we opened, or were left by whoever started us, goes along.
		err = unix.CloseRange(firstPassed, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	}
	if err != nil {
		return complain(exitBroken, err)
	}
	err = syscall.Exec(argv[0], argv, os.Environ())
	code := exitNoExec
	if errors.Is(err, os.ErrNotExist) {
		code = exitNotFound
	}
	return complain(code, fmt.Errorf("starting %s: %w", argv[0], err))
}

func complain(code int, err error) int {
	fmt.Fprintln(os.Stderr, "stave sandbox:", err)
	return code
}

// parse takes a helper's arguments apart: stage, profile, --, command.
func parse(args []string) (p Profile, argv []string, err error) {
	if len(args) < 4 || args[0] != stageInner || args[2] != "--" {
		return Profile{}, nil, errors.New("this command is for Stave itself")
	}
	p, err = readProfile([]byte(args[1]))
	return p, args[3:], err
}
