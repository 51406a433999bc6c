package world

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"stave/internal/machine"
	"stave/internal/runelog"
)

// tracer notes which row every rune took and which wire brought the command.
type tracer struct {
	sent  []sentLetter // by wires, in the present step
	rows  map[string]bool
	wires map[int]bool // by place in wireList
}

type sentLetter struct {
	letter
	wire  int
	cause uint64
}

// trace listens on every wire until the test ends.
func trace(t *testing.T) *tracer {
	tr := &tracer{rows: map[string]bool{}, wires: map[int]bool{}}
	list := slices.Clone(wireList)
	for i := range list {
		send := list[i].send
		list[i].send = func(w *World, at Path, e machine.Event) []letter {
			letters := send(w, at, e)
			for _, l := range letters {
				tr.sent = append(tr.sent, sentLetter{l, i, w.seq})
			}
			return letters
		}
	}
	plain := wires
	wires = byKind(list)
	t.Cleanup(func() { wires = plain })
	return tr
}

// heard finds the row and the wire of every rune of a step.
func (tr *tracer) heard(m Message, batch []runelog.Rune) {
	for _, r := range batch {
		if r.Cause == 0 {
			tr.take(r, reflect.TypeOf(m.Command))
			continue
		}
		for _, l := range tr.sent {
			if l.cause == r.Cause && string(l.path) == r.Path && tr.take(r, reflect.TypeOf(l.cmd)) {
				tr.wires[l.wire] = true
			}
		}
	}
	tr.sent = nil
}

// take marks the row by which a command recorded a rune, and reports whether
// there is one: the second rune of a row has none of its own.
func (tr *tracer) take(r runelog.Rune, command reflect.Type) bool {
	name := Path(r.Path).machine()
	for _, b := range boxes[name] {
		for _, row := range b.Rows {
			if string(b.State) == r.From && row.Command == command && string(row.To) == r.To && kindOf(row) == r.Kind {
				tr.rows[rowName(name, b, row)] = true
				return true
			}
		}
	}
	return false
}

func kindOf(row machine.Row) string { return machine.Kind(reflect.Zero(row.Events[0]).Interface()) }

func rowName(name string, b machine.Box, row machine.Row) string {
	return fmt.Sprintf("%s: %s → %s on %s records %s", name, b.State, row.To, row.Command, kindOf(row))
}

// TestStoriesTakeEveryArrow shows that no arrow of any table and no wire is
// without a story, so that none can change unseen.
func TestStoriesTakeEveryArrow(t *testing.T) {
	tr := trace(t)
	for _, file := range stories(t) {
		play(t, file, listener{step: tr.heard})
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(boxes)) {
		for _, b := range boxes[name] {
			for _, row := range b.Rows {
				total++
				if !row.Past && !tr.rows[rowName(name, b, row)] {
					t.Errorf("no story takes %s", rowName(name, b, row))
				}
			}
		}
	}
	for i, w := range wireList {
		if !tr.wires[i] {
			t.Errorf("no story goes along %s → %s %s.%s", w.kind, w.to, w.machine, w.command)
		}
	}
	t.Logf("%d arrows and %d wires taken", total, len(wireList))
}

// TestWires shows that every wire starts at a kind that exists and ends at a
// command that some row of the machine it leads to draws.
func TestWires(t *testing.T) {
	for _, w := range wireList {
		from, _, _ := strings.Cut(w.kind, ".")
		if r, ok := rooms[from]; !ok || r.NewEvent(w.kind) == nil {
			t.Errorf("there is no %s", w.kind)
		}
		if c, _ := commandType(w.machine, w.command); c == nil {
			t.Errorf("%s → %s: no row of %s draws %s", w.kind, w.to, w.machine, w.command)
		}
	}
	if len(Wires()) != len(wireList) {
		t.Errorf("%d of %d wires are listed", len(Wires()), len(wireList))
	}
}

// TestLawsNameKinds shows that no law waits for a kind that never comes.
func TestLawsNameKinds(t *testing.T) {
	for _, list := range []map[string]bool{leaves, ends, told} {
		for kind := range list {
			mustExist(t, kind)
		}
	}
	for kind := range laws {
		mustExist(t, kind)
	}
}

func mustExist(t *testing.T, kind string) {
	t.Helper()
	name, _, _ := strings.Cut(kind, ".")
	if r, ok := rooms[name]; !ok || r.NewEvent(kind) == nil {
		t.Errorf("there is no %s", kind)
	}
}
