package tool

import (
	"testing"

	"stave/internal/machine"
)

// TestOneResult shows that a call which has its result takes no second one, not
// even the same.
func TestOneResult(t *testing.T) {
	a := machine.Arrow{From: denied, To: denied}
	d, err := evolve(Data{Call: Call{CallID: "a"}}, a, Result{CallID: "a", Status: Refused})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = evolve(d, a, Result{CallID: "a", Status: Refused}); err == nil || err.Error() != "a call has exactly one result" {
		t.Errorf("got %v", err)
	}
}

// TestEveryStatusHasItsEnd shows that each status leads to an end box of its own.
func TestEveryStatusHasItsEnd(t *testing.T) {
	boxes := map[machine.State]bool{}
	for _, b := range Machine.Boxes {
		boxes[b.State] = b.Mode == machine.ModeEnd
	}
	reached := map[machine.State]Status{}
	for _, s := range []Status{Success, Error, Timeout, Cancelled, Refused, Unknown} {
		to := ends[s]
		if !boxes[to] || reached[to] != "" {
			t.Errorf("%s leads to %q, as %q does", s, to, reached[to])
		}
		reached[to] = s
	}
}

func TestSafety(t *testing.T) {
	for safety, want := range map[string][2]bool{
		"read_only": {true, true}, "idempotent": {false, true}, "side_effect": {false, false}, "": {false, false}, "nice": {false, false},
	} {
		d := Data{Call: Call{Safety: safety}}
		if got := [2]bool{d.Harmless(), d.Repeatable()}; got != want {
			t.Errorf("%q: harmless and repeatable %v", safety, got)
		}
	}
}

// TestSigned shows that an answer carries its sender's name whatever it claims.
func TestSigned(t *testing.T) {
	const ann = "user:ann"
	for _, c := range []struct{ got, want any }{
		{Approve{By: "x"}.Signed(ann), Approve{By: ann}},
		{Reply{By: "x", Text: "t"}.Signed(ann), Reply{By: ann, Text: "t"}},
		{Deny{By: "x"}.Signed(ann), Deny{By: ann}},
		{Happened{By: "x"}.Signed(ann), Happened{By: ann}},
		{NotHappened{By: "x"}.Signed(ann), NotHappened{By: ann}},
		{Retry{By: "x"}.Signed(ann), Retry{By: ann}},
	} {
		if c.got != c.want {
			t.Errorf("%#v, want %#v", c.got, c.want)
		}
	}
}

// TestLazy shows that output may be written late and a declared intent may not.
func TestLazy(t *testing.T) {
	if !(Progress{Chunk: "x"}).Lazy() || (Progress{Intent: []byte("{}")}).Lazy() {
		t.Error("an intent must be durable before the effect, output need not be")
	}
}

func TestNoRule(t *testing.T) {
	if _, err := decide(executing, Data{}, struct{}{}); err == nil || err.Error() != "no rule for struct {}" {
		t.Errorf("got %v", err)
	}
}

// TestAnswers shows which answer fits which question: words to one, permission
// to a call, and what of it may be remembered.
func TestAnswers(t *testing.T) {
	question, call := Data{Call: Call{CallID: "a", Safety: Question}}, Data{Call: Call{CallID: "a", Digest: "d"}}
	for _, c := range []struct {
		d    Data
		c    machine.Command
		want string // of the refusal, "" if it is taken
	}{
		{question, Reply{Text: "yes"}, ""},
		{question, Reply{}, "the answer is empty"},
		{question, Approve{}, "it is a question: answer it with words"},
		{call, Reply{Text: "yes"}, "it is no question: approve or deny it"},
		{call, Approve{}, ""},
		{call, Approve{Remember: RememberCall}, ""},
		{call, Approve{Remember: RememberTool, Digest: "d"}, ""},
		{call, Approve{Remember: "always"}, `an answer is remembered for the call or the tool, not for "always"`},
		{call, Approve{Digest: "other"}, "the answer is for other arguments than the call has"},
	} {
		events, err := decide(awaitingApproval, c.d, c.c)
		if got := errText(err); got != c.want || (c.want == "") != (len(events) == 1) {
			t.Errorf("%+v: %v, %q", c.c, events, got)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestWhatRanBringsItsTraits shows that a result says what came in only if the
// call ran: one that was refused, invalid or withdrawn brought nothing.
func TestWhatRanBringsItsTraits(t *testing.T) {
	d := Data{Call: Call{CallID: "a", Tool: "web", Traits: []string{Untrusted}}}
	invalid := d
	invalid.Call.Invalid = "no"
	for _, c := range []struct {
		s    machine.State
		d    Data
		c    machine.Command
		want int
	}{
		{executing, d, Succeed{}, 1},
		{executing, d, Fail{}, 1},
		{executing, d, Cancel{}, 1},
		{outcomeUnknown, d, GiveUp{}, 1},
		{pendingCall, invalid, Judge{}, 0},
		{pendingCall, d, Judge{Verdict{Answer: Refuse}}, 0},
		{awaitingApproval, d, Deny{}, 0},
		{awaitingApproval, d, Cancel{}, 0},
		{pendingCall, d, Withdraw{}, 0},
	} {
		events, err := decide(c.s, c.d, c.c)
		if err != nil {
			t.Fatal(err)
		}
		r := events[len(events)-1].(Result)
		if len(r.Traits) != c.want || (r.Tool != "") != (c.want > 0) {
			t.Errorf("%s on %T: %+v", c.s, c.c, r)
		}
	}
}
