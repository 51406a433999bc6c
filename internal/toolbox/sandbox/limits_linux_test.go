//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// everyLevel are the levels this machine can build, and none at all.
func everyLevel(t testing.TB) []Level { return append([]Level{Off}, walls(t)...) }

// TestLimits shows that limits reach the command at every level, soft and hard,
// and that nothing comes with a profile that has none.
func TestLimits(t *testing.T) {
	for _, level := range everyLevel(t) {
		p := profile(t, level)
		p.Limits = Limits{OpenFiles: 64, FileBytes: 1 << 20, CPUSeconds: 100, MemoryBytes: 1 << 30}
		for _, kind := range []string{"S", "H"} {
			out, _ := run(t, p, strings.ReplaceAll("ulimit -Xn; ulimit -Xf; ulimit -Xt; ulimit -Xd; ulimit -Xc", "X", kind))
			if want := "64\n1024\n100\n1048576\n0\n"; out != want {
				t.Errorf("%s, %s: got %q, want %q", level, kind, out, want)
			}
		}
		p.Limits = Limits{}
		launch, err := Command(p, []string{"/bin/true"}, p.Workspace)
		if err != nil || len(launch.Limits) > 0 {
			t.Errorf("%s without limits: %v, %v", level, launch.Limits, err)
		}
		launch.Release()
	}
}

// TestFullDisk shows that a command that writes without end is stopped when its
// file has the size that is allowed, at every level.
func TestFullDisk(t *testing.T) {
	const most = 1 << 20
	for _, level := range everyLevel(t) {
		p := profile(t, level)
		p.Limits.FileBytes = most
		out, code := run(t, p, "head -c 8388608 /dev/zero >big; code=$?; echo after >small; exit $code")
		info, err := os.Stat(filepath.Join(p.Workspace, "big"))
		if err != nil || info.Size() > most || code == 0 {
			t.Errorf("%s: a file grew to %v, code %d: %q, %v", level, info, code, out, err)
		}
		if small, err := os.ReadFile(filepath.Join(p.Workspace, "small")); err != nil || string(small) != "after\n" {
			t.Errorf("%s: other files cannot be written: %q, %v", level, small, err)
		}
	}
}

// TestForkBomb shows that an ordinary user's command cannot fill the machine with
// processes, at any level. It would end after a few hundred if it could.
func TestForkBomb(t *testing.T) {
	if os.Geteuid() == 0 {
		return // the kernel counts no processes of root; TestMatrixUnprivileged comes here as another
	}
	const room, bomb = 60, 400
	for _, level := range everyLevel(t) {
		p := profile(t, level)
		p.Limits.Processes = room
		launch, err := Command(p, []string{
			// A plain shell gives up at the first process it cannot start.
			"/bin/sh", "-c", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do sleep 60 >/dev/null 2>&1 & i=$((i+1)); echo $i >count; done; echo all`, bomb),
		}, p.Workspace)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(launch.Limits, func(r Rlimit) bool { return r.Resource == unix.RLIMIT_NPROC })
		if i < 0 {
			t.Fatalf("%s: no limit of processes in %v", level, launch.Limits)
		}
		held := t.Run(string(level), func(t *testing.T) {
			// Counted from those of this user and not of the machine, so that the bomb is small.
			launch.Limits[i].Value = uint64(tasksOf(t, os.Getuid()) + room)
			out, code := runLaunch(t, launch)
			text, err := os.ReadFile(filepath.Join(p.Workspace, "count"))
			if err != nil {
				t.Fatalf("nothing was started: %q, code %d", out, code)
			}
			started, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil || started < room/4 || started > 3*room || strings.Contains(out, "all") || code == 0 {
				t.Errorf("%d processes were started, code %d: %q, %v", started, code, out, err)
			}
		})
		endAll(t, p.Workspace)
		if !held {
			break
		}
	}
}

// tasksOf counts the threads of a user.
func tasksOf(t *testing.T, uid int) (n int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		var stat unix.Stat_t
		if unix.Stat(dir, &stat) == nil && int(stat.Uid) == uid {
			n++
		}
	}
	return n
}

// endAll kills what works in a directory of this test's own.
func endAll(t *testing.T, dir string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && cwd == dir {
			if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil {
				syscall.Kill(pid, syscall.SIGKILL) // it may be gone already
			}
		}
	}
	if left := holders(t, dir); left != "" {
		t.Errorf("still alive: %s", left)
	}
}

// TestLimitOfProcesses shows that a limit leaves room beside what runs already.
func TestLimitOfProcesses(t *testing.T) {
	const room = 10
	ours, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	list, err := Limits{Processes: room}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(r Rlimit) bool { return r.Resource == unix.RLIMIT_NPROC })
	if i < 0 || list[i].Value < uint64(room+len(ours)) {
		t.Errorf("%v beside our own %d threads", list, len(ours))
	}
}

// TestLimitsWithin shows which of two limits counts.
func TestLimitsWithin(t *testing.T) {
	mine := Limits{Processes: 10, OpenFiles: 20, FileBytes: 5}
	theirs := Limits{Processes: 5, OpenFiles: 50, CPUSeconds: 7}
	if got, want := mine.Within(theirs), (Limits{Processes: 5, OpenFiles: 20, FileBytes: 5, CPUSeconds: 7}); got != want {
		t.Errorf("within: %+v, want %+v", got, want)
	}
	if got, want := theirs.Over(mine), (Limits{Processes: 5, OpenFiles: 50, FileBytes: 5, CPUSeconds: 7}); got != want {
		t.Errorf("over: %+v, want %+v", got, want)
	}
}
