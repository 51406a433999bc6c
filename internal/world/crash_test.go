package world

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"stave/internal/machine"
	"stave/internal/runelog"
)

// TestEveryBatchOfEveryStory shows, after every line of every story: the runes
// alone rebuild the present; every earlier snapshot with the runes since does
// too; no promise is broken; any command to anything alive is answered; and if
// the process dies here, everything that was begun comes to exactly one end.
func TestEveryBatchOfEveryStory(t *testing.T) {
	batches, crashes := 0, 0
	for _, file := range stories(t) {
		var snapshots []*World
		_, _ = play(t, file, listener{batch: func(s *story, batch []runelog.Rune) {
			batches++
			if batch[0].Seq == 1 {
				snapshots = nil
			}
			where := fmt.Sprintf("%s, rune %d", s.name, s.seq)
			runes := s.runes()
			rebuilt := New(testLog)
			if err := replay(rebuilt, runes); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			mustEqual(t, where+": the rebuilt world", s.World, rebuilt)
			snapshots = checkSnapshots(t, where, s.World, batch, snapshots)
			h := read(runes)
			if h.faults != nil {
				t.Fatalf("%s: %s", where, strings.Join(h.faults, "\n"))
			}
			if err := h.books.differs(s.World); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			tryEverything(t, where, s.tape)
			crashes += dieHere(t, where, s.tape)
		}})
	}
	t.Logf("%d batches, %d crashes", batches, crashes)
}

// checkSnapshots brings the worlds loaded from earlier snapshots up to date,
// compares them, and adds one of this moment.
func checkSnapshots(t *testing.T, where string, w *World, batch []runelog.Rune, snapshots []*World) []*World {
	t.Helper()
	for _, old := range snapshots {
		since := old.Seq()
		if err := replay(old, batch); err != nil {
			t.Fatalf("%s, from the snapshot at %d: %v", where, since, err)
		}
		mustEqual(t, where+": a loaded snapshot", w, old)
	}
	loaded, err := Load(testLog, save(t, w))
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	mustEqual(t, where+": the loaded world", w, loaded)
	return append(snapshots, loaded)
}

// tryEverything sends every command of its machine to everything alive. What is
// taken must be a batch that replay takes too; what is not must be said as a
// refusal or as a broken promise.
func tryEverything(t *testing.T, where string, at *tape) {
	t.Helper()
	for _, p := range at.sorted() {
		for _, c := range commandsOf(p.machine()) {
			m := Message{Path: p, Command: reflect.Zero(c).Interface(), By: "user:anybody"}
			change, err := at.Step(m)
			var refusal *machine.Refusal
			var violation *Violation
			switch {
			case err == nil:
				rebuilt := at.World.copy()
				if err := replay(rebuilt, change.Runes); err != nil {
					t.Fatalf("%s: %T to %s wrote what replay refuses: %v", where, m.Command, p, err)
				}
			case !errors.As(err, &refusal) && !errors.As(err, &violation):
				t.Fatalf("%s: %T to %s: %v", where, m.Command, p, err)
			}
		}
	}
}

func commandsOf(machineName string) []reflect.Type {
	var types []reflect.Type
	for _, b := range boxes[machineName] {
		for _, r := range b.Rows {
			if !slices.Contains(types, r.Command) {
				types = append(types, r.Command)
			}
		}
	}
	return types
}

// dieHere lets the process die once and twice at this point, with and without
// somebody there afterwards, and drives what is left to rest.
func dieHere(t *testing.T, where string, at *tape) int {
	t.Helper()
	died := 0
	for _, headless := range []bool{false, true} {
		for times, d := range map[int]driver{1: trusting, 2: careful} {
			c := at.copy()
			c.heard = nil
			died += times
			if err := liveOn(c, headless, times, d); err != nil {
				t.Fatalf("%s, after %d crashes (headless %t): %v\n%s", where, times, headless, err, tail(c))
			}
		}
	}
	return died
}

func liveOn(c *tape, headless bool, times int, d driver) error {
	for range times {
		if _, err := c.crash(headless); err != nil {
			return err
		}
	}
	if err := d.rest(c); err != nil {
		return err
	}
	for range 3 { // a stopped session can always be woken and comes to rest again
		woken, err := wake(c)
		if err == nil && woken {
			err = d.rest(c)
		}
		if err != nil {
			return err
		}
	}
	h := read(c.runes())
	if h.rest(); h.faults != nil {
		return errors.New(strings.Join(h.faults, "\n"))
	}
	return replay(New(testLog), c.runes())
}

// tail shows the end of a log.
func tail(c *tape) string {
	var b strings.Builder
	runes := c.runes()
	for _, r := range runes[max(0, len(runes)-30):] {
		b.WriteString(show(r))
	}
	return b.String()
}

// TestHistoryNotices shows that the second opinion is worth something: no story
// can lose a move that something follows, or tell one twice, without a fault.
func TestHistoryNotices(t *testing.T) {
	for _, file := range stories(t) {
		var log []runelog.Rune
		play(t, file, listener{batch: func(s *story, _ []runelog.Rune) { log = s.runes() }})
		for i, r := range log {
			if r.From == r.To && r.Kind != "tool.result" {
				continue // a move inside one box leaves no gap
			}
			followed := slices.ContainsFunc(log[i+1:], func(later runelog.Rune) bool { return later.Path == r.Path })
			if followed && read(renumber(slices.Delete(slices.Clone(log), i, i+1))).faults == nil {
				t.Errorf("%s: nobody misses rune %d (%s)", file, r.Seq, r.Kind)
			}
			if read(renumber(slices.Insert(slices.Clone(log), i, r))).faults == nil {
				t.Errorf("%s: nobody minds rune %d (%s) twice", file, r.Seq, r.Kind)
			}
		}
	}
}

func renumber(runes []runelog.Rune) []runelog.Rune {
	for i := range runes {
		runes[i].Seq, runes[i].Cause = uint64(i+1), 0
	}
	return runes
}
