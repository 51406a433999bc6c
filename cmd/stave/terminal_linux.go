package main

import "golang.org/x/sys/unix"

// flushTerminal throws away what was typed but not read.
func flushTerminal(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
