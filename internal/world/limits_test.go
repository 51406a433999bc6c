package world

import "fmt"

// limitGuards are logs that use what nobody gave, or get what their parent has not.
var limitGuards = []guard{
	// The budget.
	{"INV-BUDGET-RAISE-HUMAN session.budget_set", `not by "agent:agt_1"`, frugal, []forged{{path: "session", kind: "session.budget_set", arrow: "active>active", payload: `{"limit":{"tokens":1000}}`, by: "agent:agt_1"}}},
	{"INV-BUDGET-RAISE-HUMAN session.budget_set", `not by "engine"`, ready, []forged{{path: "session", kind: "session.budget_set", arrow: "active>active", payload: `{"limit":{}}`}}},
	{"INV-BUDGET-RAISE-HUMAN session.budget_set", "less than nothing", ready, []forged{{path: "session", kind: "session.budget_set", arrow: "active>active", payload: `{"limit":{"tokens":-1}}`, by: "user:ann"}}},
	{"INV-BUDGET-NONNEG turn.reserved", "the limit on tokens is reached", frugal, []forged{{path: turn1, kind: "turn.reserved", arrow: "streaming>streaming", payload: `{"request":1,"attempt":1,"tokens":101}`}}},
	{"INV-BUDGET-NONNEG turn.reserved", "the limit on model calls is reached", frugal, []forged{{path: turn1, kind: "turn.reserved", arrow: "streaming>streaming", payload: `{"request":1,"attempt":1,"tokens":1,"model_calls":3}`}}},
	{"INV-BUDGET-NONNEG turn.reserved", "less than nothing", frugal, []forged{{path: turn1, kind: "turn.reserved", arrow: "streaming>streaming", payload: `{"request":1,"attempt":1,"tokens":-50}`}}},
	{"INV-BUDGET-NONNEG turn.reserved", "the limit on tokens is reached", parented, []forged{
		{path: childTurn, kind: "turn.reserved", arrow: "streaming>streaming", payload: `{"request":1,"attempt":1,"tokens":51}`},
	}},
	{"INV-BUDGET-NONNEG tool.approved", "the limit on tool calls is reached", frugal + "turn reserve amount=tokens:10\nturn receive_tool_calls calls=\"b:post a:read\"", []forged{
		{path: callB, kind: "tool.approved", arrow: "awaiting_approval>executing", payload: `{"approver":"user:ann","args_digest":"digest of b"}`, by: "user:ann"},
	}},
	{"", "one model call is reserved for once", frugal + "turn reserve amount=tokens:10", []forged{{path: turn1, kind: "turn.reserved", arrow: "streaming>streaming", payload: `{"request":1,"attempt":1,"tokens":1}`}}},
	{"", "one model call is reserved for once", frugal, []forged{{path: turn1, kind: "turn.reserved", arrow: "streaming>streaming", payload: `{"request":2,"attempt":1,"tokens":1}`}}},
	{"", "one model call is reserved for once", frugal, []forged{{path: turn1, kind: "turn.reserved", arrow: "streaming>streaming", payload: `{"request":1,"attempt":2,"tokens":1}`}}},
	{"INV-BUDGET-RESERVE turn.completed", "without a reservation", frugal, []forged{{path: turn1, kind: "turn.completed", arrow: "streaming>completed"}}},
	{"INV-BUDGET-RESERVE turn.completed", "without a reservation", parented, []forged{{path: childTurn, kind: "turn.completed", arrow: "streaming>completed"}}},
	{"INV-BUDGET-RESERVE turn.compacted", "without a reservation", frugal, []forged{{path: turn1, kind: "turn.compacted", arrow: "streaming>streaming", payload: `{"messages":1,"summary":"x"}`}}},
	{"INV-BUDGET-RESERVE turn.tool_calls_received", "without a reservation", frugal, []forged{{path: turn1, kind: "turn.tool_calls_received", arrow: "streaming>tool_executing", payload: `{"call_ids":["a"],"groups":[0]}`}}},
	{"INV-BUDGET-RESERVE turn.completed", "without a reservation", frugal + "turn reserve amount=tokens:10\nturn compact messages=1 summary=x", []forged{{path: turn1, kind: "turn.completed", arrow: "streaming>completed"}}},
	{"", "a summary stands for something", talking, []forged{{path: turn1, kind: "turn.compacted", arrow: "streaming>streaming", payload: `{"messages":0,"summary":"x"}`}}},
	{"", "a summary stands for something", talking, []forged{{path: turn1, kind: "turn.compacted", arrow: "streaming>streaming", payload: `{"messages":2}`}}},

	// Agents that work for others.
	{"INV-BUDGET-TREE agent.spawning", "the limit on agents is reached", frugal + "agent:agt_a spawn", []forged{spawning("agt_b", `"parent_id":"agt_1","depth":1`)}},
	{"INV-BUDGET-TREE agent.spawning", "less than nothing", frugal, []forged{spawning("agt_b", `"parent_id":"agt_1","depth":1,"budget":{"tokens":-5}`)}},
	{"INV-AGENT-NO-ESCALATE agent.spawning", "only the root agent has no parent", talking, []forged{spawning("agt_b", `"depth":1`)}},
	{"INV-AGENT-NO-ESCALATE agent.spawning", "its parent agt_x is not there", talking, []forged{spawning("agt_b", `"parent_id":"agt_x","depth":1`)}},
	{"INV-AGENT-NO-ESCALATE agent.spawning", "its parent is ending", talking + "root kill reason=x", []forged{spawning("agt_b", `"parent_id":"agt_1","depth":1`)}},
	{"INV-AGENT-NO-ESCALATE agent.spawning", "agent number 2 in a row", talking, []forged{spawning("agt_b", `"parent_id":"agt_1","depth":2`)}},
	{"INV-AGENT-NO-ESCALATE agent.spawning", "agent number 9 in a row", tower(maxDepth), []forged{spawning("agt_9", `"parent_id":"agt_d8","depth":9`)}},
	{"INV-AGENT-NO-ESCALATE agent.spawning", "more tools than its parent", parented, []forged{spawning("agt_b", `"parent_id":"agt_a","depth":2`)}},
	{"INV-AGENT-NO-ESCALATE agent.spawning", "its parent may not use bash", parented, []forged{spawning("agt_b", `"parent_id":"agt_a","depth":2,"tools":["read","bash"]`)}},
	{"INV-AGENT-NO-ESCALATE agent.spawning", "the place of agent agt_b is not agent:agt_c", talking, []forged{
		{path: "agent:agt_c", kind: "agent.spawning", arrow: ">spawning", payload: `{"agent_id":"agt_b","parent_id":"agt_1","depth":1}`},
	}},
	{"INV-AGENT-NO-ESCALATE agent.spawning", "the place of agent agt_1 is not agent:agt_c", talking, []forged{
		{path: "agent:agt_c", kind: "agent.spawning", arrow: ">spawning", payload: `{"agent_id":"agt_1","parent_id":"agt_1","depth":1}`},
	}},
	{"", "nothing waits for it", parented, []forged{
		{path: "agent:agt_a", kind: "agent.turn_ended", arrow: "running_turn>idle", payload: `{"turn_id":"turn_1"}`},
		{path: "agent:agt_a", kind: "agent.turn_assigned", arrow: "idle>running_turn", payload: `{"turn_id":"turn_2","mode":"task"}`},
	}},

	// Answers and ways back.
	{"", "taken up 3 times after 0", running, []forged{{path: callA, kind: "tool.reattached", arrow: "executing>executing", payload: `{"call_id":"a","times":3}`}}},
	{"INV-APPR-HUMAN tool.result", `answered by "agent:agt_1"`, talking + "turn receive_tool_calls calls=a:ask", []forged{
		{path: callA, kind: "tool.result", arrow: "awaiting_approval>completed_result", payload: `{"call_id":"a","status":"success"}`, by: "agent:agt_1"},
	}},
	{"INV-REWIND-BACK session.rewound", "rune 99 is still to come", ready, []forged{{path: "session", kind: "session.rewound", arrow: "active>active", payload: `{"to_seq":99}`}}},
	{"", "a turn is running", talking, []forged{{path: "session", kind: "session.rewound", arrow: "active>active", payload: `{"to_seq":1}`}}},
}

const (
	frugal   = "session create mode=ask budget=\"tokens:100 model_calls:2 tool_calls:1 agents:1\"\nroot become_ready\nsession say text=hi\n"
	parented = talking + "agent:agt_a spawn first=go tools=read budget=tokens:50\nagent:agt_a become_ready\n"

	childTurn = "agent:agt_a/turn:1"
)

// spawning forges an agent at its own place.
func spawning(id, rest string) forged {
	return forged{path: "agent:" + id, kind: "agent.spawning", arrow: ">spawning", payload: `{"agent_id":"` + id + `",` + rest + `}`}
}

// tower is a story in which agents start agents, so many in a row.
func tower(height int) string {
	lines, parent := talking, "agt_1"
	for n := 1; n <= height; n++ {
		lines += fmt.Sprintf("agent:agt_d%d spawn parent_id=%s depth=%d\n", n, parent, n)
		parent = fmt.Sprintf("agt_d%d", n)
	}
	return lines
}
