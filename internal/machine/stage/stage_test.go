package stage

import (
	"encoding/json"
	"reflect"
	"testing"

	"stave/internal/machine"
)

// act returns a stage whose first attempt acts, of two, with three turns each.
func act() Data {
	return Data{
		Begun:   Begun{ExecutionID: "r.Plan.1", Stage: "Plan", Visit: 1, Limits: Limits{TurnCap: 3, MaxAttempts: 2, Completion: "hand"}},
		Attempt: 1, Tools: []string{"read"}, AgentID: "x",
	}
}

// TestEndTurn shows what the end of a turn means to a stage, by what it has and
// what is left: a result counts first, then the cap.
func TestEndTurn(t *testing.T) {
	done := json.RawMessage(`{}`)
	for _, c := range []struct {
		used   int
		output json.RawMessage
		end    EndTurn
		want   machine.Event
	}{
		{0, done, EndTurn{Requests: 1, Outcome: "completed"}, ActEnded{Requests: 1}},
		{0, done, EndTurn{Requests: 3, Outcome: "completed"}, ActEnded{Requests: 3}},
		{0, done, EndTurn{Requests: 1, Outcome: "interrupted", Cut: true}, ActEnded{Requests: 1}},
		{0, done, EndTurn{Requests: 1, Outcome: "error"}, ActEnded{Requests: 1}},
		{0, nil, EndTurn{Requests: 3, Outcome: "completed"}, ActEnded{Requests: 3, CapHit: true}},
		{2, nil, EndTurn{Requests: 1, Outcome: "interrupted", Cut: true}, ActEnded{Requests: 1, CapHit: true}},
		{2, nil, EndTurn{Requests: 1, Outcome: "error"}, ActEnded{Requests: 1, CapHit: true}},
		{1, nil, EndTurn{Requests: 1, Outcome: "interrupted", Cut: true}, TurnTaken{1}},
		{1, nil, EndTurn{Requests: 1, Outcome: "completed"}, Reminded{1, 1}},
		{0, nil, EndTurn{Requests: 1, Outcome: "error", Reason: "auth"}, ActEnded{Requests: 1, Error: "error: auth"}},
		{0, nil, EndTurn{Requests: 1, Outcome: "interrupted", Reason: "interrupt"}, ActEnded{Requests: 1, Error: "interrupted: interrupt"}},
	} {
		d := act()
		d.Used, d.Output = c.used, c.output
		events, err := decide(acting, d, c.end)
		if err != nil || len(events) != 1 || !reflect.DeepEqual(events[0], c.want) {
			t.Errorf("%d used, %+v: %+v %v, want %+v", c.used, c.end, events, err, c.want)
		}
	}
}

// TestAssert shows what a verdict comes to, and that a stage never ends badly
// without a reason.
func TestAssert(t *testing.T) {
	for _, c := range []struct {
		change func(*Data)
		say    Assert
		want   machine.Event
	}{
		{func(*Data) {}, Assert{Verdict: OK}, Asserted{OK, ""}},
		{func(*Data) {}, Assert{Verdict: Skip}, Asserted{Skip, ""}},
		{func(*Data) {}, Assert{Fail, "no steps"}, Asserted{Fail, "no steps"}},
		{func(*Data) {}, Assert{Verdict: Fail}, Asserted{Fail, "its assertion does not hold"}},
		{func(d *Data) { d.CapHit = true }, Assert{Verdict: Fail}, Asserted{Fail, "its 3 turns were used up"}},
		{func(d *Data) { d.Gate = Retry }, Assert{Verdict: Retry}, Retried{2, "its gate did not open"}},
		{func(d *Data) { d.Error = "no key" }, Assert{Verdict: Retry}, Retried{2, "no key"}},
		{func(*Data) {}, Assert{Retry, "better"}, Retried{2, "better"}},
		{func(d *Data) { d.Attempt = 2 }, Assert{Retry, "better"}, Asserted{Fail, "better (attempt 2 of 2)"}},
	} {
		d := act()
		c.change(&d)
		events, err := decide(asserting, d, c.say)
		if err != nil || len(events) != 1 || events[0] != c.want {
			t.Errorf("%+v: %+v %v, want %+v", c.say, events, err, c.want)
		}
	}
}

// TestRetryForgets shows that an attempt begins with nothing of the one before but
// the reason for it.
func TestRetryForgets(t *testing.T) {
	d := act()
	d.Context, d.All, d.Prompt, d.Used, d.Gate, d.CapHit, d.Error, d.Output = []byte("{}"), true, "x", 3, Skip, true, "e", []byte("{}")
	got, err := evolve(d, machine.Arrow{}, Retried{2, "why"})
	want := Data{Begun: d.Begun, Attempt: 2, Reason: "why"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
}

// TestEnvelope shows which tools a stage allows.
func TestEnvelope(t *testing.T) {
	d := act()
	if !d.Allows("read") || !d.Allows("hand") || d.Allows("write") || d.Allows("") {
		t.Errorf("%+v", d)
	}
	if d.All = true; !d.Allows("write") {
		t.Error("all is not all")
	}
}

// TestNames shows that no two attempts share an agent or a job.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, execution := range []string{"r.Plan.1", "r.Plan.2", "r.Plan.11", "r.Plan_1.1", "r.Test.1"} {
		for attempt := 1; attempt < 12; attempt++ {
			id := AgentID(execution, attempt)
			if seen[id] {
				t.Errorf("%s twice", id)
			}
			seen[id] = true
		}
	}
	keys := map[string]bool{}
	for _, s := range []machine.State{setup, initial, gate, asserting, retrying} {
		for attempt := 1; attempt < 3; attempt++ {
			key := due(s, Data{Attempt: attempt}).(interface{ Key() string }).Key()
			if keys[key] {
				t.Errorf("a second job %s: what a phase reports late would be taken for another's", key)
			}
			keys[key] = true
		}
	}
}
