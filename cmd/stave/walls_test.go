package main

import (
	"strings"
	"testing"

	"stave/internal/config"
	"stave/internal/machine/session"
	"stave/internal/toolbox/sandbox"
)

// TestWallsNote shows that a person is told of missing walls only if they did not
// choose them and are not asked about commands, and that nobody looks in vain.
func TestWallsNote(t *testing.T) {
	landlock := sandbox.Report{{Level: sandbox.Off, OK: true}, {Level: sandbox.Landlock, OK: true}, {Level: sandbox.Bwrap}}
	both := sandbox.Report{{Level: sandbox.Off, OK: true}, {Level: sandbox.Landlock, OK: true}, {Level: sandbox.Bwrap, OK: true}}
	none := sandbox.Report{{Level: sandbox.Off, OK: true}, {Level: sandbox.Landlock}, {Level: sandbox.Bwrap}}
	for _, c := range []struct {
		config        session.Config
		report        sandbox.Report
		looked, noted bool
	}{
		{session.Config{Mode: "yolo", Sandbox: "auto"}, landlock, true, true},
		{session.Config{Mode: "allowlist"}, landlock, true, true},
		{session.Config{Mode: "yolo", Sandbox: "auto"}, both, true, false},
		{session.Config{Mode: "yolo", Sandbox: "auto"}, none, true, false},
		{session.Config{Mode: "ask", Sandbox: "auto"}, landlock, false, false},
		{session.Config{Mode: "yolo", Sandbox: "auto", ReadOnly: true}, landlock, false, false},
		{session.Config{Mode: "yolo", Sandbox: "landlock"}, landlock, false, false},
		{session.Config{Mode: "yolo", Sandbox: "off"}, landlock, false, false},
	} {
		looked := false
		note := wallsNote(c.config, func() sandbox.Report { looked = true; return c.report })
		if looked != c.looked || (note != "") != c.noted {
			t.Errorf("%+v: looked %v, said %q", c.config, looked, note)
		}
		if c.noted && !(strings.Contains(note, ".git") && strings.Contains(note, "bubblewrap")) {
			t.Errorf("the note says %q", note)
		}
	}
}

// TestUsualLimits shows that what the settings call usual is what the sandbox does.
func TestUsualLimits(t *testing.T) {
	if got := limitsOf(config.Limits{}); got != sandbox.DefaultLimits() {
		t.Errorf("%+v, want %+v", got, sandbox.DefaultLimits())
	}
}
