//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// target is what a probe tries to reach.
type target struct {
	Workspace string `json:"workspace"`
	Outside   string `json:"outside"`
	Agent     int    `json:"agent"`    // a process outside
	Abstract  string `json:"abstract"` // a socket of it without a file
}

func (t target) secret() string { return filepath.Join(t.Outside, "secret") }
func (t target) socket() string { return filepath.Join(t.Outside, "socket") }

// act is a forbidden act and whether it could be done.
type act struct {
	Name string `json:"name"`
	Done bool   `json:"done"`
	Says string `json:"says"` // why not
}

const (
	actChangeProtected = "change a protected path"
	// protoMPTCP is TCP over several paths, which guards of plain TCP overlook.
	protoMPTCP = 262
)

// probe tries every forbidden act and prints what came of it.
func probe(order string) int {
	var t target
	if err := json.Unmarshal([]byte(order), &t); err != nil {
		return complain(exitBroken, fmt.Errorf("reading what to probe: %w", err))
	}
	var results []act
	for _, a := range forbidden() {
		err := a.try(t)
		says := ""
		if err != nil {
			says = err.Error()
		}
		results = append(results, act{Name: a.name, Done: err == nil, Says: says})
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		return complain(exitBroken, err)
	}
	return 0
}

// forbidden lists what no sandboxed command may do; try returns nil when it could.
// Every act must be harmless when it succeeds, also for root without any walls:
// a self-test exists because walls may be missing. So an act stays inside the
// scene or asks for something that the kernel refuses only after it has agreed.
func forbidden() []struct {
	name string
	try  func(target) error
} {
	return []struct {
		name string
		try  func(target) error
	}{
		{"write outside the workspace", func(t target) error { return write(filepath.Join(t.Outside, "new")) }},
		{"write outside through a symbolic link", func(t target) error { return write(filepath.Join(t.Workspace, "way-out", "new2")) }},
		{"hard-link an outside file in", func(t target) error { return os.Link(t.secret(), filepath.Join(t.Workspace, "linked")) }},
		{"read other files of the user", func(t target) error { return read(t.secret()) }},
		{"read the password file of the system", func(target) error { return read("/etc/shadow") }},
		{"read the agent's environment", func(t target) error { return read(fmt.Sprintf("/proc/%d/environ", t.Agent)) }},
		{"signal the agent", func(t target) error { return unix.Kill(t.Agent, 0) }},
		{"reach the agent's limits", func(t target) error {
			var old unix.Rlimit // only read
			return unix.Prlimit(t.Agent, unix.RLIMIT_NOFILE, nil, &old)
		}},
		{"trace the agent", func(t target) error { return trace(t.Agent) }},
		{"open a TCP socket", socket(unix.AF_INET, unix.SOCK_STREAM, 0)},
		{"open a TCP socket for IPv6", socket(unix.AF_INET6, unix.SOCK_STREAM, 0)},
		{"open a multipath TCP socket", socket(unix.AF_INET, unix.SOCK_STREAM, protoMPTCP)},
		{"open a UDP socket", socket(unix.AF_INET, unix.SOCK_DGRAM, 0)},
		{"open a virtual machine socket", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{"open a netlink socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)},
		{"open a packet socket", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{"reach a unix socket by its path", func(t target) error { return dial(t.socket()) }},
		{"reach an abstract unix socket", func(t target) error { return dial("@" + t.Abstract) }},
		{"reach a socket from a pair", func(t target) error { return redirectPair(t.socket()) }},
		{"use io_uring", useRing},
		{"make a user namespace", makeNamespace},
		{"mount", tryMount},
		{"load a kernel program", func(target) error { return bare(unix.SYS_BPF) }},
		{"read the keyring", func(target) error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
			return err
		}},
		{"hold capabilities", holdCapabilities},
		{actChangeProtected, changeProtected},
	}
}

func write(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }

func read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	return err
}

func socket(domain, kind, proto int) func(target) error {
	return func(target) error {
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, proto)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

func dial(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}

// redirectPair sends one end of a datagram pair elsewhere, which needs no new
// socket. That the other side is of another type shows that it was reached.
func redirectPair(path string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if err := unix.Connect(pair[0], &unix.SockaddrUnix{Name: path}); err != unix.EPROTOTYPE {
		return err
	}
	return nil
}

// bare makes a system call without arguments. Any complaint but a refusal shows
// that it was let through.
func bare(number uintptr) error {
	_, _, errno := unix.RawSyscall6(number, 0, 0, 0, 0, 0, 0)
	if errno == unix.EPERM || errno == unix.ENOSYS || errno == unix.EACCES {
		return errno
	}
	return nil
}

// tryMount asks for a kind of file system that does not exist. The kernel looks
// at the permission first, so nothing is ever mounted.
func tryMount(t target) error {
	err := unix.Mount("none", t.Workspace, "stave-no-such-filesystem", 0, "")
	if err == unix.ENODEV {
		return nil
	}
	return err
}

func useRing(target) error { return bare(unix.SYS_IO_URING_SETUP) }

func trace(pid int) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, 0, 0, 0)
	return nil
}

func makeNamespace(target) error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	return cmd.Run()
}

func holdCapabilities(target) error {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if set, ok := strings.CutPrefix(line, "CapEff:"); ok && strings.Trim(set, "0 \t\n") != "" {
				return nil
			}
		}
		return errors.New("none are held")
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var held [2]unix.CapUserData
	if err := unix.Capget(&header, &held[0]); err != nil {
		return err
	}
	if held[0].Effective|held[1].Effective|held[0].Permitted|held[1].Permitted == 0 {
		return errors.New("none are held")
	}
	return nil
}

// changeProtected tries every way around a path that must stay as it is.
func changeProtected(t target) error {
	guarded, missing := filepath.Join(t.Workspace, "guarded"), filepath.Join(t.Workspace, "missing")
	away := filepath.Join(t.Workspace, "away")
	var refused []error
	for _, try := range []func() error{
		func() error { return write(filepath.Join(guarded, "new")) },
		func() error { return os.Rename(guarded, away) },
		func() error { return os.Remove(guarded) },
		func() error { return write(missing) },
		func() error { return os.Mkdir(missing, 0o700) },
		func() error { return os.Remove(missing) },
		func() error { return os.Rename(missing, away) },
		func() error { return os.Symlink(t.Workspace, missing) },
	} {
		err := try()
		if err == nil {
			return nil
		}
		refused = append(refused, err)
	}
	return errors.Join(refused...)
}
