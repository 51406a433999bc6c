package sandbox

import "golang.org/x/sys/unix"

const (
	archAudit      = unix.AUDIT_ARCH_AARCH64
	archForeignBit = 0
)

// archDenied are calls that only this architecture has.
var archDenied = [...]uint32{}
