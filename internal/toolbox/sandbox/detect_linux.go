//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// selfTestPatience is for a machine that does nothing else well either.
	selfTestPatience = 20 * time.Second
	// minBwrap is the first bubblewrap that can forbid further user namespaces.
	minBwrapMajor, minBwrapMinor = 0, 8
	// needSelfTest is the last need of a level.
	needSelfTest = "self-test"
)

// detect asks the machine once; what it can do does not change while we run.
var detect = sync.OnceValue(examine)

// Detect says what this machine can build and proves it: every level that has
// what it needs is entered once, and a list of forbidden acts is tried inside.
func Detect() Report { return detect() }

func examine() Report {
	landlock := Finding{
		Level: Landlock, Needs: []Need{needLandlock(), needSeccomp()},
		Remedy: "use Linux 6.12 or newer with Landlock enabled (lsm=landlock,…), or choose --sandbox off",
	}
	bwrap := Finding{
		Level: Bwrap, Needs: []Need{needBwrap(), needSeccomp()},
		Remedy: "install it (apt install bubblewrap) and allow user namespaces, or choose --sandbox landlock or --sandbox off",
	}
	// The two are tried side by side: each mostly waits for processes to start.
	var both sync.WaitGroup
	for _, f := range []*Finding{&landlock, &bwrap} {
		both.Go(func() { f.settle() })
	}
	both.Wait()
	return Report{{Level: Off, OK: true}, landlock, bwrap}
}

// settle runs the self-test if all needs are met, and decides.
func (f *Finding) settle() {
	for _, n := range f.Needs {
		if !n.OK {
			return
		}
	}
	began := time.Now()
	holes, err := selfTest(f.Level)
	test := Need{Name: needSelfTest, OK: err == nil}
	if err != nil {
		test.Says = err.Error()
	} else {
		test.Says = fmt.Sprintf("took %v", time.Since(began).Round(time.Millisecond))
	}
	f.Needs, f.Holes = append(f.Needs, test), holes
	f.OK = test.OK && len(holes) == 0
}

func needLandlock() Need {
	abi, err := landlockABI()
	switch {
	case err != nil:
		return Need{Name: "Landlock", Says: "the kernel does not offer it: " + err.Error()}
	case abi < minLandlock:
		return Need{Name: "Landlock", Says: fmt.Sprintf("the kernel speaks version %d, at least %d is needed", abi, minLandlock)}
	}
	return Need{Name: "Landlock", OK: true, Says: fmt.Sprintf("version %d", abi)}
}

func needSeccomp() Need {
	if _, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil {
		return Need{Name: "system call filters", Says: "the kernel does not offer them: " + err.Error()}
	}
	return Need{Name: "system call filters", OK: true, Says: "seccomp"}
}

func needBwrap() Need {
	path, err := findProgram("bwrap")
	if err != nil {
		return Need{Name: "bubblewrap", Says: "bwrap is not installed"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), selfTestPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Need{Name: "bubblewrap", Says: path + " --version: " + err.Error()}
	}
	version := strings.TrimSpace(string(out))
	var major, minor int
	if _, err := fmt.Sscanf(version, "bubblewrap %d.%d", &major, &minor); err != nil {
		return Need{Name: "bubblewrap", Says: fmt.Sprintf("%s says %q, which is no version", path, version)}
	}
	if major < minBwrapMajor || major == minBwrapMajor && minor < minBwrapMinor {
		return Need{Name: "bubblewrap", Says: fmt.Sprintf("%s is too old, at least %d.%d is needed", version, minBwrapMajor, minBwrapMinor)}
	}
	return Need{Name: "bubblewrap", OK: true, Says: version}
}

// selfTest enters a level and returns what could be done there and should not.
func selfTest(level Level) (holes []string, err error) {
	scene, err := newScene()
	if err != nil {
		return nil, err
	}
	defer scene.close()
	results, err := scene.play(level)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		if r.Done && (r.Name != actChangeProtected || level == Bwrap) {
			holes = append(holes, r.Name)
		}
	}
	return holes, nil
}

// scene is what forbidden acts are tried on: a workspace, things outside it, and
// us in the part of the agent.
type scene struct {
	root     string
	target   target
	path     *net.UnixListener
	abstract *net.UnixListener
}

func newScene() (s *scene, err error) {
	s = &scene{}
	if s.root, err = os.MkdirTemp("", "stave-sandbox-"); err != nil {
		return nil, fmt.Errorf("making a place for the self-test: %w", err)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.root, err = filepath.EvalSymlinks(s.root); err != nil {
		return nil, err
	}
	s.target = target{
		Workspace: filepath.Join(s.root, "workspace"), Outside: filepath.Join(s.root, "outside"),
		Agent: os.Getpid(), Abstract: filepath.Base(s.root),
	}
	for _, dir := range []string{filepath.Join(s.target.Workspace, "guarded"), s.target.Outside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(s.target.secret(), []byte("secret"), 0o600); err != nil {
		return nil, err
	}
	if err := os.Symlink(s.target.Outside, filepath.Join(s.target.Workspace, "way-out")); err != nil {
		return nil, err
	}
	if s.path, err = net.ListenUnix("unix", &net.UnixAddr{Name: s.target.socket()}); err != nil {
		return nil, err
	}
	s.abstract, err = net.ListenUnix("unix", &net.UnixAddr{Name: "@" + s.target.Abstract})
	return s, err
}

func (s *scene) close() {
	for _, l := range []*net.UnixListener{s.path, s.abstract} {
		if l != nil {
			l.Close()
		}
	}
	os.RemoveAll(s.root) // what stays is empty and private
}

// launch says how to try all acts at a level, in a process of our own program.
func (s *scene) launch(level Level) (Launch, error) {
	self, err := selfPath()
	if err != nil {
		return Launch{}, err
	}
	p := Profile{
		Level: level, Workspace: s.target.Workspace, Protected: []string{"guarded", "missing"}, AcceptUnprotected: true,
		Readable: []string{self}, Env: []string{"PATH=/usr/bin:/bin"},
	}
	order, err := json.Marshal(s.target)
	if err != nil {
		return Launch{}, err
	}
	return command(p, []string{self, Verb, stageProbe, string(order)}, p.Workspace)
}

// play tries all acts at a level.
func (s *scene) play(level Level) ([]act, error) {
	launch, err := s.launch(level)
	if err != nil {
		return nil, err
	}
	defer launch.Release()
	ctx, cancel := context.WithTimeout(context.Background(), selfTestPatience)
	defer cancel()
	cmd, closeFiles, err := launch.prepare(ctx)
	if err != nil {
		return nil, err
	}
	defer closeFiles()
	return report(cmd)
}

// report runs a probe and reads what it says.
func report(cmd *exec.Cmd) ([]act, error) {
	var complaint bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &complaint, time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	var results []act
	if err := json.Unmarshal(out, &results); err != nil || len(results) == 0 {
		return nil, errors.New("the self-test did not report what it tried")
	}
	return results, nil
}

// prepare makes a command of a launch that is still to be started.
func (l Launch) prepare(ctx context.Context) (cmd *exec.Cmd, closeFiles func(), err error) {
	cmd = exec.CommandContext(ctx, l.Argv[0], l.Argv[1:]...)
	cmd.Env, cmd.Dir = l.Env, l.Dir
	if cmd.ExtraFiles, err = l.OpenFiles(); err != nil {
		return nil, nil, err
	}
	return cmd, func() { closeAll(cmd.ExtraFiles) }, nil
}

// OpenFiles opens the files of a launch, in their order. They are the caller's to
// close once the command is started.
func (l Launch) OpenFiles() (open []*os.File, err error) {
	for _, f := range l.Files {
		file, err := f.open()
		if err != nil {
			closeAll(open)
			return nil, fmt.Errorf("opening a file for the sandbox: %w", err)
		}
		open = append(open, file)
	}
	return open, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func (f File) open() (*os.File, error) {
	if f.Path != "" {
		return os.Open(f.Path)
	}
	fd, err := unix.MemfdCreate("stave", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "memory")
	if _, err := file.WriteAt(f.Data, 0); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
