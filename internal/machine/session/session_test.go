package session

import (
	"fmt"
	"strings"
	"testing"

	"stave/internal/machine"
	"stave/internal/model"
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

// TestTaint shows that each kind of content is noted once, whatever brings it in
// again, and that the first source is remembered.
func TestTaint(t *testing.T) {
	var d Data
	for _, c := range []struct {
		in   Tainted
		want *Tainted
	}{
		{Tainted{Source: "none"}, nil},
		{Tainted{Private: true, Source: "read"}, &Tainted{Private: true, Source: "read"}},
		{Tainted{Private: true, Source: "read"}, nil},
		{Tainted{Private: true, Untrusted: true, Source: "web"}, &Tainted{Untrusted: true, Source: "web"}},
		{Tainted{Private: true, Untrusted: true, Source: "web"}, nil},
	} {
		events, err := decide(active, d, Taint{c.in})
		if err != nil || (c.want == nil) != (len(events) == 0) || c.want != nil && events[0] != *c.want {
			t.Fatalf("%+v: %v, %v", c.in, events, err)
		}
		for _, e := range events {
			if d, err = evolve(d, machine.Arrow{}, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d.Taint != (Tainted{Private: true, Untrusted: true, Source: "read"}) {
		t.Errorf("in the end %+v", d.Taint)
	}
}

// TestRemember shows that an answer is kept once, and that there is a bound.
func TestRemember(t *testing.T) {
	r := Remembered{Tool: "bash", Scope: "call", Digest: "d"}
	d, err := evolve(Data{}, machine.Arrow{}, r)
	if err != nil || len(d.Remembered) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	if events, err := decide(active, d, Remember{r}); err != nil || events != nil {
		t.Errorf("kept twice: %v, %v", events, err)
	}
	if events, err := decide(active, d, Remember{Remembered{Tool: "bash", Scope: "tool"}}); err != nil || len(events) != 1 {
		t.Errorf("another is another: %v, %v", events, err)
	}
	full := Data{Remembered: make([]Remembered, MaxRemembered)}
	if _, err := evolve(full, machine.Arrow{}, r); err == nil || err.Error() != "more than 1000 answers to remember" {
		t.Errorf("got %v", err)
	}
}

// TestSwitchModel shows that only a change is recorded, with what was before.
func TestSwitchModel(t *testing.T) {
	d := Data{Created: Created{Config: Config{Model: "small"}}}
	if _, err := decide(active, d, SwitchModel{}); err == nil {
		t.Error("a model without a name was taken")
	}
	if events, err := decide(active, d, SwitchModel{"small"}); err != nil || events != nil {
		t.Errorf("%v, %v", events, err)
	}
	events, err := decide(active, d, SwitchModel{"large"})
	if err != nil || events[0] != (ModelSwitched{"large", "small"}) {
		t.Fatalf("%v, %v", events, err)
	}
	if d, err = evolve(d, machine.Arrow{}, events[0]); err != nil || d.Config.Model != "large" {
		t.Errorf("%+v, %v", d.Config, err)
	}
}

// TestWhatGoesOnByItself shows after which ends of a turn the session continues
// it: those that nobody wanted for good.
func TestWhatGoesOnByItself(t *testing.T) {
	for reason, want := range map[string]int{
		"pause": 1, "suspended": 1, BudgetReason + "tokens": 1, BudgetReason + "wall time": 1,
		"interrupt": 0, "interrupt: budget: mine": 0, "steer": 0, "stop": 0,
	} {
		d, err := Data{Running: true}.ended(TurnEnded{Root: true, Outcome: "interrupted", Reason: reason})
		if err != nil || len(d.Waiting) != want {
			t.Errorf("%s: %v, %v", reason, d.Waiting, err)
		}
	}
	d, err := Data{Running: true}.ended(TurnEnded{Outcome: "interrupted", Reason: BudgetReason + "tokens"})
	if err != nil || len(d.Waiting) != 0 {
		t.Errorf("another agent's: %v, %v", d.Waiting, err)
	}
}

// TestRewindForgets shows that a way back drops what waits, and is not taken
// under a running turn.
func TestRewindForgets(t *testing.T) {
	d := Data{Waiting: []Waiting{{Text: "x"}}, Failures: 3}
	d, err := evolve(d, machine.Arrow{}, Rewound{Seq: 4})
	if err != nil || len(d.Waiting) != 0 || d.Failures != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	for want, c := range map[string]struct {
		d Data
		c Rewind
	}{
		"a turn is running; interrupt it first": {Data{Running: true}, Rewind{Seq: 4}},
		"it needs the rune to go back to":       {Data{}, Rewind{}},
	} {
		if _, err := decide(active, c.d, c.c); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestLimitIsTheConfigs(t *testing.T) {
	d, err := evolve(Data{}, machine.Arrow{}, BudgetSet{Limit: model.Amount{Tokens: 7}})
	if err != nil || d.Config.Budget.Tokens != 7 {
		t.Errorf("%+v, %v", d.Config.Budget, err)
	}
}
