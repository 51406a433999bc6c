package crash

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
)

// What a process can be killed in.
const (
	starting   = "start-up"
	opening    = "opening the store"
	preparing  = "preparing"
	streaming  = "streaming"
	retrying   = "waiting to retry"
	running    = "a tool runs"
	writing    = "a file is being replaced"
	recovering = "recovering"
	suspending = "suspended"
	asking     = "waiting for a person"
	leaving    = "at rest, leaving"
	conducting = "between the turns of a run"
	unnamed    = "behind " // a rune that nobody thought of
)

// phaseOf says what a process does after its log's last rune.
var phaseOf = map[string]string{
	"session.created": preparing, "agent.spawning": preparing, "agent.told": preparing, "agent.ready": preparing, "session.activated": preparing,
	"session.message_received": preparing, // the last of the batch a conversation begins with
	"turn.started":             streaming, "turn.assistant_delta": streaming, "turn.tools_finished": streaming,
	"turn.retried":  retrying,
	"tool.approved": running, "tool.restarted": running, "turn.call_finished": running, "tool.result": running,
	"session.checkpointed": running, "session.tainted": running,
	"session.recovered": recovering, "tool.outcome_unknown": recovering, "tool.reattached": recovering, "session.unsuspended": recovering,
	"tool.approval_requested": asking,
	"session.turn_ended":      leaving, "session.run_ended": leaving,
	"session.agent_lost": conducting, "session.agent_joined": conducting, // agents of stages
}

// phases says for each kill what the process was doing: the log of the process
// that came next begins where the killed one's ended.
func (v *victim) phases(rec *record) []string {
	end := uint64(len(rec.runes))
	ends := make([]uint64, len(v.runs)) // where each run's log ended
	for i, r := range slices.Backward(v.runs) {
		ends[i] = end
		if len(r.seen) > 0 {
			end = seqOf(r.seen[0].raw) - 1
		}
	}
	var list []string
	for _, b := range v.kills {
		before := uint64(0)
		if b.run > 0 {
			before = ends[b.run-1]
		}
		switch {
		case !b.opened:
			list = append(list, starting)
		case ends[b.run] == before:
			list = append(list, opening)
		default:
			list = append(list, phaseAt(rec, ends[b.run]))
		}
	}
	return list
}

// phaseAt says what a process does whose log ends at a seq.
func phaseAt(rec *record, seq uint64) string {
	until := record{runes: rec.runes[:seq]}
	if until.state() == "suspended" {
		return suspending
	}
	switch e := rec.events[seq-1].(type) {
	case tool.Progress:
		if e.Lazy() {
			return running
		}
		return writing
	case turn.Retried:
		if e.WaitMs == 0 {
			return recovering
		}
	}
	kind := rec.runes[seq-1].Kind
	p, ok := phaseOf[kind]
	switch {
	case ok:
		return p
	case strings.HasPrefix(kind, "workflow.") || strings.HasPrefix(kind, "stage."):
		return conducting
	}
	return unnamed + kind
}

// report prints what the campaign did.
func (c *campaign) report(t *testing.T, took time.Duration) {
	t.Helper()
	n := c.tally
	kills := c.kills.Load()
	t.Logf("%d kills of %d conversations, %d of them runs, in %v: %.0f a minute", kills, n.conversations, n.runs, took.Round(time.Millisecond), float64(kills)/took.Minutes())
	for _, p := range slices.Sorted(maps.Keys(n.phases)) {
		t.Logf("%6d  %s", n.phases[p], p)
	}
	t.Logf("%d effects with an unknown result, %d of them happened; %d crash loops", n.unknown, n.happened, n.loops)
	slices.Sort(n.recoveries)
	if len(n.recoveries) > 0 {
		t.Logf("from process start to the first new rune: p50 %v, p99 %v (of %d)",
			quantile(n.recoveries, 50), quantile(n.recoveries, 99), len(n.recoveries))
	}
}

func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100].Round(100 * time.Microsecond)
}

// checkPhases holds that no phase was spared.
func (c *campaign) checkPhases(t *testing.T) {
	t.Helper()
	for _, p := range []string{
		starting, opening, preparing, streaming, retrying, running, writing, recovering, suspending, leaving, conducting,
	} {
		if c.tally.phases[p] == 0 {
			t.Errorf("no process was killed in the phase %q", p)
		}
	}
	if tellsWhoHolds() && c.tally.unknown == 0 {
		t.Error("no effect died together with its program")
	}
	for p := range c.tally.phases {
		if strings.HasPrefix(p, unnamed) {
			t.Errorf("a process was killed in a phase that has no name: %s", p)
		}
	}
}
