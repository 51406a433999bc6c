package turn

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/machine"
	"stave/internal/model"
)

// TestBackoff shows how long a failed call waits: doubling up to a bound, at
// least what the provider asks for, a little more by chance, and sane however
// often it was tried.
func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		attempt       int
		retryMs       int64
		jitter        int64
		least, atMost int64
		mayTry        int
	}{
		{attempt: 1, least: 200, atMost: 200},
		{attempt: 2, least: 400, atMost: 400},
		{attempt: 3, least: 800, atMost: 800},
		{attempt: 1, jitter: 50, least: 250, atMost: 250},
		{attempt: 1, jitter: math.MaxInt64, least: 200, atMost: 250},
		{attempt: 1, jitter: math.MinInt64, least: 150, atMost: 250},
		{attempt: 1, retryMs: 3000, least: 3000, atMost: 3000},
		{attempt: 1, retryMs: math.MaxInt64, least: maxBackoffMs, atMost: maxBackoffMs},
		{attempt: 7, least: maxBackoffMs, atMost: maxBackoffMs, mayTry: 1000},
		{attempt: 58, least: maxBackoffMs, atMost: maxBackoffMs, mayTry: 1000},
		{attempt: 900, least: maxBackoffMs, atMost: maxBackoffMs, mayTry: 1000},
	} {
		d := Data{Attempt: c.attempt, Started: Started{MaxAttempts: c.mayTry}}
		events, err := d.fail(Fail{Retryable: true, RetryMs: c.retryMs, JitterSeed: c.jitter})
		if err != nil {
			t.Fatal(err)
		}
		got := events[0].(Retried)
		if got.Attempt != c.attempt+1 || got.WaitMs < c.least || got.WaitMs > c.atMost {
			t.Errorf("%+v: attempt %d after %d ms", c, got.Attempt, got.WaitMs)
		}
	}
}

// TestFailGivesUp shows when a failed call ends its turn: after the last attempt,
// and when another would be no use.
func TestFailGivesUp(t *testing.T) {
	for _, c := range []struct {
		d Data
		f Fail
	}{
		{Data{Attempt: DefaultMaxAttempts}, Fail{Type: "overloaded", Retryable: true}},
		{Data{Attempt: 2, Started: Started{MaxAttempts: 2}}, Fail{Type: "overloaded", Retryable: true}},
		{Data{Attempt: 1}, Fail{Type: "auth"}},
	} {
		events, err := c.d.fail(c.f)
		if e, ok := events[0].(Error); err != nil || !ok || e.Type != c.f.Type {
			t.Errorf("%+v: %v %v", c, events, err)
		}
	}
}

// TestGroups shows that neighbours which may run side by side share a group, and
// that everything else has its own.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		parallel []bool
		want     []int
	}{
		{[]bool{true}, []int{0}},
		{[]bool{true, true, true}, []int{0, 0, 0}},
		{[]bool{false, false}, []int{0, 1}},
		{[]bool{true, false, true, true, false}, []int{0, 1, 2, 2, 3}},
	} {
		var calls []Proposal
		for i, p := range c.parallel {
			calls = append(calls, Proposal{CallID: string(rune('a' + i)), Parallel: p})
		}
		events, err := Data{}.receive(ReceiveToolCalls{Calls: calls})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, events[0].(ToolCallsReceived).Groups); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.parallel, diff)
		}
	}
}

// TestSaid shows that a fragment added to one copy is not heard by another, and
// that what was said survives being saved.
func TestSaid(t *testing.T) {
	var nothing *Said
	base := nothing.plus("a").plus("b")
	left, right := base.plus("left"), base.plus("right")
	if got := nothing.String() + "|" + base.String() + "|" + left.String() + "|" + right.String(); got != "|ab|ableft|abright" {
		t.Errorf("got %s", got)
	}
	b, err := json.Marshal(left)
	if err != nil {
		t.Fatal(err)
	}
	var back Said
	if err := json.Unmarshal(b, &back); err != nil || back.String() != "ableft" || back.plus("!").String() != "ableft!" {
		t.Errorf("read back %q, %v", back.String(), err)
	}
	if err := json.Unmarshal([]byte("7"), &back); err == nil {
		t.Error("a number was read as text")
	}
}

func TestStartsOnce(t *testing.T) {
	_, err := evolve(Data{Started: Started{Number: 1}}, machine.Arrow{}, Started{Number: 1})
	if err == nil || err.Error() != "a turn starts once" {
		t.Errorf("got %v", err)
	}
}

func TestNoRule(t *testing.T) {
	if _, err := decide(idle, Data{}, struct{}{}); err == nil || err.Error() != "no rule for struct {}" {
		t.Errorf("got %v", err)
	}
}

// TestReadDelta shows that the quick reader agrees with the decoder on whatever
// it takes, and leaves to it whatever is not plain.
func TestReadDelta(t *testing.T) {
	for _, c := range []struct {
		payload string
		plain   bool
	}{
		{`{"content":"some words"}`, true},
		{`{"content":"Grüße, 世界"}`, true},
		{`{"content":""}`, true},
		{`{"content":"a\"b"}`, false},
		{`{"content":"a\nb"}`, false},
		{"{\"content\":\"a\nb\"}", false},
		{"{\"content\":\"\xff\"}", false},
		{`{"content":"a","item_done":true}`, false},
		{`{"content":"a","x":"b"}`, false},
		{`{"reasoning":"a"}`, false},
		{`{}`, false},
		{``, false},
	} {
		got, plain := ReadDelta([]byte(c.payload))
		if plain != c.plain {
			t.Errorf("%s: plain %t", c.payload, plain)
		}
		var want AssistantDelta
		if err := json.Unmarshal([]byte(c.payload), &want); plain && (err != nil || got != want) {
			t.Errorf("%s: %+v, want %+v (%v)", c.payload, got, want, err)
		}
	}
}

// TestHeld shows how long a turn holds what was set aside for a model call: until
// that call is over, however it ends, and for one call at a time.
func TestHeld(t *testing.T) {
	amount := model.Amount{Tokens: 9, ModelCalls: 1}
	held, err := evolve(Data{Requests: 2, Attempt: 1}, machine.Arrow{}, Reserved{2, 1, amount})
	if err != nil || held.Held != amount {
		t.Fatalf("%+v, %v", held, err)
	}
	for _, e := range []machine.Event{
		Compacted{Messages: 1, Summary: "x"},
		ToolCallsReceived{CallIDs: []string{"a"}, Groups: []int{0}},
		Retried{Attempt: 2},
		Completed{},
		Interrupted{},
		Error{},
	} {
		d, err := evolve(held, machine.Arrow{From: streaming}, e)
		if err != nil || d.Held != (model.Amount{}) {
			t.Errorf("after %T: %+v, %v", e, d.Held, err)
		}
	}
	for _, e := range []machine.Event{AssistantDelta{Content: "x"}, StopRequested{Stop: StopPause}} {
		if d, err := evolve(held, machine.Arrow{From: streaming}, e); err != nil || d.Held != amount {
			t.Errorf("after %T: %+v, %v", e, d.Held, err)
		}
	}
	for _, r := range []Reserved{{2, 1, amount}, {2, 2, amount}, {1, 1, amount}} {
		if _, err := evolve(held, machine.Arrow{}, r); err == nil {
			t.Errorf("%+v was taken too", r)
		}
	}
}

// TestBillsAddUp shows that a turn's books hold every call, summaries too.
func TestBillsAddUp(t *testing.T) {
	bill := Bill{Usage: model.Usage{InputTokens: 3, OutputTokens: 2}, MicroUSD: 7}
	var d Data
	var err error
	for _, e := range []machine.Event{
		Compacted{Messages: 1, Summary: "x", Bill: bill},
		ToolCallsReceived{CallIDs: []string{"a"}, Groups: []int{0}, Bill: bill},
		ToolsFinished{},
		Completed{Bill: bill},
	} {
		if d, err = evolve(d, machine.Arrow{From: streaming}, e); err != nil {
			t.Fatal(err)
		}
	}
	if d.Usage.InputTokens != 9 || d.Usage.OutputTokens != 6 || d.MicroUSD != 21 || d.Compactions != 1 {
		t.Errorf("%+v %d %d", d.Usage, d.MicroUSD, d.Compactions)
	}
}

func TestSummaryStandsForSomething(t *testing.T) {
	for _, c := range []Compacted{{}, {Messages: 1}, {Summary: "x"}, {Messages: -1, Summary: "x"}} {
		if _, err := evolve(Data{}, machine.Arrow{}, c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

// TestReasons shows whose words an interrupt records: the runtime's, by which the
// session goes, are never a person's.
func TestReasons(t *testing.T) {
	for want, i := range map[string]Interrupt{
		"interrupt": {}, "interrupt: budget: x": {Note: "budget: x"}, "budget: x": {Reason: "budget: x"}, "stop": {Note: "n", Reason: "stop"},
	} {
		if got := i.reason(); got != want {
			t.Errorf("%+v: %q", i, got)
		}
	}
	var i Interrupt
	if err := json.Unmarshal([]byte(`{"note":"n","reason":"budget: x","Reason":"budget: x"}`), &i); err != nil || i.Reason != "" {
		t.Errorf("a person set %q (%v)", i.Reason, err)
	}
}
