package mcp

import "golang.org/x/sys/unix"

// awaitDeath returns when a child is dead and leaves it unreaped, so that its
// number stays its own until its group has been ended.
func awaitDeath(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}
