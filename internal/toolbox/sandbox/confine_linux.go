//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// lastCapability is the highest number a capability may have; the kernel refuses
// those it does not know.
const lastCapability = 63

// Confine puts the walls of a Launch around this thread and all it starts. The
// thread must be locked (runtime.LockOSThread), start the command and never run
// anything else. It must be gone when the command begins, because who is behind
// the same walls can be sent signals, and those reach the whole process.
//
// The walls are those of the thread alone: no new privileges, no capabilities,
// Landlock and the filter are all inherited by what it starts.
func Confine(walls []byte) error {
	if unix.Gettid() == unix.Getpid() {
		return errors.New("the first thread of a process stands for all of it and cannot be confined alone")
	}
	p, err := readProfile(walls)
	if err != nil {
		return err
	}
	return confine(p)
}

func readProfile(text []byte) (Profile, error) {
	var p Profile
	if err := json.Unmarshal(text, &p); err != nil {
		return Profile{}, fmt.Errorf("reading the profile: %w", err)
	}
	if err := p.check(); err != nil {
		return Profile{}, err
	}
	if p.Level != Landlock {
		return Profile{}, fmt.Errorf("a thread cannot confine itself to level %s", p.Level)
	}
	return p, nil
}

// confine is Confine for a checked profile.
func confine(p Profile) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := restrict(p.landlockWritable(), p.landlockReadable(), p.Network); err != nil {
		return err
	}
	return filter(p.Network, false).install()
}

func (p Profile) landlockWritable() []string {
	paths := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
	if !p.ReadOnly {
		paths = append(paths, p.Workspace)
	}
	if p.TempDir != "" {
		paths = append(paths, p.TempDir)
	}
	return append(paths, p.Writable...)
}

// landlockReadable leaves /proc out: it shows the processes of the same user.
func (p Profile) landlockReadable() []string {
	paths := append(systemDirs(), systemFiles(p.Network)...)
	if p.ReadOnly {
		paths = append(paths, p.Workspace)
	}
	return append(paths, p.Readable...)
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
