package world

// Beginnings of runs.
const (
	planned = ready + "workflow:r start stages=Plan:2:2\n"
	acting  = planned + "Plan acts tools=read\n"
	judged  = acting + "Plan/turn receive_tool_calls calls=a:hand\nPlan/a succeed\n"
	chose   = judged + "Plan assert verdict=ok\n"
	fanned  = chose + "workflow:r choose stages=\"Test Lint Last\" execution=parallel join=Review after=Plan\n"
	asking  = acting + "workflow:r drift hash=h2\n"

	runR      = "workflow:r"
	stagePlan = "workflow:r/stage:Plan.1"
	planTurn  = "agent:stg_r_Plan_1_1/turn:1"
	begun     = `{"stage_execution_id":"r.Plan.1","stage":"Plan","visit":1,"completion_tool":"hand","turn_cap":2,"max_attempts":2}`
)

// ofPlan forges a rune of the stage Plan.
func ofPlan(kind, arrow, payload string) []forged {
	return []forged{{path: stagePlan, kind: kind, arrow: arrow, payload: payload}}
}

// ofRun forges a rune of the run.
func ofRun(kind, arrow, payload string) []forged {
	return []forged{{path: runR, kind: kind, arrow: arrow, payload: payload}}
}

// begins forges a run, signed by somebody.
func begins(path, payload, by string) []forged {
	return []forged{{path: path, kind: "workflow.started", arrow: ">running", payload: payload, by: by}}
}

// stageGuards are logs in which a stage does what its run or its limits do not
// let it.
var stageGuards = []guard{
	// The run.
	{"INV-WORKFLOW-HUMAN workflow.started", `not by "agent:agt_1"`, ready, begins(runR, `{"run_id":"r","definition_hash":"h","parallel_cap":1}`, "agent:agt_1")},
	{"INV-WORKFLOW-HUMAN workflow.started", `not by "engine"`, ready, begins(runR, `{"run_id":"r","definition_hash":"h","parallel_cap":1}`, "")},
	{"INV-WORKFLOW-HUMAN workflow.started", "the place of run x is not workflow:r", ready, begins(runR, `{"run_id":"x","definition_hash":"h","parallel_cap":1}`, "user:ann")},
	{"INV-SESSION-PAUSED-NO-TURN workflow.started", "the session is paused", ready + "session pause", begins(runR, `{"run_id":"r","definition_hash":"h","parallel_cap":1}`, "user:ann")},
	{"", "a run needs an id, a definition and room", ready, begins(runR, `{"run_id":"r","definition_hash":"h"}`, "user:ann")},
	{"", "a run needs an id, a definition and room", ready, begins(runR, `{"run_id":"r","parallel_cap":1}`, "user:ann")},
	{"", "the workflow r runs already", planned, []forged{{path: "session", kind: "session.run_began", arrow: "active>active", payload: `{"run_id":"r"}`}}},
	{"INV-WORKFLOW-HUMAN workflow.confirmed", `answered by "engine"`, asking, ofRun("workflow.confirmed", "changed>running", `{"by":"user:ann"}`)},
	{"", "a person has to say so", asking, []forged{{path: runR, kind: "workflow.confirmed", arrow: "changed>running", by: "user:ann"}}},
	{"", "the stages chosen before are not done", planned, ofRun("workflow.stages_chosen", "running>running", `{"stages":[{"stage":"Other"}]}`)},
	{"", `stage "Lint" cannot be chosen`, chose, ofRun("workflow.stages_chosen", "choosing>running", `{"stages":[{"stage":"Lint"}],"join":{"stage":"Lint"}}`)},
	{"", `stage "" cannot be chosen`, chose, ofRun("workflow.stages_chosen", "choosing>running", `{"stages":[{}]}`)},
	{"", "stage Lint was chosen twice", chose, ofRun("workflow.stages_chosen", "choosing>running", `{"stages":[{"stage":"Lint"},{"stage":"Lint"}],"execution":"parallel"}`)},
	{"", "it is not the turn of stage Plan", planned, ofRun("workflow.stage_begun", "running>running", `{"stage_execution_id":"r.Plan.2","visit":2,"stage":"Plan"}`)},
	{"", "it is not the turn of stage Last", fanned, ofRun("workflow.stage_begun", "running>running", `{"stage_execution_id":"r.Last.1","visit":1,"stage":"Last","completion_tool":"hand","turn_cap":3,"max_attempts":2}`)},
	{"", "stage Other is entered for the time number 1", chose, []forged{
		{path: runR, kind: "workflow.stages_chosen", arrow: "choosing>running", payload: `{"stages":[{"stage":"Other"}]}`},
		{path: runR, kind: "workflow.stage_begun", arrow: "running>running", payload: `{"stage_execution_id":"r.Other.2","visit":2,"stage":"Other"}`},
	}},
	{"", "stage Other is entered for the time number 1", chose, []forged{
		{path: runR, kind: "workflow.stages_chosen", arrow: "choosing>running", payload: `{"stages":[{"stage":"Other"}]}`},
		{path: runR, kind: "workflow.stage_begun", arrow: "running>running", payload: `{"stage_execution_id":"r.Plan.1","visit":1,"stage":"Other"}`},
	}},
	{"", "r.Test.7 is not under way", fanned, ofRun("workflow.stage_done", "running>running", `{"stage_execution_id":"r.Test.7","result":{"status":"ok"}}`)},
	{"", "its stages are not done", fanned, ofRun("workflow.next_due", "running>choosing", `{"stage":"Plan"}`)},
	{"", "2 stages run and 1 wait", fanned, ofRun("workflow.completed", "running>completed", `{"run_id":"r"}`)},
	{"", "1 stages run and 0 wait", acting, []forged{
		{path: runR, kind: "workflow.stopping", arrow: "running>stopping", payload: `{"reason":"x"}`},
		{path: runR, kind: "workflow.cancelled", arrow: "stopping>cancelled"},
	}},
	{"", "1 stages run and 0 wait", acting, []forged{
		{path: runR, kind: "workflow.stopping", arrow: "running>stopping", payload: `{"reason":"x","failed":true}`},
		{path: runR, kind: "workflow.failed", arrow: "stopping>failed"},
	}},
	{"INV-SESSION-QUIESCE session.closed", "is still there", planned, []forged{
		{path: "session", kind: "session.closing", arrow: "active>closing", payload: `{"reason":"x"}`},
		{path: "agent:root", kind: "agent.terminated", arrow: "idle>terminated"},
		{path: "session", kind: "session.closed", arrow: "closing>closed"},
	}},

	// The stage.
	{"INV-WORKFLOW-ORDER stage.begun", "its run did not let stage Other begin", planned, []forged{
		{path: "workflow:r/stage:Other.1", kind: "stage.begun", arrow: ">setup", payload: `{"stage_execution_id":"r.Other.1","stage":"Other","completion_tool":"c","turn_cap":1,"max_attempts":1}`},
	}},
	{"INV-WORKFLOW-ORDER stage.begun", "its run did not let stage Plan begin", planned, []forged{{path: "workflow:r/stage:Other.1", kind: "stage.begun", arrow: ">setup", payload: begun}}},
	{"INV-WORKFLOW-ORDER stage.begun", "its run did not let stage Plan begin", ready, []forged{{path: stagePlan, kind: "stage.begun", arrow: ">setup", payload: begun}}},
	{"", "a stage needs an id, a name, a completion tool", planned, []forged{{path: "workflow:r/stage:Other.1", kind: "stage.begun", arrow: ">setup", payload: `{"stage_execution_id":"r.Other.1","stage":"Other","turn_cap":1,"max_attempts":1}`}}},
	{"", "attempt 2 begins while attempt 1 is under way", planned + "Plan prepare\nPlan initialize prompt=x\n", ofPlan("stage.act_started", "check_gate>act", `{"agent_id":"x","attempt":2}`)},
	{"", "an attempt has one result", acting + "Plan/turn receive_tool_calls calls=\"a:hand b:hand\"\nPlan/a succeed\n", ofPlan("stage.completion_accepted", "act>act", `{"call_id":"b","payload":{}}`)},
	{"", "an attempt has one result", acting, ofPlan("stage.completion_accepted", "act>act", `{"call_id":"b"}`)},
	{"", "3 model requests, and 2 are allowed", acting, ofPlan("stage.turn_taken", "act>act", `{"requests":3}`)},
	{"", "3 model requests, and 2 are allowed", acting, ofPlan("stage.reminded", "act>act", `{"requests":3}`)},
	{"", "3 model requests, and 2 are allowed", acting, ofPlan("stage.act_ended", "act>assert", `{"requests":3}`)},
	{"", "-1 model requests", acting, ofPlan("stage.turn_taken", "act>act", `{"requests":-1}`)},
	{"", `not to "retry"`, judged, ofPlan("stage.asserted", "assert>exit", `{"verdict":"retry"}`)},
	{"", `proceed, skip or retry, not "open"`, planned + "Plan prepare\nPlan initialize prompt=x\n", ofPlan("stage.gate_checked", "check_gate>assert", `{"verdict":"open"}`)},
	{"", "attempt 3 of 2 after 1", judged, ofPlan("stage.retried", "assert>retrying", `{"next_attempt":3}`)},
	{"", "attempt 3 of 2 after 2", judged + "Plan assert verdict=retry\nPlan again\nPlan acts tools=read\nPlan/turn interrupt\n", ofPlan("stage.retried", "assert>retrying", `{"next_attempt":3}`)},

	// Its agent.
	{"INV-STAGE-AGENT agent.spawning", "has no agent agt_x", acting, []forged{spawning("agt_x", `"parent_id":"agt_1","depth":1,"stage":"`+stagePlan+`"`)}},
	{"INV-STAGE-AGENT agent.spawning", "has no agent stg_r_Plan_1_1", judged, []forged{spawning("stg_r_Plan_1_1", `"parent_id":"agt_1","depth":1,"stage":"`+stagePlan+`"`)}},
	{"INV-STAGE-AGENT agent.spawning", "has no agent agt_x", ready, []forged{spawning("agt_x", `"parent_id":"agt_1","depth":1,"stage":"workflow:q/stage:None.1"`)}},
	{"INV-STAGE-AGENT agent.told", "agent:agt_1 has nothing to tell it", acting, []forged{{path: "agent:stg_r_Plan_1_1", kind: "agent.told", arrow: "running_turn>running_turn", payload: `{"text":"listen"}`, by: "agent:agt_1"}}},
	{"INV-STAGE-AGENT agent.told", "agent:agt_1 has nothing to tell it", planned + "Plan prepare\nPlan initialize prompt=x\nPlan gate verdict=proceed\n", []forged{{path: "agent:stg_r_Plan_1_1", kind: "agent.told", arrow: "spawning>spawning", payload: `{"text":"listen"}`, by: "agent:agt_1"}}},
	{"INV-STAGE-TURN-CAP turn.started", "a turn of 3 model requests, and the stage has 2 left", planned + "Plan prepare\nPlan initialize prompt=x\nPlan gate verdict=proceed\n", startsTurn(`"max_requests":3,`)},
	{"INV-STAGE-TURN-CAP turn.started", "a turn of 0 model requests", planned + "Plan prepare\nPlan initialize prompt=x\nPlan gate verdict=proceed\n", startsTurn("")},
	{"INV-STAGE-ENVELOPE tool.approved", "nobody granted it", acting + "Plan/turn receive_tool_calls calls=\"b:read a:write\"\n", []forged{
		{path: planTurn + "/tool:b", kind: "tool.result", arrow: "executing>completed_result", payload: `{"call_id":"b","status":"success"}`},
		{path: planTurn, kind: "turn.call_finished", arrow: "tool_executing>tool_executing", payload: `{"call_id":"b","status":"success"}`},
		{path: planTurn + "/tool:a", kind: "tool.approved", arrow: "pending_call>executing", payload: `{"approver":"rule:yolo","args_digest":"digest of a"}`},
	}},
	{"INV-STAGE-ENVELOPE tool.approved", "nobody granted it", acting + "Plan/turn receive_tool_calls calls=\"b:read a:write\"\n", []forged{
		{path: planTurn + "/tool:b", kind: "tool.result", arrow: "executing>completed_result", payload: `{"call_id":"b","status":"success"}`},
		{path: planTurn, kind: "turn.call_finished", arrow: "tool_executing>tool_executing", payload: `{"call_id":"b","status":"success"}`},
		{path: planTurn + "/tool:a", kind: "tool.approval_requested", arrow: "pending_call>awaiting_approval", payload: `{"call_id":"a","args_digest":"digest of a","grant":{"stage_execution_id":"r.Plan.1","stage":"Plan","attempt":9}}`},
		{path: planTurn + "/tool:a", kind: "tool.approved", arrow: "awaiting_approval>executing", payload: `{"approver":"user:ann","args_digest":"digest of a"}`, by: "user:ann"},
	}},
}

// startsTurn forges the first turn of Plan's agent.
func startsTurn(limit string) []forged {
	const agent = "agent:stg_r_Plan_1_1"
	return []forged{
		{path: agent, kind: "agent.ready", arrow: "spawning>idle"},
		{path: agent, kind: "agent.turn_assigned", arrow: "idle>running_turn", payload: `{"turn_id":"turn_1","mode":"task"}`},
		{path: planTurn, kind: "turn.started", arrow: "idle>streaming", payload: `{` + limit + `"turn_id":"turn_1","number":1}`},
	}
}
