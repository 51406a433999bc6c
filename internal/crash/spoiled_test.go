package crash

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stave/internal/machine/tool"
	"stave/internal/runelog"
)

// TestRulesCatch shows that each rule finds the fault it is there for, in a
// conversation that is sound until the test spoils it.
func TestRulesCatch(t *testing.T) {
	e, err := newEnumeration(scratch(t))
	if err != nil {
		t.Fatal(err)
	}
	shown := func(n int) *run {
		r := &run{killed: true}
		for _, rn := range e.whole.runes[:n] {
			r.seen = append(r.seen, line{raw: string(rn.Raw())})
		}
		return r
	}
	n := len(e.whole.runes)
	lazy := slices.IndexFunc(e.whole.runes, func(r runelog.Rune) bool { return r.Kind == "turn.assistant_delta" })
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"nothing is wrong", keptWhatWasShown(e.whole, shown(n)), ""},
		{"a synced rune is gone", keptWhatWasShown(e.whole.first(n-1), shown(n)), "was shown and is lost"},
		{"lazy runes are gone", keptWhatWasShown(e.whole.first(lazy), shown(lazy+1)), ""},
		{"lazy runes are gone without a kill", keptWhatWasShown(e.whole.first(lazy), shown(lazy+1).alive()), "was shown and is lost"},
		{"a lazy rune before a synced one is gone", keptWhatWasShown(e.whole.first(lazy), shown(lazy+2)), "was shown and is lost"},
		{"nothing is wrong", endedOnce(e.whole), ""},
		{"a turn has no end", endedOnce(e.whole.without("turn.completed")), "ended 0 times"},
		{"a call has no result", endedOnce(e.whole.without("tool.result")), "has 0 results"},
		{"nothing is wrong", doneOnce(e.whole, e.wholeFiles, 0), ""},
		{"a result is unknown", doneOnce(e.whole.unknown(), e.wholeFiles, 0), "no process was cut off"},
		{"a result is unknown after a kill", doneOnce(e.whole.unknown(), e.wholeFiles, cuts([]*run{{killed: true}})), ""},
		{"nothing is wrong", sameStory(e.whole, e.whole), ""},
		{"the model said something else", sameStory(e.whole.without("turn.tool_calls_received"), e.whole), "another story"},
	} {
		if got := c.err; (got == nil) != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
			t.Errorf("%s: found %v, want %q", c.name, got, c.want)
		}
	}
	e.spoilFiles(t)
}

// spoilFiles shows the rules that look at files.
func (e *enumeration) spoilFiles(t *testing.T) {
	t.Helper()
	other, err := e.setUp("other", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer other.files.close()
	if err := sameFiles(e.whole, other.files, e.wholeFiles); err == nil {
		t.Error("a file that was never written was not missed")
	}
	if err := doneOnce(e.whole, other.files, 0); err == nil {
		t.Error("a success without its effect was not found")
	}
	ledger := filepath.Join(other.order.Dir, "ledger")
	if err := os.WriteFile(ledger, []byte("first\nsecond\nfirst\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := doneOnce(e.whole, other.files, 0); err == nil || !strings.Contains(err.Error(), "happened 2 times") {
		t.Errorf("an effect that happened twice: found %v", err)
	}
}

// alive is the process as if it had ended by itself.
func (r *run) alive() *run {
	r.killed = false
	return r
}

// first is the record of a log that ends earlier.
func (c *record) first(n int) *record { return c.only(func(i int) bool { return i < n }) }

// without is the record of a log without runes of a kind.
func (c *record) without(kind string) *record {
	return c.only(func(i int) bool { return c.runes[i].Kind != kind })
}

func (c *record) only(keep func(i int) bool) *record {
	part := &record{}
	for i, r := range c.runes {
		if keep(i) {
			_ = part.add(r) // it was read before
		}
	}
	return part
}

// unknown is the record as if the outcome of an effect had been lost.
func (c *record) unknown() *record {
	lost := c.first(len(c.runes))
	for _, k := range lost.calls {
		if k.effect() != "" {
			k.results[0].Status = tool.Unknown
			break
		}
	}
	return lost
}
