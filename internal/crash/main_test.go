package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Variables of the environment.
const (
	killsVar = "STAVE_KILLS" // how many kills a campaign wants
	seedVar  = "STAVE_SEED"  // repeats a campaign's choices
	binVar   = "STAVE_CRASH_BIN"
	childVar = "STAVE_CRASH_CHILD" // makes the test binary a child of TestKillAtEverySync
)

func TestMain(m *testing.M) {
	if order := os.Getenv(childVar); order != "" {
		if err := runChild(order); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(inScratch(m.Run))
}

// inScratch gives the tests a directory for the program and removes it.
func inScratch(run func() int) int {
	dir, err := os.MkdirTemp("", "stave-crash-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "making room for the program:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv(binVar, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

// built is the program, compiled once for all tests.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.Getenv(binVar), "stave")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "stave/cmd/stave").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return path, nil
})

func program(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// seedOf returns the seed of a campaign and prints how to repeat it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVar); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVar, err)
		}
	}
	t.Logf("%s=%d repeats these choices", seedVar, seed)
	return seed
}

// wanted returns how many kills the environment asks for, or else a default.
func wanted(t *testing.T, otherwise int) int {
	t.Helper()
	text := os.Getenv(killsVar)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s is not a number of kills", killsVar, text)
	}
	return n
}

// scratch is a directory that outlives a test which failed, for those who want to
// look.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", t.Name()+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what is left is in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
