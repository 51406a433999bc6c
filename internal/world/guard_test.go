package world

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"stave/internal/runelog"
)

// forged is a rune that no Step would write.
type forged struct {
	path, kind, arrow string // arrow: from>to
	payload           string
	by                string
}

func (f forged) rune(seq uint64) runelog.Rune {
	from, to, _ := strings.Cut(f.arrow, ">")
	by := f.by
	if by == "" {
		by = engineName
	}
	if f.payload == "" {
		f.payload = "{}"
	}
	return runelog.Rune{Seq: seq, Log: testLog, Path: f.path, Kind: f.kind, From: from, To: to, By: by, Payload: jsontext.Value(f.payload)}
}

// tell plays the lines of a story, one per line.
func begin(t *testing.T, lines string) *tape {
	t.Helper()
	s := &story{tape: newTape(), name: t.Name()}
	for text := range strings.Lines(strings.TrimSpace(lines)) {
		if out := s.tellAll(t, text); strings.Contains(out, "  ! ") {
			t.Fatalf("%s: %s", text, out)
		}
	}
	return s.tape
}

const (
	ready   = "session create mode=ask\nroot become_ready\n"
	talking = ready + "session say text=hi\n"
	turn1   = "agent:root/turn:1"
	callA   = turn1 + "/tool:a"
	callB   = turn1 + "/tool:b"
)

// started is the payload of the first turn's beginning.
const started = `{"turn_id":"turn_1","number":1}`

// guard is a log that must not be: the lines of a true beginning, then forged
// runes of which the last is refused.
type guard struct {
	breaks string // what it is refused as
	detail string
	before string
	forged []forged
}

var guards = []guard{
	// The log.
	{"", "it follows rune 2", "session create", []forged{{path: "session", kind: "seq+1"}}},
	{"", "unknown rune kind", "session create", []forged{{path: "session", kind: "session.painted", arrow: "created>created"}}},
	{"", `there is no machine at "plan:1"`, "session create", []forged{{path: "plan:1", kind: "session.paused"}}},
	{"", "reading its payload", "session create", []forged{{path: "session", kind: "session.message_received", arrow: "created>created", payload: `{"message":"one"}`}}},
	{"", `leaves "active", but the machine is in "created"`, "session create", []forged{{path: "session", kind: "session.paused", arrow: "active>paused"}}},
	{"", `no arrow session.paused from "created" to "paused"`, "session create", []forged{{path: "session", kind: "session.paused", arrow: "created>paused"}}},

	// The session.
	{"INV-SESSION-FIRST", "a log begins with session.created", "", []forged{{path: "agent:root", kind: "agent.spawning", arrow: ">spawning", payload: `{"agent_id":"x"}`}}},
	{"INV-SESSION-FIRST session.created", "a log has one session", "", []forged{{path: "session:2", kind: "session.created", arrow: ">created", payload: `{"conversation_id":"c","root_agent_id":"a"}`}}},
	{"INV-SESSION-FIRST session.created", "a log has one session", "session create", []forged{{path: "session:2", kind: "session.created", arrow: ">created", payload: `{"conversation_id":"c","root_agent_id":"a"}`}}},
	{"", "a conversation needs its id", "", []forged{{path: "session", kind: "session.created", arrow: ">created", payload: `{"conversation_id":"c"}`}}},
	{"", "message 3 after 1", talking, []forged{{path: "session", kind: "session.message_received", arrow: "active>active", payload: `{"message":3}`}}},
	{"", "turn 2 after 0", ready, []forged{{path: "session", kind: "session.turn_admitted", arrow: "active>active", payload: `{"turn":2}`}}},
	{"", "turn 2 after 1 (running: true)", talking, []forged{{path: "session", kind: "session.turn_admitted", arrow: "active>active", payload: `{"turn":2,"message":1}`}}},
	{"", "message 1 does not wait", ready, []forged{{path: "session", kind: "session.turn_admitted", arrow: "active>active", payload: `{"turn":1,"message":1}`}}},
	{"INV-TURN-SEQUENTIAL session.turn_admitted", "turn_1 is running", talking + "session say text=more", []forged{
		{path: "session", kind: "session.turn_ended", arrow: "active>active", payload: `{"turn_id":"turn_1","root":true}`},
		{path: "session", kind: "session.turn_admitted", arrow: "active>active", payload: `{"turn":2,"message":2,"mode":"queue"}`},
	}},
	{"INV-SESSION-QUIESCE session.closed", "agent:root is still there", talking + "session close", []forged{{path: "session", kind: "session.closed", arrow: "closing>closed"}}},

	// The agent.
	{"", "an agent needs an id", ready, []forged{{path: "agent:two", kind: "agent.spawning", arrow: ">spawning"}}},
	{"", "turn_7 ended while turn_1 ran", talking, []forged{{path: "agent:root", kind: "agent.turn_ended", arrow: "running_turn>idle", payload: `{"turn_id":"turn_7"}`}}},
	{"INV-AGENT-PARENT agent.spawning", "the session is closing", talking + "session close", []forged{{path: "agent:two", kind: "agent.spawning", arrow: ">spawning", payload: `{"agent_id":"two"}`}}},
	{"INV-AGENT-PARENT-CLOSE agent.terminated", "turn:1 is still there", talking, []forged{{path: "agent:root", kind: "agent.terminated", arrow: "running_turn>terminated"}}},

	// The turn.
	{"INV-SESSION-PAUSED-NO-TURN turn.started", "the session is paused", ready + "session pause", []forged{
		{path: "agent:root", kind: "agent.turn_assigned", arrow: "idle>running_turn", payload: `{"turn_id":"turn_1"}`},
		{path: turn1, kind: "turn.started", arrow: "idle>streaming", payload: started},
	}},
	{"INV-TURN-SEQUENTIAL turn.started", `its agent was given ""`, ready, []forged{{path: turn1, kind: "turn.started", arrow: "idle>streaming", payload: started}}},
	{"INV-TURN-SEQUENTIAL turn.started", "turn:1 is running", talking, []forged{{path: "agent:root/turn:2", kind: "turn.started", arrow: "idle>streaming", payload: started}}},
	{"", "attempt 3 after 1", talking, []forged{{path: turn1, kind: "turn.retried", arrow: "streaming>streaming", payload: `{"attempt":3}`}}},
	{"", `"steer" cannot replace "pause"`, talking + "session pause", []forged{{path: turn1, kind: "turn.stop_requested", arrow: "streaming>streaming", payload: `{"stop":"steer"}`}}},
	{"", "calls and groups do not match", talking, []forged{{path: turn1, kind: "turn.tool_calls_received", arrow: "streaming>tool_executing", payload: `{"call_ids":["a","b"],"groups":[0]}`}}},
	{"", "calls and groups do not match", talking, []forged{{path: turn1, kind: "turn.tool_calls_received", arrow: "streaming>tool_executing"}}},
	{"", "two calls with the id a", talking, []forged{{path: turn1, kind: "turn.tool_calls_received", arrow: "streaming>tool_executing", payload: `{"call_ids":["a","a"],"groups":[0,0]}`}}},
	{"", "call z is not open", talking + "turn receive_tool_calls calls=a:read", []forged{{path: turn1, kind: "turn.call_finished", arrow: "tool_executing>tool_executing", payload: `{"call_id":"z"}`}}},
	{"", "2 calls are open", talking + "turn receive_tool_calls calls=\"a:read b:read\"", []forged{{path: turn1, kind: "turn.tools_finished", arrow: "tool_executing>streaming"}}},
	{"", "2 calls are open", talking + "turn receive_tool_calls calls=\"a:read b:read\"", []forged{{path: turn1, kind: "turn.completed", arrow: "tool_executing>completed"}}},
	{"INV-TOOL-TERMINAL turn.call_finished", "a has no result", talking + "turn receive_tool_calls calls=\"a:read b:read\"", []forged{{path: turn1, kind: "turn.call_finished", arrow: "tool_executing>tool_executing", payload: `{"call_id":"a"}`}}},
	{"INV-TURN-CALLS-CLOSED turn.tools_finished", "has no result", talking + "turn receive_tool_calls calls=a:read", []forged{{path: turn1, kind: "turn.tools_finished", arrow: "tool_executing>streaming"}}},
	{"INV-TURN-CALLS-CLOSED turn.completed", "has no result", talking + "turn receive_tool_calls calls=a:read", []forged{{path: turn1, kind: "turn.completed", arrow: "tool_executing>completed"}}},
	{"INV-TURN-CALLS-CLOSED turn.interrupted", "has no result", talking + "turn receive_tool_calls calls=a:read", []forged{{path: turn1, kind: "turn.interrupted", arrow: "tool_executing>interrupted"}}},
	{"INV-TURN-CALLS-CLOSED turn.error", "has no result", talking + "turn receive_tool_calls calls=a:read", []forged{{path: turn1, kind: "turn.error", arrow: "tool_executing>error"}}},

	// The call.
	{"", "a call needs an id and a tool", talking, []forged{{path: callA, kind: "tool.call", arrow: ">pending_call", payload: `{"call_id":"a"}`}}},
	{"INV-TOOL-CALL-OF-TURN tool.call", "its turn did not just receive a", talking, []forged{{path: callA, kind: "tool.call", arrow: ">pending_call", payload: `{"call_id":"a","tool_name":"read"}`}}},
	{"INV-TOOL-CALL-OF-TURN tool.call", "its turn did not just receive b", talking, []forged{
		{path: turn1, kind: "turn.tool_calls_received", arrow: "streaming>tool_executing", payload: `{"call_ids":["a","b"],"groups":[0,0]}`},
		{path: callB, kind: "tool.call", arrow: ">pending_call", payload: `{"call_id":"b","tool_name":"read"}`},
	}},
	{"INV-TOOL-CALL-OF-TURN tool.call", "its turn did not just receive a", talking, []forged{
		{path: turn1, kind: "turn.tool_calls_received", arrow: "streaming>tool_executing", payload: `{"call_ids":["a"],"groups":[0]}`},
		{path: callA, kind: "tool.call", arrow: ">pending_call", payload: `{"call_id":"other","tool_name":"read"}`},
	}},
	{"INV-TOOL-CALL-OF-TURN tool.call", "its turn did not just receive a", talking + "turn receive_tool_calls calls=a:read", []forged{
		{path: callA, kind: "tool.result", arrow: "executing>completed_result", payload: `{"call_id":"a","status":"success"}`},
		{path: callA, kind: "tool.call", arrow: ">pending_call", payload: `{"call_id":"a","tool_name":"read"}`},
	}},
	{"", "an approval names who gave it", asked, []forged{{path: callA, kind: "tool.approved", arrow: "awaiting_approval>executing", payload: `{"args_digest":"digest of a"}`, by: "user:ann"}}},
	{"", "the arguments were changed", asked, []forged{{path: callA, kind: "tool.approved", arrow: "awaiting_approval>executing", payload: `{"approver":"user:ann","args_digest":"other"}`, by: "user:ann"}}},
	{"", "the arguments were changed", talking + "turn receive_tool_calls calls=\"z:read a:bash\"", []forged{{path: callA, kind: "tool.approval_requested", arrow: "pending_call>awaiting_approval", payload: `{"args_digest":"other"}`}}},
	{"INV-APPR-HUMAN tool.approved", `answered by "agent:agt_1"`, asked, []forged{{path: callA, kind: "tool.approved", arrow: "awaiting_approval>executing", payload: `{"approver":"user:ann","args_digest":"digest of a"}`, by: "agent:agt_1"}}},
	{"INV-SESSION-PAUSED-NO-TURN tool.approved", "the session is paused", asked, []forged{
		{path: "session", kind: "session.paused", arrow: "active>paused"},
		{path: callA, kind: "tool.approved", arrow: "awaiting_approval>executing", payload: `{"approver":"user:ann","args_digest":"digest of a"}`, by: "user:ann"},
	}},
	{"INV-TOOL-ORDER tool.approved", "calls before it are not done", talking + "turn receive_tool_calls calls=\"a:stat b:stat\"", []forged{{path: callB, kind: "tool.approved", arrow: "pending_call>executing", payload: `{"approver":"rule:reads","args_digest":"digest of b"}`}}},
	{"", "a side effect is never repeated by itself", running, []forged{{path: callA, kind: "tool.restarted", arrow: "executing>executing", payload: `{"attempt":2}`}}},
	{"INV-APPR-HUMAN tool.restarted", `answered by "engine"`, running + "crash", []forged{{path: callA, kind: "tool.restarted", arrow: "outcome_unknown>executing", payload: `{"attempt":2}`}}},
	{"", "attempt 5 after 1", running + "crash", []forged{{path: callA, kind: "tool.restarted", arrow: "outcome_unknown>executing", payload: `{"attempt":5}`, by: "user:ann"}}},
	{"INV-APPR-HUMAN tool.result", `answered by "engine"`, running + "crash", []forged{{path: callA, kind: "tool.result", arrow: "outcome_unknown>completed_result", payload: `{"call_id":"a","status":"success"}`}}},
	{"", "a result for b", running, []forged{{path: callA, kind: "tool.result", arrow: "executing>completed_result", payload: `{"call_id":"b","status":"success"}`}}},
	{"", `a result "error" does not lead to completed_result`, running, []forged{{path: callA, kind: "tool.result", arrow: "executing>completed_result", payload: `{"call_id":"a","status":"error"}`}}},
	{"", `leaves "executing", but the machine is in ""`, running + "a succeed", []forged{{path: callA, kind: "tool.result", arrow: "executing>completed_result", payload: `{"call_id":"a","status":"success"}`}}},
}

const (
	asked   = talking + "turn receive_tool_calls calls=a:bash\n"
	running = asked + "a approve\n"
)

// TestGuardedAppend shows that no forged rune gets into a world: each is refused
// with the promise it breaks, and leaves the world as it was.
func TestGuardedAppend(t *testing.T) {
	for i, g := range slices.Concat(guards, limitGuards, stageGuards) {
		t.Run(fmt.Sprintf("%d %s", i, strings.TrimSpace(g.breaks+" "+g.detail)), func(t *testing.T) {
			w := New(testLog)
			if g.before != "" {
				w = begin(t, g.before).World
			}
			var before []byte
			var err error
			for n, f := range g.forged {
				before = save(t, w)
				r := f.rune(w.seq + 1)
				if f.kind == "seq+1" {
					r.Seq++
				}
				if err = w.Fold(r); err != nil && n < len(g.forged)-1 {
					t.Fatalf("refused already at %s: %v", f.kind, err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), g.detail) {
				t.Fatalf("got %v, want …%s…", err, g.detail)
			}
			var v *Violation
			name, _, _ := strings.Cut(g.breaks, " ")
			if errors.As(err, &v) != (name != "") || v != nil && v.Invariant != name {
				t.Errorf("it breaks %v, want %q", v, name)
			}
			if after := save(t, w); string(after) != string(before) {
				t.Errorf("the world changed:\n%s\n%s", before, after)
			}
		})
	}
}

// TestGuardsCoverLaws shows that every law at every kind has a log that breaks it.
func TestGuardsCoverLaws(t *testing.T) {
	broken := map[string]bool{}
	for _, g := range slices.Concat(guards, limitGuards, stageGuards) {
		broken[g.breaks] = true
	}
	for kind, list := range laws {
		for _, l := range list {
			if !broken[l.name+" "+kind] {
				t.Errorf("nothing breaks %s at %s", l.name, kind)
			}
		}
	}
}
