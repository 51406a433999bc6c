package main

import "golang.org/x/sys/unix"

// flushTerminal throws away what was typed but not read.
func flushTerminal(fd int) {
	const read = 1 // FREAD
	_ = unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, read)
}
