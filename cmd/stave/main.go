// Command stave runs language-model agents as state machines over an append-only
// log; this package is the composition root and the command line.
package main

import "os"

func main() {
	a := newApp()
	os.Exit(a.run(os.Args[1:]))
}
