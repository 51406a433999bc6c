package main

import (
	"encoding/json"
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

// TestOwnRun shows that a command ends as the run ends that it began, whatever
// becomes of others in its conversation; one that began none heeds them all.
func TestOwnRun(t *testing.T) {
	for mine, want := range map[string]int{"run_a": 0, "run_b": 2, "": 2} {
		a, _, _ := testApp(t)
		f := &follower{app: a, mine: mine, crew: crew{}, broke: map[string]bool{}}
		f.rememberRun("workflow:run_a", run.Completed{RunID: "run_a", Name: "a"})
		f.rememberRun("workflow:run_b", run.Failed{RunID: "run_b", Name: "b", Error: "no"})
		if got := exitCode(f.ending.err(a)); got != want {
			t.Errorf("for %q the exit code is %d, want %d", mine, got, want)
		}
	}
}

// TestResultText shows which results are the answer of a run.
func TestResultText(t *testing.T) {
	result := func(stage, output string) run.Result {
		return run.Result{Stage: stage, Output: json.RawMessage(output)}
	}
	all := []run.Result{result("Plan", `{"p":1}`), result("B", `{"b":2,"list":[1]}`), result("A", `{"a":3}`), result("Skipped", "")}
	for want, ends := range map[string][]string{
		"p: 1": {"Plan"},
		"a: 3": {"Skipped"},
		"A:\n  a: 3\nB:\n  b: 2\n  list:\n    - 1": {"A", "B"},
		"B:\n  b: 2\n  list:\n    - 1":             {"Skipped", "B"},
	} {
		if got := resultText(run.Completed{Results: all, Ends: ends}); got != want {
			t.Errorf("%v: %q, want %q", ends, got, want)
		}
	}
	if got := resultText(run.Completed{Results: all[3:], Ends: []string{"Skipped"}}); got != "" {
		t.Errorf("nothing was handed in, but: %q", got)
	}
}
