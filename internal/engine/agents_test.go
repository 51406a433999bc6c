package engine_test

import (
	"strings"
	"testing"

	"stave/internal/runelog/memory"
)

const shy = `
scenes:
  - opening: "^task"
    replies:
      - calls: [{tool: Write, args: {path: a.txt, content: a}}]
      - calls: [{tool: Write, args: {path: b.txt, content: b}}]
      - text: they are there
replies:
  - calls: [{tool: SpawnAgent, args: {task: "task one"}}]
  - text: the helper made them
`

// TestHelperAsks shows that a call which waits for an agent does not keep a log from
// resting while that agent waits for a person, nor an engine from closing; and that
// an answer, given in the same process or a later one, lets all of them go on.
func TestHelperAsks(t *testing.T) {
	store := memory.New()
	r := newRig(t, store, shy, withAgents)
	log := r.begin("go", "ask")
	r.answer(log, "approve", "") // the agent
	if q := r.question(log); !strings.HasPrefix(string(q.Path), "agent:agt_") {
		t.Fatalf("the first agent asks: %+v", q)
	}
	r.answer(log, "approve", "") // its first file
	r.question(log)
	r.shutDown(patience)
	dir := r.dir
	r = newRig(t, store, shy, withAgents)
	r.dir = dir
	r.answer(log, "approve", "") // its second
	v := r.settle(log)
	if v.State != "active" || len(v.Questions) > 0 {
		t.Fatalf("%s, %+v", v.State, v.Questions)
	}
	kinds := r.kinds(log)
	if n := count(kinds, "agent.spawning"); n != 2 {
		t.Errorf("%d agents: %v", n, kinds)
	}
	if count(kinds, "tool.cancelled") > 0 || count(kinds, "tool.outcome_unknown") > 0 {
		t.Errorf("%v", kinds)
	}
	if last := r.runes(log, "turn.completed"); len(last) != 2 || !strings.Contains(last[1], "the helper made them") {
		t.Errorf("%v", last)
	}
}
