package agent

import "testing"

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
