package machine

import (
	"strings"
	"testing"
)

func TestCheckPasses(t *testing.T) {
	if err := door.Check(); err != nil {
		t.Error(err)
	}
}

// TestCheckFinds shows every kind of bad table, and that it is called by what is
// wrong with it and by nothing else.
func TestCheckFinds(t *testing.T) {
	born := Born().On(hang{}, shut, Hung{})
	leave := Rest(shut, "").May(push{}, gone, Pushed{})
	end := End(gone, "")
	for _, c := range []struct {
		name    string
		initial State
		boxes   []Box
		want    string
	}{
		{"twin boxes", None, []Box{born, leave, leave, end}, `bad: two boxes for "shut"`},
		{"an arrow into nowhere", None, []Box{born, leave.On(swing{}, parted, Opened{}), end}, `bad: "shut" leads to "parted", which has no box`},
		{"a past arrow into nowhere", None, []Box{born, leave.Was(swing{}, parted, Opened{}), end}, `bad: "shut" leads to "parted", which has no box`},
		{"unreachable", None, []Box{born, leave, end, Rest(parted, "").On(remove{}, gone, Removed{})}, `bad: "parted" cannot be reached`},
		{"a dead end", None, []Box{born, leave.On(swing{}, parted, Opened{}), end, Rest(parted, "")}, `bad: "parted" is a dead end`},
		{"only a self-arrow", None, []Box{born, leave.On(swing{}, parted, Opened{}), end, Rest(parted, "").On(creak{}, parted, Creaked{})}, `bad: "parted" is a dead end`},
		{"only a past way out", None, []Box{born, leave.On(swing{}, parted, Opened{}), end, Rest(parted, "").Was(remove{}, gone, Removed{})}, `bad: "parted" is a dead end`},
		{"work without a job", None, []Box{born, Work(shut, nil, "").On(push{}, gone, Pushed{}), end}, `bad: "shut" works without a job`},
		{"a question nobody asks", None, []Box{born, Ask(shut, nil, "").May(push{}, gone, Pushed{}), end}, `bad: "shut" asks without a question a person can answer`},
		{"a question without a choice", None, []Box{born, Ask(shut, who{}, "").On(push{}, gone, Pushed{}), end}, `bad: "shut" asks without a question a person can answer`},
		{"an end that leads on", None, []Box{born, leave, End(gone, "").On(hang{}, shut, Hung{})}, `bad: "gone" is an end and has rows`},
		{"rows nobody can tell apart", None, []Box{born, leave.On(push{}, shut, Pushed{}), end}, `bad: "shut" has two rows for machine.push that record the same`},
		{"never born", None, []Box{leave, end}, "bad: it can never be born\nbad: \"shut\" cannot be reached\nbad: \"gone\" cannot be reached"},
		{"begins nowhere", parted, []Box{leave, end}, "bad: it begins in \"parted\", which has no box\nbad: \"shut\" cannot be reached\nbad: \"gone\" cannot be reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Make(Machine[int]{Name: "bad", Initial: c.initial, Boxes: c.boxes}).Check()
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestCheckTellsAll shows that one pass names every fault.
func TestCheckTellsAll(t *testing.T) {
	err := Make(Machine[int]{Name: "bad", Boxes: []Box{Born(), Work(shut, nil, "").On(push{}, gone, Pushed{})}}).Check()
	if n := strings.Count(err.Error(), "bad: "); n != 4 {
		t.Errorf("%d faults of 4:\n%v", n, err)
	}
}
