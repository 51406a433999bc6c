package machine

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStep shows what a command does: the row its events choose, a row with two
// events, a self-arrow, a command that changes nothing.
func TestStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []Command
		take   Command
		want   []Move
		state  State
	}{
		{"birth", nil, hang{"oak"}, []Move{{Arrow{"machine.hung", None, shut}, Hung{"oak"}}}, shut},
		{"one event", []Command{hang{}}, push{1}, []Move{{Arrow{"machine.pushed", shut, opening}, Pushed{}}}, opening},
		{
			"two events: the first moves, the second is recorded where it leads",
			[]Command{hang{}},
			push{10},
			[]Move{
				{Arrow{"machine.broken", shut, gone}, Broken{}},
				{Arrow{"machine.removed", gone, gone}, Removed{}},
			},
			gone,
		},
		{"self-arrow", []Command{hang{}, push{1}}, creak{}, []Move{{Arrow{"machine.creaked", opening, opening}, Creaked{}}}, opening},
		{"nothing happens", []Command{hang{}}, push{0}, nil, shut},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := at(t, c.before...)
			stood := before.State()
			after, moves, err := before.Step(c.take)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, moves); diff != "" {
				t.Errorf("moves (-want +got):\n%s", diff)
			}
			if after.State() != c.state {
				t.Errorf("it is %q, want %q", after.State(), c.state)
			}
			if before.State() != stood {
				t.Errorf("the instance before the step moved to %q", before.State())
			}
		})
	}
}

// TestFoldRepeatsStep shows that the recorded moves lead a fresh instance to
// where the commands led the first one.
func TestFoldRepeatsStep(t *testing.T) {
	live, replayed := door.New(), door.New()
	for _, c := range []Command{hang{"oak"}, push{1}, creak{}, creak{}, swing{}, remove{}} {
		next, moves, err := live.Step(c)
		if err != nil {
			t.Fatal(err)
		}
		live = next
		for _, m := range moves {
			if replayed, err = replayed.Fold(m); err != nil {
				t.Fatal(err)
			}
		}
		if live.State() != replayed.State() || live.Data() != replayed.Data() {
			t.Fatalf("after %T: live %v %v, replayed %v %v", c, live.State(), live.Data(), replayed.State(), replayed.Data())
		}
	}
}

// TestFoldRefuses shows what a log may not hold.
func TestFoldRefuses(t *testing.T) {
	opening2 := at(t, hang{}, push{1}, creak{}, creak{})
	for _, c := range []struct {
		name string
		from Instance
		move Move
		want string
	}{
		{"another state", at(t, hang{}), Move{Arrow{"machine.opened", opening, parted}, Opened{}}, `door: machine.opened leaves "opening", but the machine is in "shut"`},
		{"an arrow that is not drawn", at(t, hang{}), Move{Arrow{"machine.opened", shut, parted}, Opened{}}, `door: no arrow machine.opened from "shut" to "parted"`},
		{"what may not follow", opening2, Move{Arrow{"machine.creaked", opening, opening}, Creaked{}}, "door: machine.creaked: it creaks twice at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, err := c.from.Fold(c.move)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if after.State() != c.from.State() {
				t.Errorf("it moved to %q all the same", after.State())
			}
		})
	}
}

// TestWas shows that an arrow of the past is replayed, but neither taken nor
// offered.
func TestWas(t *testing.T) {
	i := at(t, hang{})
	if _, _, err := i.Step(bribe{}); err == nil {
		t.Error("a past arrow was taken")
	}
	if possible := strings.Join(i.Possible(false), " "); strings.Contains(possible, "bribe") {
		t.Errorf("a past arrow is offered: %s", possible)
	}
	after, err := i.Fold(Move{Arrow{"machine.bribed", shut, opening}, Bribed{}})
	if err != nil || after.State() != opening {
		t.Errorf("replaying it: %v, now %q", err, after.State())
	}
}

// TestRefusals shows that a refusal names the machine, where it stands, what was
// asked, why not, and what a person may do instead; Path and Last are the world's.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		from Instance
		take Command
		want string
	}{
		{"not drawn", at(t, hang{}), swing{}, "door cannot swing while it is shut (possible: push)"},
		{"not born", at(t), push{1}, "door cannot push while it is not there"},
		{"decided against", at(t, hang{}), push{-1}, "door cannot push while it is shut: it opens inwards (possible: push)"},
		{"may not be remembered", at(t, hang{}, push{1}, creak{}, creak{}), creak{}, "door cannot creak while it is opening: it creaks twice at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, moves, err := c.from.Step(c.take)
			var r *Refusal
			if !errors.As(err, &r) || r.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if after.State() != c.from.State() || moves != nil {
				t.Errorf("it moved: %q %v", after.State(), moves)
			}
		})
	}
	r := &Refusal{Machine: "door", Path: "house/door:front", State: shut, Command: "swing", Possible: []string{"push", "knock"}, Last: []string{"1 door.hung", "2 door.shut"}}
	const want = "door house/door:front cannot swing while it is shut (possible: push, knock) (last: 1 door.hung, 2 door.shut)"
	if r.Error() != want {
		t.Errorf("got  %s\nwant %s", r, want)
	}
	r.Path = "door" // a machine that is alone of its kind is named once
	if strings.Contains(r.Error(), "door door") {
		t.Errorf("it names the machine twice: %s", r)
	}
}

// TestUndrawnDecision shows that a Decide at odds with its table is the
// program's fault, not the sender's.
func TestUndrawnDecision(t *testing.T) {
	_, _, err := at(t, hang{}).Step(knock{})
	const want = `door decided machine.Creaked in "shut" on knock, which its table does not draw`
	if err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	var r *Refusal
	if errors.As(err, &r) {
		t.Error("it is told to the sender as a refusal")
	}
}

// TestDue shows that only work and ask boxes have something outstanding, and
// that a self-arrow leaves the job as it was.
func TestDue(t *testing.T) {
	for _, c := range []struct {
		in   Instance
		mode Mode
		want any
	}{
		{at(t), ModeRest, nil},
		{at(t, hang{"oak"}), ModeRest, nil},
		{at(t, hang{"oak"}, push{1}), ModeWork, motor{"oak"}},
		{at(t, hang{"oak"}, push{1}, creak{}), ModeWork, motor{"oak"}},
		{at(t, hang{"oak"}, push{1}, swing{}), ModeAwait, nil},
		{at(t, hang{"oak"}, push{10}), ModeEnd, nil},
	} {
		if got := c.in.Due(); c.in.Mode() != c.mode || got != c.want {
			t.Errorf("%q: %s %v, want %s %v", c.in.State(), c.in.Mode(), got, c.mode, c.want)
		}
	}
	nobody := Make(Machine[int]{Name: "idler", Initial: shut, Boxes: []Box{Work(shut, motor{}, "")}})
	if got := nobody.New().Due(); got != nil {
		t.Errorf("a machine without Due wants %v", got)
	}
	if got := Make(Machine[int]{Initial: "nowhere"}).New().Mode(); got != ModeRest {
		t.Errorf("a state without a box has mode %s", got)
	}
}

// TestRestore shows that a snapshot brings an instance back, and only to a state
// the table has.
func TestRestore(t *testing.T) {
	fill := func(d any) error { *d.(*doorData) = doorData{Wood: "elm"}; return nil }
	i, err := door.Restore(opening, fill)
	if err != nil || i.State() != opening || i.Data() != (doorData{Wood: "elm"}) || i.Machine() != "door" {
		t.Errorf("got %v, %v", i, err)
	}
	if _, err := door.Restore("ajar", fill); err == nil || err.Error() != `restoring door: no state "ajar"` {
		t.Errorf("an unknown state: %v", err)
	}
	if _, err := door.Restore(opening, func(any) error { return errors.New("torn") }); err == nil || err.Error() != "restoring door: torn" {
		t.Errorf("data that cannot be read: %v", err)
	}
}

// TestNewEvent shows that every kind can be read back, those of the past too, and
// no other.
func TestNewEvent(t *testing.T) {
	if e, ok := door.NewEvent("machine.hung").(*Hung); !ok || *e != (Hung{}) {
		t.Errorf("machine.hung is %v", e)
	}
	if _, ok := door.NewEvent("machine.bribed").(*Bribed); !ok {
		t.Error("a kind of the past is not known")
	}
	if e := door.NewEvent("machine.painted"); e != nil {
		t.Errorf("an unknown kind is %v", e)
	}
}

func TestNames(t *testing.T) {
	if got := Kind(Hung{}); got != "machine.hung" {
		t.Errorf("kind %s", got)
	}
	if got := Verb(doorData{}) + " " + Room(Late{}); got != "door_data machine" {
		t.Errorf("verb and room %s", got)
	}
}

// TestBuildersDoNotShare shows that two boxes begun from one do not write into
// each other's rows.
func TestBuildersDoNotShare(t *testing.T) {
	base := Rest(shut, "").On(push{}, opening, Pushed{}).On(knock{}, knocked, Knocked{}).On(swing{}, parted, Opened{})
	one := base.On(creak{}, shut, Creaked{})
	base.On(remove{}, gone, Removed{})
	if got := one.Rows[3].To; got != shut {
		t.Errorf("the row of one box leads to %q, as another's", got)
	}
}
