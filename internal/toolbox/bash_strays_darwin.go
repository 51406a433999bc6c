package toolbox

import "golang.org/x/sys/unix"

// signalStrays finds nothing: other processes' environments are not shown here,
// so only the group is ended.
func signalStrays(string, int, unix.Signal) int { return 0 }
