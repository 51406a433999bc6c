//go:build amd64 || arm64

package sandbox

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxRemembered bounds the file of a remembered report.
const maxRemembered = 64 << 10

// memory is a report and what it was true for.
type memory struct {
	For    string `json:"for"`
	Report Report `json:"report"`
}

// Remembered is Detect with a memory: a report that was found before, by this
// program on this machine since it was started, is read from a file and not found
// again. The file must lie where only this user can put one.
func Remembered(file string) Report {
	now := fingerprint()
	if r, err := recall(file, now); err == nil {
		return r
	}
	r := Detect()
	if r.lasting() {
		// One that cannot be kept is found again next time.
		_ = keep(file, memory{For: now, Report: r})
	}
	return r
}

// lasting reports whether looking again would show the same: every level works,
// or lacks something. A self-test that went wrong may have had bad luck.
func (r Report) lasting() bool {
	for _, f := range r {
		lacks := false
		for _, n := range f.Needs {
			lacks = lacks || !n.OK && n.Name != needSelfTest
		}
		if !f.OK && !lacks {
			return false
		}
	}
	return true
}

func recall(file, now string) (Report, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return nil, err
	}
	if stat.Mode != unix.S_IFREG|0o600 || int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s is not a private file of ours", file)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRemembered))
	if err != nil {
		return nil, err
	}
	var m memory
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if m.For != now || len(m.Report) != len(Levels()) || !m.Report.lasting() {
		return nil, errors.New("the report was for something else")
	}
	return m.Report, nil
}

// keep replaces the file as a whole, so that nobody reads a part of it.
func keep(file string, m memory) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	draft := file + "." + rand.Text()
	if err := os.WriteFile(draft, data, 0o600); err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	if err := os.Rename(draft, file); err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	return nil
}

// fingerprint is all a report depends on: the boot, the kernel and what it allows
// us, our program and bubblewrap.
func fingerprint() string {
	parts := []string{fmt.Sprintf("user %d", os.Geteuid())}
	for _, path := range []string{
		"/proc/sys/kernel/random/boot_id", "/proc/version", "/sys/kernel/security/lsm",
		"/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone",
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "/proc/self/attr/current",
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			data = []byte("none") // what cannot be read is not there, here and next time
		}
		parts = append(parts, strings.TrimSpace(string(data)))
	}
	var caps [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	parts = append(parts, fmt.Sprint(unix.Capget(&header, &caps[0]), caps))
	self, err := os.Executable()
	parts = append(parts, fileMark(self, err))
	bwrap, err := findProgram("bwrap")
	return strings.Join(append(parts, fileMark(bwrap, err)), "\n")
}

// fileMark tells a program from another that took its place.
func fileMark(path string, err error) string {
	if err != nil {
		return "none"
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return path + " " + err.Error()
	}
	return fmt.Sprintf("%s %d:%d %o %d %d.%09d", path, stat.Dev, stat.Ino, stat.Mode, stat.Size, stat.Mtim.Sec, stat.Mtim.Nsec)
}
