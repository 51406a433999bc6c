package session

import (
	"fmt"
	"strings"
	"testing"

	"stave/internal/machine"
)

// TestNext shows the order of waiting work: what was cut off, steers, the queue;
// each in the order it came.
func TestNext(t *testing.T) {
	for _, c := range []struct{ waiting, want string }{
		{"queue", "0"},
		{"queue queue", "0"},
		{"queue steer", "1"},
		{"queue steer steer", "1"},
		{"steer queue continue", "2"},
		{"continue steer", "0"},
		{"queue steer continue steer", "2"},
	} {
		var d Data
		for mode := range strings.FieldsSeq(c.waiting) {
			d.Waiting = append(d.Waiting, Waiting{Mode: mode})
		}
		if got := fmt.Sprint(d.next()); got != c.want {
			t.Errorf("%s: %s is next, want %s", c.waiting, got, c.want)
		}
	}
}

func TestWaitingIsBounded(t *testing.T) {
	d := Data{Waiting: make([]Waiting, MaxWaiting)}
	if _, err := d.say(Say{Text: "one too many"}); err == nil || err.Error() != "256 messages wait already" {
		t.Errorf("got %v", err)
	}
}

// TestContinueIsBounded shows that a session which is stopped over and over has
// at most one continuation waiting: it takes no turn while it is stopped.
func TestContinueIsBounded(t *testing.T) {
	d := Data{Running: true}
	d, err := d.ended(TurnEnded{Root: true, Outcome: "interrupted", Reason: "pause"})
	if err != nil || len(d.Waiting) != 1 || d.Waiting[0].Mode != Continue {
		t.Fatalf("%v, %v", d.Waiting, err)
	}
	d, err = d.admitted(TurnAdmitted{Turn: 1, Mode: Continue})
	if err != nil || len(d.Waiting) != 0 {
		t.Errorf("%v, %v", d.Waiting, err)
	}
}

func TestChildrensTurnsAreCounted(t *testing.T) {
	d, err := Data{Running: true, Failures: 1}.ended(TurnEnded{Outcome: "error", Calls: 2})
	if err != nil || !d.Running || d.Failures != 1 || d.Stats.Calls != 2 {
		t.Errorf("a child's turn ended the root's: %+v, %v", d, err)
	}
}

func TestUnsuspendForgets(t *testing.T) {
	d, err := evolve(Data{Failures: 5, Crashes: 3, Why: CrashLoop}, machine.Arrow{}, Unsuspended{})
	if err != nil || d.Failures != 0 || d.Crashes != 0 || d.Why != "" {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestNoRule(t *testing.T) {
	if _, err := decide(active, Data{}, struct{}{}); err == nil || err.Error() != "no rule for struct {}" {
		t.Errorf("got %v", err)
	}
}
