package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// workspace is the directory a conversation works in, with what its effects
// leave behind.
type workspace struct {
	dir   string
	alive int // read end of the pipe that running effects hold open
}

func makeWorkspace(dir string) (*workspace, error) {
	effect, err := os.ReadFile("testdata/effect")
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "effect"), effect, 0o600),
		os.WriteFile(filepath.Join(dir, "seed.txt"), []byte("the seed of it\n"), 0o600),
		syscall.Mkfifo(filepath.Join(dir, "alive"), 0o600),
	)
	if err != nil {
		return nil, fmt.Errorf("making a workspace: %w", err)
	}
	pipe, err := syscall.Open(filepath.Join(dir, "alive"), syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the pipe of the effects: %w", err)
	}
	return &workspace{dir, pipe}, nil
}

func (w *workspace) close() { _ = syscall.Close(w.alive) }

// awaitEffects returns once no process of an effect lives any more. A command
// outlives a killed program by a moment; one that stays is an error.
func (w *workspace) awaitEffects() error {
	const patience, poll = 10 * time.Second, 2 * time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(poll) {
		// A pipe without writers is at its end; one that is held open has nothing to say yet.
		n, err := syscall.Read(w.alive, make([]byte, 1))
		if n == 0 && err == nil {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("looking for effects that live: %w", err)
		}
	}
	return fmt.Errorf("a process of an effect still lives after %v", patience)
}

// ledger counts how often each effect happened.
func (w *workspace) ledger() (map[string]int, error) {
	text, err := w.text("ledger")
	times := map[string]int{}
	for id := range strings.Lines(text) {
		times[strings.TrimSpace(id)]++
	}
	return times, err
}

// text returns the content of a file, empty if there is none.
func (w *workspace) text(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(w.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return string(data), err
}

// list returns the names in a directory, none if it does not exist.
func (w *workspace) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(w.dir, dir))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}
