package supervisor

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readyFile is the number of the file on which a supervisor says that it is
	// ready, or why it is not.
	readyFile = 3
	readyWord = "ready\n"
	// lastWords is how long those who listen have to hear the end of the last
	// command before we leave.
	lastWords = 2 * time.Second
	// burialDelay is how often dead orphans are looked for while a command runs.
	burialDelay = time.Second
	// memoryLimit keeps a process small that mostly waits.
	memoryLimit = 32 << 20
)

// Main is the hidden sub-command: DIR, the socket's name, the linger time in
// milliseconds, the limits. It returns when its work is done.
func Main(args []string) int { return MainWith(args, nil, nil) }

// MainWith is Main for a program that can build walls around a thread, which
// spares each walled command the start of another program, and set limits.
func MainWith(args []string, confine Confiner, bound Bounder) int {
	// The first thread stands for all of us in /proc: it must not be one of those
	// that are confined.
	runtime.LockOSThread()
	ready := os.NewFile(readyFile, "ready")
	if len(args) != 4 || filepath.Base(args[1]) != args[1] {
		fmt.Fprintln(os.Stderr, "stave: this command is for Stave itself")
		return 1
	}
	millis, err := strconv.ParseInt(args[2], 10, 64)
	if err == nil && bound != nil && args[3] != "" {
		err = bound(args[3])
	}
	if err == nil {
		err = supervise(args[0], args[1], time.Duration(millis)*time.Millisecond, ready, confine)
	}
	if err != nil {
		fmt.Fprintln(ready, err)
		return 1
	}
	return 0
}

func supervise(dir, socket string, linger time.Duration, ready *os.File, confine Confiner) error {
	debug.SetMemoryLimit(memoryLimit)
	// We hand bytes on and wait: a second processor would only be woken for nothing.
	runtime.GOMAXPROCS(1)
	// Signals are caught, not ignored: what is ignored would be ignored by every
	// command we start, what is caught is not.
	hangups, orders := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGINT)
	signal.Notify(orders, syscall.SIGTERM)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("asking for orphans: %w", err)
	}
	// Nobody else of this user may look into us: commands' environments pass here.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("closing our memory: %w", err)
	}
	// Files that were left open to us are nothing for commands.
	if err := unix.CloseRange(readyFile, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keeping our files from commands: %w", err)
	}
	if err := leaveNoCores(); err != nil {
		return err
	}
	s, err := newServer(dir, socket, linger, confine)
	if err != nil {
		return err
	}
	l, err := listen(dir, socket)
	if err != nil {
		return err
	}
	defer Vacate(dir) // who used us may have gone before
	defer os.Remove(filepath.Join(dir, socket))
	defer l.Close()
	go s.accept(l)
	if _, err := ready.WriteString(readyWord); err != nil {
		return err // nobody is there to use us
	}
	ready.Close()
	for {
		select {
		case <-orders:
			go s.stopAll()
		case <-s.leave:
			l.Close()
			s.farewell()
			return nil
		}
	}
}

// leaveNoCores keeps commands that crash from filling a workspace with their
// memory; one that wants to may still ask for it.
func leaveNoCores() error {
	var cores unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &cores); err != nil {
		return fmt.Errorf("reading the limit of core dumps: %w", err)
	}
	cores.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &cores); err != nil {
		return fmt.Errorf("limiting core dumps: %w", err)
	}
	return nil
}

// farewell lets clients hear what was said to them.
func (s *server) farewell() {
	for patience := lastWords; patience > 0; patience -= 10 * time.Millisecond {
		s.mu.Lock()
		clients := s.clients
		s.mu.Unlock()
		if clients == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// listen makes the socket, which only this user may use.
func listen(dir, name string) (*net.UnixListener, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	path, release, err := shortPath(dir, name)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening in %s: %w", dir, err)
	}
	l.SetUnlinkOnClose(false) // the short path is gone by then
	if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// checkDir refuses a directory that others may look into or that is not ours.
func checkDir(dir string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return fmt.Errorf("looking at %s: %w", dir, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != os.Geteuid() || stat.Mode&0o077 != 0 {
		return fmt.Errorf("%s must be a directory of user %d that nobody else may enter (mode 0700)", dir, os.Geteuid())
	}
	return nil
}

// shortPath names a socket through an open directory, because the kernel allows
// a socket's path about a hundred bytes only.
func shortPath(dir, name string) (path string, release func(), err error) {
	const room = 100
	if path := filepath.Join(dir, name); len(path) < room {
		return path, func() {}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name), func() { d.Close() }, nil
}

// checkPeer makes sure that the other end belongs to the same user.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return credErr
	}
	if int(cred.Uid) != os.Geteuid() {
		return errors.New("the other end of the supervisor's socket belongs to another user")
	}
	return nil
}
