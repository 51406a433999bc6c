package machine_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/machine/workflow"
)

// room is a machine as the tests below look at it: everything they demand is
// derived from its table.
type room struct {
	spec    machine.Spec
	boxes   []machine.Box
	check   func() error
	restore func(machine.State, func(any) error) (machine.Instance, error)
	event   func(kind string) any
}

var rooms = []room{
	{session.Machine.Spec(), session.Machine.Boxes, session.Machine.Check, session.Machine.Restore, session.Machine.NewEvent},
	{agent.Machine.Spec(), agent.Machine.Boxes, agent.Machine.Check, agent.Machine.Restore, agent.Machine.NewEvent},
	{turn.Machine.Spec(), turn.Machine.Boxes, turn.Machine.Check, turn.Machine.Restore, turn.Machine.NewEvent},
	{tool.Machine.Spec(), tool.Machine.Boxes, tool.Machine.Check, tool.Machine.Restore, tool.Machine.NewEvent},
	{workflow.Machine.Spec(), workflow.Machine.Boxes, workflow.Machine.Check, workflow.Machine.Restore, workflow.Machine.NewEvent},
	{stage.Machine.Spec(), stage.Machine.Boxes, stage.Machine.Check, stage.Machine.Restore, stage.Machine.NewEvent},
}

// forEach runs a test in every room.
func forEach(t *testing.T, test func(t *testing.T, r room)) {
	t.Helper()
	for _, r := range rooms {
		t.Run(r.spec.Name, func(t *testing.T) { test(t, r) })
	}
}

// commands are the types of every command a room draws anywhere.
func (r room) commands() []reflect.Type {
	var types []reflect.Type
	for _, b := range r.boxes {
		for _, row := range b.Rows {
			if !slices.Contains(types, row.Command) {
				types = append(types, row.Command)
			}
		}
	}
	return types
}

func TestRoomsCheck(t *testing.T) {
	forEach(t, func(t *testing.T, r room) {
		if err := r.check(); err != nil {
			t.Error(err)
		}
	})
}

// TestRoomsSayWhoseTheyAre shows that kinds begin with the machine's name and
// that every box which is not an end says in a note what goes on there.
func TestRoomsSayWhoseTheyAre(t *testing.T) {
	forEach(t, func(t *testing.T, r room) {
		for _, tr := range r.spec.Transitions {
			if tr.Rune != "" && !strings.HasPrefix(tr.Rune, r.spec.Name+".") {
				t.Errorf("%s records %s", r.spec.Name, tr.Rune)
			}
		}
		for _, s := range r.spec.States {
			if s.Mode != machine.ModeEnd && s.Note == "" {
				t.Errorf("%s has no note", s.Name)
			}
		}
	})
}

// TestEveryPair shows what each state makes of each command: what is drawn is
// taken along a drawn row, changes nothing, or is refused with a reason; what is
// not drawn is refused with what is possible instead. The data is as empty as a
// snapshot may be; the stories of package world try the same with real data.
func TestEveryPair(t *testing.T) {
	forEach(t, func(t *testing.T, r room) {
		for _, b := range r.boxes {
			for _, c := range r.commands() {
				tryPair(t, r, b, c)
			}
		}
	})
}

func tryPair(t *testing.T, r room, b machine.Box, c reflect.Type) {
	t.Helper()
	i, err := r.restore(b.State, func(any) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	after, moves, err := i.Step(reflect.Zero(c).Interface())
	drawn := slices.ContainsFunc(b.Rows, func(row machine.Row) bool { return row.Command == c && !row.Past })
	var refusal *machine.Refusal
	switch {
	case err != nil && !errors.As(err, &refusal):
		t.Errorf("%s on %s: not a refusal: %v", b.State, c, err)
	case err != nil && drawn && refusal.Reason == "":
		t.Errorf("%s draws %s and refuses it without a reason", b.State, c)
	case err == nil && !drawn:
		t.Errorf("%s does not draw %s and takes it", b.State, c)
	case err == nil && !hasRow(b, c, moves, after.State()):
		t.Errorf("%s on %s: no row records %v", b.State, c, moves)
	}
}

func hasRow(b machine.Box, c reflect.Type, moves []machine.Move, to machine.State) bool {
	if len(moves) == 0 {
		return to == b.State
	}
	return slices.ContainsFunc(b.Rows, func(row machine.Row) bool {
		return row.Command == c && row.To == to && slices.EqualFunc(row.Events, moves, func(t reflect.Type, m machine.Move) bool {
			return t == reflect.TypeOf(m.Event)
		})
	})
}

// TestEnds shows that nothing leaves an end, whatever it is told.
func TestEnds(t *testing.T) {
	want := map[string]string{
		"session":  "archived",
		"agent":    "terminated failed",
		"turn":     "",
		"tool":     "denied completed_result error_result timeout_result cancelled_result unknown_result",
		"workflow": "completed failed cancelled", "stage": "exited failed cancelled",
	}
	forEach(t, func(t *testing.T, r room) {
		var ends []string
		for _, b := range r.boxes {
			if b.Mode != machine.ModeEnd {
				continue
			}
			ends = append(ends, string(b.State))
			if len(b.Rows) > 0 {
				t.Errorf("%s is an end with %d rows", b.State, len(b.Rows))
			}
		}
		if got := strings.Join(ends, " "); got != want[r.spec.Name] {
			t.Errorf("ends %q, want %q", got, want[r.spec.Name])
		}
	})
}

// TestKinds keeps the list of all rune kinds: a kind is written into logs that
// are kept for ever, so a new or a changed one is to be seen in review.
func TestKinds(t *testing.T) {
	var kinds []string
	for _, r := range rooms {
		for _, tr := range r.spec.Transitions {
			if tr.Rune != "" && !slices.Contains(kinds, tr.Rune) {
				kinds = append(kinds, tr.Rune)
			}
			if tr.Rune != "" && r.event(tr.Rune) == nil {
				t.Errorf("%s cannot be read back", tr.Rune)
			}
		}
	}
	slices.Sort(kinds)
	machine.Golden(t, "kinds.txt", strings.Join(kinds, "\n")+"\n")
}
