//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// lastCapability is the highest number a capability may have; the kernel refuses
// those it does not know.
const lastCapability = 63

// confine puts every wall that a process builds around itself on this thread,
// which must be locked and about to become the command.
func confine(p Profile) error {
	if err := limit(p.Limits); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	abi, err := landlockABI()
	inNamespaces := p.Level == Bwrap
	switch {
	case inNamespaces && (err != nil || abi < minLandlock):
		// The namespaces hold alone; this would have been the second wall.
	case inNamespaces:
		err = restrict(append([]string{p.Workspace, "/tmp", "/dev"}, p.Writable...), []string{"/"}, p.Network)
	default:
		err = restrict(p.landlockWritable(), p.landlockReadable(), p.Network)
	}
	if err != nil {
		return err
	}
	// Nothing the helper opened, or was left by whoever started us, goes along.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("closing inherited files: %w", err)
	}
	return filter(p.Network, inNamespaces).install()
}

func (p Profile) landlockWritable() []string {
	paths := []string{p.Workspace, "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
	if p.TempDir != "" {
		paths = append(paths, p.TempDir)
	}
	return append(paths, p.Writable...)
}

// landlockReadable leaves /proc out: it shows the processes of the same user.
func (p Profile) landlockReadable() []string {
	paths := append(systemDirs(), systemFiles(p.Network)...)
	return append(paths, p.Readable...)
}

// limit sets what a command may use up, for it and everything it starts.
func limit(l Limits) error {
	zero := uint64(0)
	for _, r := range []struct {
		name  string
		which int
		value *uint64
	}{
		{"core dump size", unix.RLIMIT_CORE, &zero},
		{"processes", unix.RLIMIT_NPROC, given(l.Processes)},
		{"open files", unix.RLIMIT_NOFILE, given(l.OpenFiles)},
		{"file size", unix.RLIMIT_FSIZE, given(l.FileBytes)},
		{"memory", unix.RLIMIT_DATA, given(l.MemoryBytes)},
		{"processor time", unix.RLIMIT_CPU, given(l.CPUSeconds)},
	} {
		if r.value == nil {
			continue
		}
		var old unix.Rlimit
		if err := unix.Prlimit(0, r.which, nil, &old); err != nil {
			return fmt.Errorf("reading the limit of %s: %w", r.name, err)
		}
		// A limit that is lower already stays.
		value := min(*r.value, old.Max)
		if err := unix.Prlimit(0, r.which, &unix.Rlimit{Cur: value, Max: value}, nil); err != nil {
			return fmt.Errorf("limiting %s to %d: %w", r.name, value, err)
		}
	}
	return nil
}

func given(v uint64) *uint64 {
	if v == 0 {
		return nil
	}
	return &v
}

// dropCapabilities makes root an ordinary user with number 0. The bounding set
// goes first: without it the kernel hands root everything back when it becomes
// another program.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var held [2]unix.CapUserData
	if err := unix.Capget(&header, &held[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	if held[0].Permitted|held[1].Permitted|held[0].Inheritable|held[1].Inheritable == 0 && unix.Geteuid() != 0 {
		return nil
	}
	for c := range uintptr(lastCapability + 1) {
		// Outside root's powers the set cannot be changed and need not be.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL && err != unix.EPERM {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clearing ambient capabilities: %w", err)
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return verifyPowerless()
}

// verifyPowerless makes sure that becoming another program gives root nothing.
func verifyPowerless() error {
	if unix.Geteuid() != 0 {
		return nil
	}
	for c := range uintptr(lastCapability + 1) {
		if held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && held == 1 {
			return fmt.Errorf("capability %d cannot be dropped; start Stave as an ordinary user", c)
		}
	}
	return nil
}
