// Command stave runs language-model agents as state machines over an append-only
// log; this package is the composition root and the command line.
package main

import (
	"os"
	"runtime/debug"

	"stave/internal/toolbox/sandbox"
	"stave/internal/toolbox/supervisor"
)

// gcPercent spends a little of the memory we have on not collecting a heap of a
// few megabytes over and over.
const gcPercent = 400

func main() {
	// What runs around a command is this program too, and comes first.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case sandbox.Verb:
			os.Exit(sandbox.Main(os.Args[2:]))
		case supervisor.Verb:
			os.Exit(supervisor.MainWith(os.Args[2:], sandbox.Confine, sandbox.Bound))
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	a := newApp()
	os.Exit(a.run(os.Args[1:]))
}
