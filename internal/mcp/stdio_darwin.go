package mcp

import "golang.org/x/sys/unix"

// awaitDeath returns when a child is dead and leaves it unreaped, so that its
// number stays its own until its group has been ended.
func awaitDeath(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	exit := unix.Kevent_t{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD, Fflags: unix.NOTE_EXIT}
	for {
		// A child that is dead already cannot be watched, which ends the wait too.
		if _, err := unix.Kevent(queue, []unix.Kevent_t{exit}, make([]unix.Kevent_t, 1), nil); err != unix.EINTR {
			return
		}
	}
}
