package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"stave/internal/machine"
	"stave/internal/machine/stage"
	run "stave/internal/machine/workflow"
)

// TestRunesHaveWords shows that whatever happens in a run can be told to a person.
func TestRunesHaveWords(t *testing.T) {
	for name, boxes := range map[string][]machine.Box{"stage": stage.Machine.Boxes, "workflow": run.Machine.Boxes} {
		told := 0
		for _, b := range boxes {
			for _, r := range b.Rows {
				for _, typ := range r.Events {
					e := reflect.New(typ).Elem().Interface()
					told++
					if got := story(e); got == "" || strings.HasPrefix(got, name+".") {
						t.Errorf("%s is told as %q", machine.Kind(e), got)
					}
				}
			}
		}
		if told == 0 {
			t.Errorf("the table of %s has no arrow", name)
		}
	}
}

// TestSlashesLead shows that every command that can be said leads somewhere.
func TestSlashesLead(t *testing.T) {
	a, out, _ := testApp(t)
	a.slashHelp()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(slashes) {
		t.Errorf("%d commands, %d lines of help", len(slashes), len(lines))
	}
	for _, l := range lines {
		if words := strings.Fields(l); len(words) < 3 {
			t.Errorf("nothing is said about %q", l)
		}
	}
	for name, command := range slashes {
		if cmd, _, err := a.root().Find([]string{command}); command != "" && (err != nil || cmd.Name() != command) {
			t.Errorf("/%s leads to %q: %v", name, command, err)
		}
	}
	if !slices.IsSorted(lines) {
		t.Error("the help is in no order")
	}
}
