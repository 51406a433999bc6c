package machine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stave/internal/machine"
)

// drawn is one arrow of the founding drawings with the rune kind their tables
// (or, where those are silent, our decisions) give it.
type drawn struct {
	from, to machine.State
	kinds    string // all of them must be on the arrow
	label    string // as the drawing words it
}

// drawings holds every arrow of the founding diagrams; those of workflow and stage
// are the messages of a sequence diagram. `terminated` of an
// agent in a turn is the one that differs in shape: its turn ends first, in the
// same batch, so the arrow is taken by the turn's end and announced by
// agent.stopping.
var drawings = map[string][]drawn{
	"turn": {
		{"idle", "streaming", "turn.started", "start_turn(input)"},
		{"streaming", "streaming", "turn.assistant_delta", "delta"},
		{"streaming", "tool_executing", "turn.tool_calls_received", "tool_calls_received"},
		{"streaming", "completed", "turn.completed", "response_done(no_tool_calls)"},
		{"streaming", "interrupted", "turn.interrupted", "interrupt / steer"},
		{"streaming", "error", "turn.error", "stream_error"},
		{"tool_executing", "streaming", "turn.tools_finished", "tools_finished(continue)"},
		{"tool_executing", "completed", "turn.completed", "tools_finished(no_more_calls)"},
		{"tool_executing", "interrupted", "turn.interrupted", "interrupt"},
		{"tool_executing", "error", "turn.error", "tool_crash(unrecoverable)"},
		{"interrupted", "idle", "turn.finalized", "turn_finalized"},
		{"completed", "idle", "turn.finalized", "turn_finalized"},
		{"error", "idle", "turn.finalized", "turn_finalized"},
	},
	"tool": {
		{"", "pending_call", "tool.call", "born"},
		{"pending_call", "awaiting_approval", "tool.approval_requested", "requires_approval"},
		{"pending_call", "executing", "tool.approved", "auto_approved / no_approval_needed"},
		{"awaiting_approval", "executing", "tool.approved", "approved"},
		{"awaiting_approval", "denied", "tool.denied", "denied"},
		{"denied", "denied", "tool.result", "every call has one result"},
		{"awaiting_approval", "timeout_result", "tool.result", "approval_timeout"},
		{"executing", "executing", "tool.progress", "progress_update"},
		{"executing", "completed_result", "tool.result", "success"},
		{"executing", "error_result", "tool.result", "execution_error"},
		{"executing", "timeout_result", "tool.result", "execution_timeout"},
		{"executing", "cancelled_result", "tool.result", "cancelled"},
	},
	"session": {
		{"", "created", "session.created", "born"},
		{"created", "active", "session.activated", "first_message / agent_ready"},
		{"active", "active", "session.turn_admitted session.turn_ended", "new_turn / turn_completed"},
		{"active", "paused", "session.paused", "pause_requested"},
		{"active", "suspended", "session.suspended", "budget_exhausted / error_threshold"},
		{"active", "closing", "session.closing", "close_requested"},
		{"paused", "active", "session.resumed", "resume_requested"},
		{"paused", "closing", "session.closing", "close_requested"},
		{"suspended", "active", "session.unsuspended", "budget_replenished / reset"},
		{"suspended", "closing", "session.closing", "close_requested"},
		{"created", "closing", "session.closing", "* -> closing"},
		{"closing", "closed", "session.closed", "cleanup_complete"},
		{"closed", "archived", "session.archived", "archive_requested"},
	},
	"agent": {
		{"", "spawning", "agent.spawning", "born"},
		{"spawning", "idle", "agent.ready", "init_complete"},
		{"spawning", "failed", "agent.failed", "init_error"},
		{"spawning", "terminated", "agent.terminated", "* -> terminated"},
		{"idle", "running_turn", "agent.turn_assigned", "turn_assigned"},
		{"idle", "terminated", "agent.terminated", "kill / parent_closed, budget_exhausted"},
		{"running_turn", "idle", "agent.turn_ended", "turn_completed, turn_interrupted, turn_error"},
		{"running_turn", "running_turn", "agent.stopping", "kill(force) begins"},
		{"running_turn", "terminated", "agent.terminated", "kill(force)"},
	},
	"workflow": {
		{"", "running", "workflow.started", "start SM pipeline entry stage"},
		{"running", "running", "workflow.stages_chosen workflow.stage_begun", "begin Plan Setup"},
		{"running", "running", "workflow.stage_done", "Exit with plan result"},
		{"running", "choosing", "workflow.next_due", "Next"},
		{"choosing", "running", "workflow.stages_chosen", "Next returns Execute sequential"},
		{"choosing", "completed", "workflow.completed", "pipeline done"},
		{"running", "completed", "workflow.completed", "fan-out without a join: done with the last sibling"},
		{"running", "stopping", "workflow.stage_done workflow.stopping", "a failure in any sibling strict-cancels the rest"},
		{"stopping", "failed", "workflow.failed", "and fails the workflow"},
		{"stopping", "cancelled", "workflow.cancelled", "cancelled by a person"},
	},
	"stage": {
		{"", "setup", "stage.begun", "begin Setup"},
		{"setup", "init", "stage.prepared", "resolve allowedTools, populate StageContext"},
		{"init", "check_gate", "stage.initialized", "Init interpolates body against StageContext"},
		{"check_gate", "act", "stage.act_started", "sends system prompt under a fresh transcript"},
		{"check_gate", "assert", "stage.gate_checked", "retry or skip: Act is not entered"},
		{"act", "act", "stage.completion_accepted stage.completion_rejected stage.reminded", "parse completionSchema"},
		{"act", "assert", "stage.act_ended", "the completion was accepted, or the cap hit"},
		{"assert", "exit", "stage.asserted", "Assert ok"},
		{"assert", "retrying", "stage.retried", "Assert retry"},
		{"retrying", "setup", "stage.reentered", "another attempt on a fresh transcript"},
		{"exit", "exited", "stage.exited", "Exit with plan result"},
		{"exit", "failed", "stage.failed", "Assert fail: Exit runs, Next is not asked"},
		{"act", "stopping", "stage.stopping", "strict cancel begins"},
		{"stopping", "cancelled", "stage.cancelled", "strict cancel"},
	},
}

// ours holds the states the founding diagrams lack, each with its reason.
var ours = map[string]string{
	"tool.outcome_unknown": "a lost side effect is neither repeated nor called done",
	"tool.unknown_result":  "nobody could say what became of it",
	"workflow.changed":     "a run whose definition changed asks before it goes on",
}

// TestFoundingDrawings shows that every arrow of the founding diagrams is in our
// tables with its rune kind, and that no state was added without a reason.
func TestFoundingDrawings(t *testing.T) {
	forEach(t, func(t *testing.T, r room) {
		states := map[machine.State]bool{}
		for _, d := range drawings[r.spec.Name] {
			states[d.from], states[d.to] = true, true
			for kind := range strings.FieldsSeq(d.kinds) {
				if !slices.ContainsFunc(r.spec.Transitions, func(tr machine.Transition) bool {
					return tr.From == d.from && tr.To == d.to && tr.Rune == kind
				}) {
					t.Errorf("%s → %s (%s): no arrow records %s", d.from, d.to, d.label, kind)
				}
			}
		}
		for _, s := range r.spec.States {
			if name := fmt.Sprintf("%s.%s", r.spec.Name, s.Name); !states[s.Name] && ours[name] == "" {
				t.Errorf("%s is in no drawing and has no reason", name)
			}
		}
	})
}
