package runelog

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func draft(n int) Rune {
	return Rune{Path: "p", Kind: "k.e", Visibility: Public, By: "engine", Cause: uint64(n), Payload: jsontext.Value(` { "b" : 1, "a" : [ ] } `)}
}

func stamp(t testing.TB, c *Chain, n int) []Rune {
	t.Helper()
	drafts := make([]Rune, n)
	for i := range drafts {
		drafts[i] = draft(i + 1)
	}
	runes, err := c.Stamp(drafts, 1_700_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return runes
}

// Stamped runes form a chain from 64 zeros on, and the head stays until Advance.
func TestStamp(t *testing.T) {
	c := NewChain("conv_1", Head{Epoch: 3})
	runes := stamp(t, c, 3)
	if c.Head() != (Head{Epoch: 3}) {
		t.Errorf("head moved to %+v", c.Head())
	}
	if runes[0].Prev != strings.Repeat("0", 64) {
		t.Errorf("first prev %s", runes[0].Prev)
	}
	check := NewChecker("conv_1", Head{})
	for i := range runes {
		r := &runes[i]
		if err := check.Check(r); err != nil {
			t.Fatal(err)
		}
		if r.V != Version || r.Seq != uint64(i+1) || r.TSMs != 1_700_000_000_000 || string(r.Payload) != `{"a":[],"b":1}` {
			t.Errorf("rune %+v", r)
		}
		back, err := Decode(r.Raw())
		if err != nil || back.Hash() != r.Hash() {
			t.Fatalf("decode: %v", err)
		}
		if diff := cmp.Diff(*r, back, ignoreInternals); diff != "" {
			t.Errorf("decoded (-stamped +decoded):\n%s", diff)
		}
	}
	if diff := cmp.Diff(stamp(t, c, 3), runes, ignoreInternals); diff != "" {
		t.Errorf("the same step stamped twice differs:\n%s", diff)
	}
	c.Advance(runes)
	c.Advance(nil)
	if want := (Head{Seq: 3, Hash: runes[2].Hash(), Epoch: 3}); c.Head() != want {
		t.Errorf("head %+v, want %+v", c.Head(), want)
	}
	if next := stamp(t, c, 1); next[0].Seq != 4 || next[0].Prev != runes[2].Hash().String() {
		t.Errorf("next rune %+v", next[0])
	}
}

// Ids are UUIDv7: they sort by time, and none is used twice.
func TestIDs(t *testing.T) {
	seen := map[string]bool{}
	for _, log := range []string{"conv_1", "conv_2"} {
		c := NewChain(log, Head{})
		for range 100 {
			runes := stamp(t, c, 10)
			c.Advance(runes)
			for _, r := range runes {
				id := strings.TrimPrefix(r.ID, "run_")
				if seen[id] || len(id) != 32 || id[12] != '7' || !strings.Contains("89ab", id[16:17]) {
					t.Fatalf("id %s", r.ID)
				}
				seen[id] = true
			}
		}
	}
	c := NewChain("conv_3", Head{})
	early, err := c.Stamp([]Rune{draft(1)}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	late, err := c.Stamp([]Rune{draft(1)}, 1001)
	if err != nil || early[0].ID >= late[0].ID {
		t.Errorf("%s is not before %s: %v", early[0].ID, late[0].ID, err)
	}
}

func TestStampRefuses(t *testing.T) {
	c := NewChain("conv_1", Head{})
	big := draft(1)
	big.Payload = jsontext.Value(`"` + strings.Repeat("x", MaxInline) + `"`)
	if _, err := c.Stamp([]Rune{draft(1), big}, 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("large payload: %v", err)
	}
	bad := draft(1)
	bad.Payload = jsontext.Value(`{"a":1,"a":2}`)
	if _, err := c.Stamp([]Rune{bad}, 1); err == nil {
		t.Error("a duplicate member was stamped")
	}
	if c.Head() != (Head{}) {
		t.Errorf("head %+v", c.Head())
	}
}

// Whatever is lost, moved, repeated or changed is found where it is.
func TestChecker(t *testing.T) {
	runes := stamp(t, NewChain("conv_1", Head{}), 6)
	other := stamp(t, NewChain("conv_2", Head{}), 6)
	changed := runes[2]
	changed.Payload, changed.Prev, changed.V = nil, runes[1].Prev, 1
	for name, c := range map[string]struct {
		runes []Rune
		seq   string
	}{
		"lost first": {runes[1:], "seq 1:"},
		"lost":       {[]Rune{runes[0], runes[1], runes[3]}, "seq 3:"},
		"repeated":   {[]Rune{runes[0], runes[0]}, "seq 2:"},
		"swapped":    {[]Rune{runes[0], runes[2], runes[1]}, "seq 2:"},
		"other log":  {[]Rune{runes[0], other[1]}, "seq 2:"},
		"changed":    {[]Rune{runes[0], runes[1], changed}, "seq 3:"},
	} {
		check := NewChecker("conv_1", Head{})
		var err error
		for i := range c.runes {
			if err = check.Check(&c.runes[i]); err != nil {
				break
			}
		}
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "log conv_1, "+c.seq) {
			t.Errorf("%s: %v, want %s", name, err, c.seq)
		}
	}
}

func TestVisibility(t *testing.T) {
	order := []Visibility{Public, Internal, Secret}
	for i, reader := range order {
		for j, of := range order {
			if got := reader.Allows(of); got != (j <= i) {
				t.Errorf("%s reads %s: %v", reader, of, got)
			}
		}
	}
}
