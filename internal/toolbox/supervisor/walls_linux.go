package supervisor

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// threadPatience is how long a thread may take to end.
	threadPatience = 10 * time.Second
	// threadPoll is how often we look whether it has.
	threadPoll = 20 * time.Microsecond
)

// gate is a pipe on which a command behind walls waits before it begins.
type gate struct{ r, w *os.File }

func newGate() (gate, error) {
	r, w, err := os.Pipe()
	return gate{r, w}, err
}

// before makes the shell wait at the gate, which it finds open under a number,
// and then become the command. If nobody opens the gate it ends.
func (gate) before(argv []string, number int) []string {
	n := strconv.Itoa(number)
	return append([]string{"/bin/sh", "-c", `read -r STAVE_GATE <&` + n + ` && exec "$@" ` + n + `<&-`, "sh"}, argv...)
}

func (g gate) open() error {
	_, err := g.w.WriteString("\n")
	return err
}

func (g gate) close() { closeAll([]*os.File{g.r, g.w}) }

// behindWalls runs a start on a fresh thread that builds walls around itself
// first, which what it starts inherits. It returns when the thread is gone: a
// thread behind the same walls is one that the command could send a signal to,
// and a deadly one would kill all of us.
func (f *family) behindWalls(walls []byte, start func() error) error {
	var thread int
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked, so the thread ends with this function
		thread = unix.Gettid()
		err := f.confine(walls)
		if err == nil {
			err = start()
		}
		result <- err
	}()
	if err := <-result; err != nil {
		return err
	}
	for patience := time.Now().Add(threadPatience); unix.Tgkill(os.Getpid(), thread, 0) != unix.ESRCH; time.Sleep(threadPoll) {
		if time.Now().After(patience) {
			return fmt.Errorf("%w: thread %d is still there", errThread, thread)
		}
	}
	return nil
}

// errThread is for a command that was started and must not begin.
var errThread = errors.New("the walls could not be left")
