//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
)

// Detect says that only Off can be built on this system.
func Detect() Report {
	var r Report
	for _, l := range Levels() {
		f := Finding{Level: l, OK: l == Off}
		if !f.OK {
			f.Needs = []Need{{Name: "Linux", Says: "this system is " + runtime.GOOS}}
			f.Remedy = "run Stave on Linux, or choose --sandbox off"
		}
		r = append(r, f)
	}
	return r
}

// Remembered is Detect: nothing here is worth remembering.
func Remembered(string) Report { return Detect() }

// Command is that of what can be detected.
func Command(p Profile, argv []string, dir string) (Launch, error) {
	return Detect().Command(p, argv, dir)
}

// Command returns the command unchanged for Off and refuses every other level.
func (r Report) Command(p Profile, argv []string, dir string) (Launch, error) {
	if err := p.check(); err != nil {
		return Launch{}, err
	}
	if len(argv) == 0 {
		return Launch{}, errors.New("there is no command to start")
	}
	if p.Level != Off {
		if err := r.Of(p.Level).Err(); err != nil {
			return Launch{}, err
		}
	}
	return Launch{Argv: argv, Env: slices.Clone(p.Env), Dir: dir, Release: func() {}}, nil
}

// OpenFiles has none to open.
func (Launch) OpenFiles() ([]*os.File, error) { return nil, nil }

// Limited is the launch as it is: there is nothing here to set limits with.
func (l Launch) Limited() (Launch, error) { return l, nil }

// Confine refuses: there is nothing to build walls with.
func Confine([]byte) error { return errors.New("sandboxes need Linux") }

// Main refuses: there is nothing to build walls with.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "stave: sandboxes need Linux; this system is", runtime.GOOS)
	return 125
}

// Bound sets nothing where nothing is limited.
func Bound(string) error { return nil }

// ClearStandIns clears nothing: no sandbox here makes any.
func ClearStandIns(string, []string) {}
