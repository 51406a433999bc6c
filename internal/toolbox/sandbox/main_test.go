package sandbox

import (
	"os"
	"testing"
)

// TestMain lets the test program play the part of ours.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Verb {
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}
