package toolbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// isPseudo reports whether an open file lies on proc, sysfs or their like. Such
// files show the secrets and switches of the machine, wherever they are mounted.
// The open file is asked, because a name can change its meaning at any time.
func isPseudo(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return true
	}
	var stat unix.Statfs_t
	failed := conn.Control(func(fd uintptr) {
		for err = unix.EINTR; err == unix.EINTR; { // a network file system may be interrupted
			err = unix.Fstatfs(int(fd), &stat)
		}
	})
	if failed != nil || err != nil {
		return true
	}
	switch stat.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
		unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.BPF_FS_MAGIC:
		return true
	}
	return false
}
