package sandbox

import "golang.org/x/sys/unix"

const (
	archAudit = unix.AUDIT_ARCH_X86_64
	// archForeignBit marks calls of the x32 interface, which number differently.
	archForeignBit = 0x40000000
)

// archDenied are calls that only this architecture has.
var archDenied = [...]uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_SYSFS}
