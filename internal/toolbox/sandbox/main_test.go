package sandbox

import (
	"os"
	"runtime"
	"testing"
)

// TestMain lets the test program play the part of ours.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Verb {
		os.Exit(Main(os.Args[2:]))
	}
	runtime.LockOSThread() // a test confines threads, which the first must not be among
	os.Exit(m.Run())
}
