package agent

import (
	"testing"

	"stave/internal/machine"
)

// TestEndIsRecordedOnce shows which orders to end change anything while a turn
// runs: the first, and one that does not wait any more.
func TestEndIsRecordedOnce(t *testing.T) {
	for _, c := range []struct {
		d     Data
		force bool
		want  int
	}{
		{Data{}, false, 1},
		{Data{}, true, 1},
		{Data{Ending: "x"}, false, 0},
		{Data{Ending: "x"}, true, 1},
		{Data{Ending: "x", Forced: true}, true, 0},
	} {
		events, err := c.d.end(runningTurn, "y", c.force)
		if err != nil || len(events) != c.want {
			t.Errorf("%+v: %v %v", c, events, err)
		}
	}
}

func TestNoRule(t *testing.T) {
	if _, err := decide(idle, Data{}, struct{}{}); err == nil || err.Error() != "no rule for struct {}" {
		t.Errorf("got %v", err)
	}
}

// TestTasks shows what an agent takes on: words from whom it works for, so many
// at most, and each once, in the order they came.
func TestTasks(t *testing.T) {
	child := Data{Spawning: Spawning{AgentID: "b", ParentID: "a"}}
	full := child
	full.Tasks = make([]string, MaxTasks)
	for want, c := range map[string]struct {
		d    Data
		text string
	}{
		"the root agent hears from its session":      {Data{Spawning: Spawning{AgentID: "a"}}, "x"},
		"there is nothing to do in an empty message": {child, ""},
		"64 tasks wait for it already":               {full, "x"},
	} {
		if _, err := decide(idle, c.d, Tell{Told{c.text}}); err == nil || err.Error() != want {
			t.Errorf("%q: %v", want, err)
		}
	}
	d := child
	for _, text := range []string{"one", "two"} {
		d = after(t, idle, d, Tell{Told{text}})
	}
	for _, want := range []string{"one", "two"} {
		events, err := decide(idle, d, Proceed{})
		if err != nil || events[0].(TurnAssigned).Text != want {
			t.Fatalf("%v, %v, want %s", events, err, want)
		}
		d = after(t, idle, d, Proceed{})
	}
	if events, err := decide(idle, d, Proceed{}); err != nil || events != nil || d.Turns != 2 {
		t.Errorf("%v, %v after %d turns", events, err, d.Turns)
	}
}

// after is what is remembered once a command was taken.
func after(t *testing.T, s machine.State, d Data, c machine.Command) Data {
	t.Helper()
	events, err := decide(s, d, c)
	for _, e := range events {
		if err == nil {
			d, err = evolve(d, machine.Arrow{}, e)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAnswerIsForTheParent shows that an answer is kept where another agent waits
// for it, and forgotten when the next task begins.
func TestAnswerIsForTheParent(t *testing.T) {
	for parent, want := range map[string]string{"": "", "a": "seven"} {
		d := Data{Spawning: Spawning{AgentID: "b", ParentID: parent}, Turn: "turn_1"}
		d = after(t, runningTurn, d, EndTurn{TurnID: "turn_1", Outcome: "completed", Output: "seven"})
		if d.Answer != want || d.Outcome != "completed" {
			t.Errorf("parent %q: %+v", parent, d)
		}
		if d = after(t, idle, d, Assign{Work{Turn: 2}}); d.Answer != "" || d.Outcome != "" {
			t.Errorf("it still knows %+v", d)
		}
	}
}
