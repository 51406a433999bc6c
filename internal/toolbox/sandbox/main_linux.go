//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
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
// the command. It returns only when that is impossible, or when it has to clear
// up behind a command.
func Main(args []string) int {
	runtime.LockOSThread() // walls belong to threads, and this one becomes the command
	if len(args) == 2 && args[0] == stageProbe {
		return probe(args[1])
	}
	stage, p, dir, argv, err := parse(args)
	if err != nil {
		return complain(exitBroken, err)
	}
	if stage == stageOuter {
		return enterNamespaces(p, dir, argv)
	}
	if err := confine(p); err != nil {
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

// parse takes a helper's arguments apart: stage, profile, directory, --, command.
func parse(args []string) (stage string, p Profile, dir string, argv []string, err error) {
	if len(args) < 5 || args[0] != stageOuter && args[0] != stageInner || args[3] != "--" {
		return "", Profile{}, "", nil, errors.New("this command is for Stave itself")
	}
	if err := json.Unmarshal([]byte(args[1]), &p); err != nil {
		return "", Profile{}, "", nil, fmt.Errorf("reading the profile: %w", err)
	}
	if err := p.check(); err != nil {
		return "", Profile{}, "", nil, err
	}
	if want := map[Level]bool{Bwrap: true, Landlock: args[0] == stageInner}; !want[p.Level] {
		return "", Profile{}, "", nil, fmt.Errorf("stage %s does not belong to level %s", args[0], p.Level)
	}
	return args[0], p, args[2], args[4:], nil
}

// enterNamespaces becomes bubblewrap, or runs it when stand-ins must be cleared
// away behind it.
func enterNamespaces(p Profile, dir string, argv []string) int {
	// A request to end is the command's to answer. Bubblewrap inherits our
	// deafness; the inner stage does not, because Go catches the signal there and
	// what is caught is reset for the command.
	signal.Ignore(syscall.SIGTERM)
	bwrap, err := findBwrap()
	if err != nil {
		return complain(exitBroken, errors.New("bubblewrap is gone; install it again"))
	}
	self, err := selfPath()
	if err != nil {
		return complain(exitBroken, err)
	}
	profile, err := json.Marshal(p)
	if err != nil {
		return complain(exitBroken, err)
	}
	g, err := protect(p)
	if err != nil {
		return complain(exitBroken, err)
	}
	defer g.release()
	var etc system
	etc.copied, etc.mounted = sortSystemFiles(p.Network)
	becomes := len(g.standIns) == 0
	for i, f := range etc.copied {
		number := firstPassed + i
		if becomes {
			number = int(f.Fd())
		}
		etc.numbers = append(etc.numbers, number)
	}
	line := slices.Concat([]string{bwrap}, bwrapArgs(p, g, etc, self, dir),
		[]string{helperPath, Verb, stageInner, string(profile), dir, "--"}, argv)
	if becomes {
		return complain(exitBroken, fmt.Errorf("starting bubblewrap: %w", become(bwrap, line, etc.numbers)))
	}
	return attend(bwrap, line, etc.copied)
}

// become turns this process into bubblewrap with the numbered files open.
func become(bwrap string, line []string, pass []int) error {
	if err := unix.CloseRange(firstPassed, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	for _, fd := range pass {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	return syscall.Exec(bwrap, line, os.Environ())
}

// attend runs bubblewrap as a child and ends the way it ended. The thread that
// starts it must live on: bubblewrap dies with it.
func attend(bwrap string, line []string, pass []*os.File) int {
	child, err := os.StartProcess(bwrap, line, &os.ProcAttr{
		Env: os.Environ(), Files: append([]*os.File{os.Stdin, os.Stdout, os.Stderr}, pass...),
	})
	if err != nil {
		return complain(exitBroken, fmt.Errorf("starting bubblewrap: %w", err))
	}
	state, err := child.Wait()
	if err != nil {
		return complain(exitBroken, fmt.Errorf("waiting for bubblewrap: %w", err))
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
