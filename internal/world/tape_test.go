package world

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"stave/internal/machine"
	"stave/internal/runelog"
)

const testLog = "conv_1"

// tape is a world with everything it ever recorded, as the engine and a store
// would hold the two.
type tape struct {
	*World
	chain *runelog.Chain
	raw   [][]byte // the canonical bytes of every rune
	ends  []int    // how many runes there were after each batch
	clock int64
	heard func(m Message, batch []runelog.Rune) // of every step
}

func newTape() *tape {
	return &tape{World: New(testLog), chain: runelog.NewChain(testLog, runelog.Head{})}
}

// tell steps, stores and commits. It returns the batch as a reader gets it.
func (t *tape) tell(m Message) ([]runelog.Rune, error) {
	m.Log, m.AtMs = t.log, t.clock
	c, err := t.Step(m)
	if err != nil {
		return nil, err
	}
	stored, err := t.store(c)
	if err != nil {
		return nil, err
	}
	t.Commit(c)
	if t.heard != nil {
		t.heard(m, stored)
	}
	return stored, nil
}

// store writes a change through the codec and the chain.
func (t *tape) store(c *Change) ([]runelog.Rune, error) {
	stamped, err := t.chain.Stamp(c.Runes, t.clock)
	if err != nil {
		return nil, err
	}
	t.chain.Advance(stamped)
	for _, r := range stamped {
		t.raw = append(t.raw, r.Raw())
	}
	if len(stamped) > 0 {
		t.ends = append(t.ends, len(t.raw))
	}
	return stamped, nil
}

// runes reads back what was stored.
func (t *tape) runes() []runelog.Rune {
	list := make([]runelog.Rune, len(t.raw))
	for i, raw := range t.raw {
		r, err := runelog.Decode(raw)
		if err != nil {
			panic(fmt.Sprintf("rune %d: %v", i+1, err))
		}
		list[i] = r
	}
	return list
}

// copy returns a tape that goes its own way from here.
func (t *tape) copy() *tape {
	c := *t
	c.World = t.World.copy()
	c.chain = runelog.NewChain(t.log, t.chain.Head())
	c.raw = t.raw[:len(t.raw):len(t.raw)]
	c.ends = t.ends[:len(t.ends):len(t.ends)]
	return &c
}

func (w *World) copy() *World {
	c := New(w.log)
	c.Commit(&Change{next: w})
	for p, n := range c.live { // the present changes its instances in place
		own := reflect.New(reflect.TypeOf(n.Instance).Elem())
		own.Elem().Set(reflect.ValueOf(n.Instance).Elem())
		n.Instance = own.Interface().(machine.Instance)
		c.live[p] = n
	}
	return c
}

// crash is a death of the process and its restart: what was said to it is lost,
// the log is not.
func (t *tape) crash(headless bool) ([]runelog.Rune, error) {
	var all []runelog.Rune
	say := func(m Message) error {
		runes, err := t.tell(m)
		all = append(all, runes...)
		return err
	}
	losses := t.Losses()
	if m, ok := t.Recovery(headless); ok {
		if err := say(m); err != nil {
			return all, err
		}
	}
	for _, m := range losses {
		if err := say(m); err != nil && !errors.Is(err, ErrStale) {
			return all, err
		}
	}
	return all, nil
}

// replay folds runes onto a world.
func replay(w *World, runes []runelog.Rune) error {
	for _, r := range runes {
		if err := w.Fold(r); err != nil {
			return err
		}
	}
	return nil
}

func save(t testing.TB, w *World) []byte {
	t.Helper()
	b, err := w.Save()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustEqual(t testing.TB, what string, want, got *World) {
	t.Helper()
	if a, b := save(t, want), save(t, got); !bytes.Equal(a, b) {
		t.Fatalf("%s differs:\n%s\n%s", what, a, b)
	}
}

// must tells and expects no refusal.
func (t *tape) must(tb testing.TB, p Path, c machine.Command) {
	tb.Helper()
	if _, err := t.tell(Message{Path: p, Command: c, By: "user:ann"}); err != nil {
		tb.Fatalf("%s %T: %v", p, c, err)
	}
}
