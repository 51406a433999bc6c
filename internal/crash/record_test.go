package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"stave/internal/engine"
	"stave/internal/machine"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/runelog"
	"stave/internal/runelog/pebble"
	"stave/internal/world"
)

// record is a log as the store holds it, with what each rune says.
type record struct {
	runes  []runelog.Rune
	events []machine.Event
	calls  []*call // in the order the model made them
}

// call is one tool call with all its ends.
type call struct {
	tool.Call
	results []tool.Result
}

// openStore opens a data directory that no process uses.
func openStore(data string) (*pebble.Store, error) {
	const patience, poll = 5 * time.Second, 5 * time.Millisecond
	for began := time.Now(); ; time.Sleep(poll) {
		store, err := pebble.Open(data)
		// A process that is being started at this moment, by another lane, holds a copy
		// of every open file until it has become itself.
		if !errors.Is(err, runelog.ErrLocked) || time.Since(began) > patience {
			return store, err
		}
	}
}

// inStore runs f on the store of a data directory.
func inStore(data string, f func(*pebble.Store) error) error {
	store, err := openStore(data)
	if err != nil {
		return err
	}
	return errors.Join(f(store), store.Close())
}

// readRecord verifies a log and reads it.
func readRecord(data, log string) (*record, error) {
	rec := &record{}
	err := inStore(data, func(s *pebble.Store) error {
		if _, err := engine.Verify(context.Background(), s, log); err != nil {
			return fmt.Errorf("verifying: %w", err)
		}
		for r, err := range s.Read(context.Background(), log, 0) {
			if err == nil {
				err = rec.add(r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return rec, err
}

func (c *record) add(r runelog.Rune) error {
	e, err := world.EventOf(r)
	if err != nil {
		return fmt.Errorf("rune %d: %w", r.Seq, err)
	}
	c.runes, c.events = append(c.runes, r), append(c.events, e)
	switch e := e.(type) {
	case tool.Call:
		c.calls = append(c.calls, &call{Call: e})
	case tool.Result:
		i := slices.IndexFunc(c.calls, func(k *call) bool { return k.CallID == e.CallID })
		if i < 0 {
			return fmt.Errorf("rune %d is a result for a call that was never made", r.Seq)
		}
		c.calls[i].results = append(c.calls[i].results, e)
	}
	return nil
}

// count returns how many runes have one of the kinds.
func (c *record) count(kinds ...string) int {
	n := 0
	for _, r := range c.runes {
		if slices.Contains(kinds, r.Kind) {
			n++
		}
	}
	return n
}

// state is where the session stands.
func (c *record) state() string {
	for _, r := range slices.Backward(c.runes) {
		if r.Path == string(world.SessionPath) {
			return r.To
		}
	}
	return ""
}

// looped reports whether the conversation was ever suspended as a crash loop.
func (c *record) looped() bool {
	return slices.ContainsFunc(c.events, func(e machine.Event) bool {
		s, ok := e.(session.Suspended)
		return ok && s.Reason == session.CrashLoop
	})
}

// effect is the name of a call's side effect, empty if it has none.
func (k *call) effect() string {
	_, id, ok := strings.Cut(string(k.Arguments), "id=")
	if k.Tool != "Bash" || !ok {
		return ""
	}
	id, _, _ = strings.Cut(id, ";")
	return id
}

// story tells what the model said, called and was told, without what differs
// from one run to the next: ids, times, fragments, attempts.
func (c *record) story() []string {
	var lines []string
	for _, e := range c.events {
		switch e := e.(type) {
		case session.MessageReceived:
			lines = append(lines, "person: "+e.Text)
		case turn.ToolCallsReceived:
			lines = append(lines, "model: "+said(e.Output))
		case turn.Completed:
			lines = append(lines, "model ends: "+e.FinalOutput)
		}
	}
	for _, k := range c.calls {
		lines = append(lines, fmt.Sprintf("call: %s %s", k.Tool, k.Arguments))
		for _, r := range k.results {
			lines = append(lines, "result: "+k.outcome(r))
		}
	}
	return lines
}

// said is the whole of what a model said before it called tools.
func said(parts []model.Part) string {
	text, err := json.Marshal(parts)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// outcome is what must not depend on kills. A write that was done before the
// restart says so in its own words, and an effect may be lost: the rules look at
// both.
func (k *call) outcome(r tool.Result) string {
	switch {
	case k.Safety == "idempotent":
		return string(r.Status)
	case k.effect() != "" && (r.Status == tool.Success || r.Status == tool.Unknown):
		return "success or unknown"
	}
	return fmt.Sprintf("%s %s%s", r.Status, r.Error, r.Text)
}
