//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where the kernel puts what a filter looks at.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16 // eight bytes each, the low half first
)

const (
	retAllow = unix.SECCOMP_RET_ALLOW
	retKill  = unix.SECCOMP_RET_KILL_PROCESS
	retDeny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// retAbsent makes a C library fall back to the older call, whose flags a filter
	// can see.
	retAbsent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// socketTypeMask leaves the flags of a socket's type out.
const socketTypeMask = 0xf

// deniedCalls are refused whatever their arguments: they reach into other
// processes, the kernel, or around the file walls.
func deniedCalls() []uint32 {
	return append([]uint32{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
		unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
		unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_NFSSERVCTL,
	}, archDenied[:]...)
}

// program is a filter under construction.
type program []unix.SockFilter

func (p *program) load(offset uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

func (p *program) ret(action uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action})
}

// when returns an action if the loaded word compares as asked.
func (p *program) when(comparison uint16, k, action uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, K: k, Jt: 0, Jf: 1})
	p.ret(action)
}

// call runs what follows only for one system call; body must end in ret.
func (p *program) call(number uint32, body func(*program)) {
	var inner program
	body(&inner)
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: uint8(len(inner))})
	*p = append(*p, inner...)
}

// filter is the list of system calls a command may make. Unix sockets are for
// levels on which every socket file a command can name is its own.
func filter(network, unixSockets bool) program {
	var p program
	p.load(offsetArch)
	p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: archAudit, Jt: 1})
	p.ret(retKill)
	p.load(offsetNumber)
	if archForeignBit != 0 {
		p.when(unix.BPF_JGE, archForeignBit, retKill)
	}
	p.call(unix.SYS_SOCKET, func(p *program) {
		p.load(offsetArgs)
		if unixSockets {
			p.when(unix.BPF_JEQ, unix.AF_UNIX, retAllow)
		}
		if network {
			p.when(unix.BPF_JEQ, unix.AF_INET, retAllow)
			p.when(unix.BPF_JEQ, unix.AF_INET6, retAllow)
		}
		p.ret(retDeny)
	})
	if !unixSockets {
		// A datagram socket of a pair can be sent elsewhere by name; a stream cannot.
		p.call(unix.SYS_SOCKETPAIR, func(p *program) {
			p.load(offsetArgs + 8)
			*p = append(*p, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: socketTypeMask})
			p.when(unix.BPF_JEQ, unix.SOCK_STREAM, retAllow)
			p.when(unix.BPF_JEQ, unix.SOCK_SEQPACKET, retAllow)
			p.ret(retDeny)
		})
	}
	p.call(unix.SYS_CLONE, func(p *program) {
		p.load(offsetArgs)
		p.when(unix.BPF_JSET, newNamespaces, retDeny)
		p.ret(retAllow)
	})
	p.when(unix.BPF_JEQ, unix.SYS_CLONE3, retAbsent)
	// Limits are one's own affair: those of others could be made deadly to them.
	p.call(unix.SYS_PRLIMIT64, func(p *program) {
		p.load(offsetArgs)
		p.when(unix.BPF_JEQ, 0, retAllow)
		p.ret(retDeny)
	})
	p.call(unix.SYS_IOCTL, func(p *program) {
		p.load(offsetArgs + 8)
		p.when(unix.BPF_JEQ, unix.TIOCSTI, retDeny)
		p.when(unix.BPF_JEQ, unix.TIOCLINUX, retDeny)
		p.ret(retAllow)
	})
	for _, number := range deniedCalls() {
		p.when(unix.BPF_JEQ, number, retDeny)
	}
	p.ret(retAllow)
	return p
}

// bytes is the filter as the kernel has it in memory.
func (p program) bytes() []byte {
	var all []byte
	for _, f := range p {
		all = binary.NativeEndian.AppendUint16(all, f.Code)
		all = append(all, f.Jt, f.Jf)
		all = binary.NativeEndian.AppendUint32(all, f.K)
	}
	return all
}

// install puts the filter on this thread and on what it starts or becomes. The
// caller has given up new privileges.
func (p program) install() error {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("installing the system call filter: %w", errno)
	}
	return nil
}
