package main

import (
	"strings"
	"testing"

	"stave/internal/config"
	"stave/internal/machine/session"
)

// TestLoosenedNotes shows that a person is told which wish of a trusted project a
// flag goes beyond, and that one who keeps to them is left in peace.
func TestLoosenedNotes(t *testing.T) {
	s := settings{project: config.Project{Dir: "/p", Files: map[string][]byte{
		".stave/config.yaml": []byte("mode: allowlist\nsandbox: bwrap\nnetwork: false\n"),
	}}}
	if notes := loosened(s, session.Config{Mode: "allowlist", Sandbox: "bwrap"}); len(notes) > 0 {
		t.Errorf("nothing is looser, but: %q", notes)
	}
	notes := strings.Join(loosened(s, session.Config{Mode: "yolo", Sandbox: "off", Network: true}), "\n")
	for _, want := range []string{"asks for mode: allowlist;", "asks for sandbox: bwrap;", "asks for network: false;"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not among\n%s", want, notes)
		}
	}
	if notes := loosened(settings{}, session.Config{Mode: "yolo", Sandbox: "off", Network: true}); len(notes) > 0 {
		t.Errorf("there is no project, but: %q", notes)
	}
}
