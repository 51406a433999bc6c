package machine

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// The door is the smallest machine with everything a table can have: birth, all
// five modes, a self-arrow, two rows for one command, a row with two events, and
// a row that is no longer taken.
const (
	shut    State = "shut"
	opening State = "opening"
	knocked State = "knocked"
	parted  State = "parted"
	gone    State = "gone"
)

type (
	hang   struct{ Wood string }
	push   struct{ Strength int }
	knock  struct{}
	answer struct{}
	swing  struct{}
	creak  struct{}
	remove struct{}
	bribe  struct{}

	Hung    struct{ Wood string }
	Pushed  struct{}
	Broken  struct{}
	Knocked struct{}
	Opened  struct{}
	Creaked struct{}
	Removed struct{}
	Bribed  struct{}

	motor struct{ Wood string }
	who   struct{}

	doorData struct {
		Wood   string
		Creaks int
	}
)

var door = Make(Machine[doorData]{
	Name: "door",
	Boxes: []Box{
		Born().On(hang{}, shut, Hung{}),
		Rest(shut, "nothing happens").
			May(push{}, opening, Pushed{}).
			On(push{}, gone, Broken{}, Removed{}).
			On(knock{}, knocked, Knocked{}).
			Was(bribe{}, opening, Bribed{}),
		Work(opening, motor{}, "it swings").
			On(swing{}, parted, Opened{}).
			On(creak{}, opening, Creaked{}),
		Ask(knocked, who{}, "somebody is there").
			May(answer{}, shut, Opened{}),
		Await(parted, "").
			On(remove{}, gone, Removed{}),
		End(gone, "firewood"),
	},
	Decide: decideDoor,
	Evolve: func(d doorData, _ Arrow, e Event) (doorData, error) {
		switch e := e.(type) {
		case Hung:
			d.Wood = e.Wood
		case Creaked:
			if d.Creaks == 2 {
				return d, errors.New("it creaks twice at most")
			}
			d.Creaks++
		}
		return d, nil
	},
	Due: func(s State, d doorData) any {
		if s == opening {
			return motor{d.Wood}
		}
		return who{}
	},
})

func decideDoor(_ State, _ doorData, c Command) ([]Event, error) {
	switch c := c.(type) {
	case hang:
		return []Event{Hung(c)}, nil
	case push:
		switch {
		case c.Strength == 0:
			return nil, nil
		case c.Strength < 0:
			return nil, errors.New("it opens inwards")
		case c.Strength > 9:
			return []Event{Broken{}, Removed{}}, nil
		}
		return []Event{Pushed{}}, nil
	case knock:
		return []Event{Creaked{}}, nil // a mistake: the table draws Knocked
	case swing:
		return []Event{Opened{}}, nil
	case creak:
		return []Event{Creaked{}}, nil
	case remove:
		return []Event{Removed{}}, nil
	}
	return nil, errors.New("no rule")
}

// at returns a door that has taken the commands.
func at(t *testing.T, commands ...Command) Instance {
	t.Helper()
	i := door.New()
	for _, c := range commands {
		next, _, err := i.Step(c)
		if err != nil {
			t.Fatalf("%T: %v", c, err)
		}
		i = next
	}
	return i
}

// Golden compares text with a file of testdata, or writes it. The rooms' tests
// use it too.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not current; run make docs (-file +now):\n%s", path, diff)
	}
}
