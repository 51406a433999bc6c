// Command stave runs language-model agents as state machines over an append-only
// log; this package is the composition root and the command line.
package main

import (
	"os"
	"runtime/debug"
)

// gcPercent spends a little of the memory we have on not collecting a heap of a
// few megabytes over and over.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	a := newApp()
	os.Exit(a.run(os.Args[1:]))
}
