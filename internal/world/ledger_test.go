package world

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/turn"
	"stave/internal/model"
)

// accountAt returns the account of a session or a live agent.
func accountAt(t testing.TB, w *World, p Path) Account {
	t.Helper()
	for _, a := range w.Accounts() {
		if a.Path == p {
			return a
		}
	}
	t.Fatalf("%s has no account", p)
	return Account{}
}

// TestNoLimitIsPassed shows, for every random life whose limits are only ever
// raised and whose calls cost no more than was set aside for them, that on no
// account anything but time is ever used beyond its limit; and that a snapshot
// and a replay keep the same accounts.
func TestNoLimitIsPassed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := born(rt)
		for range rapid.IntRange(1, maxActions).Draw(rt, "actions") {
			l.onlyRaise = true
			if err := l.act(rt); err != nil {
				rt.Fatalf("%v\n%s", err, tail(l.tape))
			}
			for _, a := range l.Accounts() {
				a.Limit.WallMs = 0 // what a turn took is known when it is over
				if over := a.Spent.Plus(a.Held).Over(a.Limit); over != "" {
					rt.Fatalf("%s uses more %s than it may: %+v\n%s", a.Path, over, a, tail(l.tape))
				}
				if of := a.Unsure.Over(positive(a.Spent)); of != "" {
					rt.Fatalf("%s: more %s are unsure than spent: %+v", a.Path, of, a)
				}
			}
		}
		b, err := l.Save()
		if err != nil {
			rt.Fatal(err)
		}
		loaded, err := Load(testLog, b)
		if err != nil {
			rt.Fatal(err)
		}
		replayed := New(testLog)
		if err := replay(replayed, l.runes()); err != nil {
			rt.Fatal(err)
		}
		for name, other := range map[string]*World{"loaded": loaded, "replayed": replayed} {
			if diff := cmp.Diff(l.Accounts(), other.Accounts()); diff != "" {
				rt.Fatalf("%s (-live +%s):\n%s", name, name, diff)
			}
		}
	})
}

// positive turns an amount into a limit that allows nothing where there is nothing.
func positive(a model.Amount) model.Amount {
	for _, part := range parts(&a) {
		if *part == 0 {
			*part = -1
		}
	}
	return a
}

// TestUnsureUntilReconciled shows that what was set aside for a call that died
// with its process stays charged to everyone, whatever else happens, until a
// person takes it back.
func TestUnsureUntilReconciled(t *testing.T) {
	s := begin(t, "session create mode=ask budget=tokens:100\nroot become_ready\nsession say text=hi\nturn reserve amount=\"tokens:40 model_calls:1\"\ncrash\n"+
		"turn reserve amount=tokens:30\nturn finish text=x usage=10\nsession set_budget limit=tokens:200")
	want := model.Amount{Tokens: 40, ModelCalls: 1}
	for _, p := range []Path{SessionPath, RootPath} {
		if a := accountAt(t, s.World, p); a.Unsure != want || a.Spent.Tokens != 50 || a.Held != (model.Amount{}) {
			t.Errorf("before: %+v", a)
		}
	}
	s.must(t, SessionPath, session.SetBudget{Limit: model.Amount{Tokens: 200}, Reconcile: true})
	for _, p := range []Path{SessionPath, RootPath} {
		if a := accountAt(t, s.World, p); a.Unsure != (model.Amount{}) || a.Spent.Tokens != 10 || a.Spent.ModelCalls != 1 {
			t.Errorf("after: %+v", a)
		}
	}
}

// TestEndedParentIsNotInTheWay shows that a reservation is given back to all who
// made it, though the agent in the middle of the row ends first.
func TestEndedParentIsNotInTheWay(t *testing.T) {
	s := begin(t, talking+`agent:agt_a spawn budget=tokens:100
agent:agt_a become_ready
agent:agt_b spawn parent_id=agt_a depth=2
agent:agt_b become_ready
agent:agt_c spawn parent_id=agt_b depth=3 first=go
agent:agt_c become_ready
agent:agt_c/turn:1 reserve amount=tokens:70
agent:agt_b kill reason=enough force`)
	if left := len(s.paths("agent", "")); left != 2 {
		t.Errorf("%d agents are left", left)
	}
	for _, p := range []Path{SessionPath, RootPath, "agent:agt_a"} {
		if a := accountAt(t, s.World, p); a.Held != (model.Amount{}) || a.Unsure.Tokens != 70 || a.Spent.Tokens != 70 {
			t.Errorf("%+v", a)
		}
	}
	if short := s.Short("agent:agt_a", model.Amount{Tokens: 31}); short != "tokens" {
		t.Errorf("what ended agents used is forgotten: %q", short)
	}
}

// TestCallsSideBySideAtTheLimit shows that of calls that could all run at once
// as many are let run as the limit allows, that the answer is recorded however
// many there are, and that a call nobody lets run takes no room.
func TestCallsSideBySideAtTheLimit(t *testing.T) {
	for _, c := range []struct {
		limit    int
		calls    string
		approved int
		ends     bool
	}{
		{3, "a:read b:read c:read", 3, false},
		{2, "a:read b:read c:read", 2, true},
		{1, "a:read b:read c:read", 1, true},
		{1, "a:bad b:read", 1, false},
		{1, "a:post b:read", 1, false}, // the first only asks
		{1, "a:read b:stat", 1, false}, // the second is not yet due
		{1, "a:read b:bad", 1, false},
		{2, "a:read b:read\"\na succeed\nb succeed text=\"", 2, false}, // who runs has its room
	} {
		s := begin(t, fmt.Sprintf("session create mode=ask budget=tool_calls:%d\nroot become_ready\nsession say text=hi\nturn receive_tool_calls calls=\"%s\"", c.limit, c.calls))
		approved, ended := 0, false
		for _, r := range s.runes() {
			approved, ended = approved+strings.Count(r.Kind, "tool.approved"), ended || r.Kind == "session.suspended"
		}
		if approved != c.approved || ended != c.ends {
			t.Errorf("%+v: %d approved, suspended %t", c, approved, ended)
		}
	}
}

// TestNothingIsEarned shows that a bill below zero makes no room.
func TestNothingIsEarned(t *testing.T) {
	s := begin(t, frugal+"turn reserve amount=tokens:40\nturn compact messages=1 summary=x usage=30\nturn reserve amount=\"tokens:40 model_calls:1\"")
	job, _ := s.JobAt(turn1)
	if _, err := s.tell(Message{Path: turn1, Job: job.ID, Command: turn.Finish{Bill: turn.Bill{Usage: model.Usage{InputTokens: -500}, MicroUSD: -9}}}); err != nil {
		t.Fatal(err)
	}
	if a := accountAt(t, s.World, SessionPath); a.Spent.Tokens != 30 || a.Spent.ModelCalls != 2 || a.Held != (model.Amount{}) {
		t.Errorf("%+v", a)
	}
}

// TestLeft shows what limits leave to an agent: the least that any account above
// it has, less than nothing nowhere, and time by the clock of its turn.
func TestLeft(t *testing.T) {
	s := begin(t, `session create mode=ask budget="tokens:100 wall_ms:5000"
root become_ready
session say text=hi
turn reserve amount=tokens:70
turn receive_tool_calls calls=a:task usage=60
agent:agt_a spawn budget="tokens:50 tool_calls:3" first=go
agent:agt_a become_ready`)
	for _, c := range []struct {
		at          Path
		limit, left model.Amount
	}{
		{RootPath, model.Amount{Tokens: 100, WallMs: 5000}, model.Amount{Tokens: 40, WallMs: 5000}},
		{childTurn, model.Amount{Tokens: 50, ToolCalls: 3, WallMs: 5000}, model.Amount{Tokens: 40, ToolCalls: 3, WallMs: 5000}},
	} {
		if limit, left := s.Limit(c.at), s.Left(c.at); limit != c.limit || left != c.left {
			t.Errorf("%s: limit %+v, left %+v", c.at, limit, left)
		}
	}
	begun := s.live[childTurn].begun
	if left, limited := s.WallLeft(childTurn, begun+1000); !limited || left != 4000 {
		t.Errorf("%d ms left, limited %t", left, limited)
	}
	if left, limited := s.WallLeft(childTurn, begun+9000); !limited || left != 0 {
		t.Errorf("%d ms left long after, limited %t", left, limited)
	}
	if _, limited := s.WallLeft("agent:agt_a/turn:7", begun); limited {
		t.Error("a turn that is not there has time left")
	}
	if _, limited := begin(t, talking).WallLeft(turn1, 0); limited {
		t.Error("without a limit there is one")
	}
}

// TestWallTimeIsCounted shows that what a turn took is charged when it is over,
// and that time which is used up leaves room for nothing.
func TestWallTimeIsCounted(t *testing.T) {
	s := begin(t, "session create mode=ask budget=wall_ms:1500\nroot become_ready\nsession say text=hi\nturn delta text=x\nturn finish text=x")
	if a := accountAt(t, s.World, SessionPath); a.Spent.WallMs != 2000 {
		t.Errorf("%+v", a)
	}
	if s.Left(RootPath).WallMs != -1 || s.Short(RootPath, model.Amount{ToolCalls: 1}) != "wall time" {
		t.Errorf("left %+v", s.Left(RootPath))
	}
}

// TestWho shows whom a model call is made as: the root agent by what the session
// says now, another by what it was born with.
func TestWho(t *testing.T) {
	s := begin(t, "session create mode=ask model=small system=\"Be brief.\"\nroot become_ready\nsession say text=hi\nagent:agt_a spawn tools=read\nagent:agt_b spawn model=tiny\nsession switch_model model=large")
	for _, c := range []struct {
		at    Path
		model string
		tools []string
		depth int
	}{
		{turn1, "large", nil, 0},
		{"agent:agt_a", "large", []string{"read"}, 1},
		{"agent:agt_b/turn:1", "tiny", nil, 1},
	} {
		who := s.Agent(c.at)
		if who.Model != c.model || who.Depth != c.depth || !cmp.Equal(who.Tools, c.tools) || !strings.HasPrefix(who.System, "Be brief.") {
			t.Errorf("%s: %+v", c.at, who)
		}
		if helps := strings.Contains(who.System, "another agent"); helps != (c.depth > 0) {
			t.Errorf("%s is told %q", c.at, who.System)
		}
	}
	states := fmt.Sprint(s.AgentState("agt_a"), s.AgentState("agt_x"), s.AgentState("agt_1"))
	if want := "{agt_a true true   agt_1 false} {agt_x false false    false} {agt_1 true true    false}"; states != want {
		t.Errorf("got  %s\nwant %s", states, want)
	}
}

// TestStopEndsAll shows that one order ends a whole tree of agents in one batch,
// with nothing held, and that nobody is spawned after it.
func TestStopEndsAll(t *testing.T) {
	s := begin(t, tower(3)+"agent:agt_d3 tell text=go by=agent:agt_d2\nagent:agt_d3 become_ready\nagent:agt_d3/turn:1 reserve amount=tokens:9")
	before := len(s.ends)
	s.must(t, SessionPath, session.Stop{})
	if len(s.ends) != before+1 || s.State(SessionPath) != "closed" || len(s.paths("agent", "")) != 0 {
		t.Errorf("%d batches, session %s, %v", len(s.ends)-before, s.State(SessionPath), s.paths("agent", ""))
	}
	if a := accountAt(t, s.World, SessionPath); a.Held != (model.Amount{}) || a.Spent.Agents != 3 {
		t.Errorf("%+v", a)
	}
	_, err := s.Step(Message{Path: "agent:agt_n", Command: agent.Spawn{Spawning: agent.Spawning{AgentID: "agt_n", ParentID: "agt_1", Depth: 1}}})
	if err == nil {
		t.Error("somebody was spawned after the end")
	}
}
