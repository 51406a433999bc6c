//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// around lets prlimit(1), behind the walls, set what a command may use up and
// become it. Limits belong to processes, so neither a thread nor bubblewrap can
// have them set for what it starts.
func (l Limits) around(argv []string) ([]string, error) {
	if l == (Limits{}) {
		return argv, nil
	}
	prlimit, err := findProgram("prlimit")
	if err != nil {
		return nil, errors.New("limits for a sandboxed command need prlimit; install util-linux")
	}
	line := []string{prlimit, "--core=0:0"}
	for _, r := range []struct {
		name  string
		which int
		value uint64
	}{
		{"nproc", unix.RLIMIT_NPROC, l.Processes},
		{"nofile", unix.RLIMIT_NOFILE, l.OpenFiles},
		{"fsize", unix.RLIMIT_FSIZE, l.FileBytes},
		{"data", unix.RLIMIT_DATA, l.MemoryBytes},
		{"cpu", unix.RLIMIT_CPU, l.CPUSeconds},
	} {
		if r.value == 0 {
			continue
		}
		var old unix.Rlimit
		if err := unix.Prlimit(0, r.which, nil, &old); err != nil {
			return nil, fmt.Errorf("reading the limit %s: %w", r.name, err)
		}
		value := min(r.value, old.Max) // a limit that is lower already stays
		line = append(line, fmt.Sprintf("--%s=%d:%d", r.name, value, value))
	}
	return append(append(line, "--"), argv...), nil
}
