package toolbox

import "golang.org/x/sys/unix"

// awaitDeath returns when a child is dead and leaves it unreaped, so that its
// number cannot be given to a stranger before we have ended its group.
func awaitDeath(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}
