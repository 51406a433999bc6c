package world

import (
	"errors"
	"fmt"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
)

// Violation says that a rune would break a promise of the whole log. It is
// found before the rune is written, and by verify in a log from elsewhere.
type Violation struct {
	Invariant string
	Detail    string
}

func (v *Violation) Error() string { return v.Invariant + ": " + v.Detail }

// law is a promise that concerns more than one machine.
type law struct {
	name string
	hold func(w *World, p Path, mv machine.Move, by string) error
}

// laws are held at the runes they name. What concerns one machine alone is held
// by its table and its Evolve.
var laws = map[string][]law{
	"session.created":          {{"INV-SESSION-FIRST", isFirst}},
	"session.closed":           {{"INV-SESSION-QUIESCE", nothingElseLives}},
	"session.turn_admitted":    {{"INV-TURN-SEQUENTIAL", noTurnRuns}},
	"agent.spawning":           {{"INV-AGENT-PARENT", sessionLives}, {"INV-AGENT-NO-ESCALATE", insideParent}, {"INV-BUDGET-TREE", roomForAgent}, {"INV-STAGE-AGENT", worksForStage}},
	"agent.told":               {{"INV-STAGE-AGENT", toldByStage}},
	"turn.reserved":            {{"INV-BUDGET-NONNEG", roomForCall}},
	"session.rewound":          {{"INV-REWIND-BACK", rewindsBack}},
	"session.budget_set":       {{"INV-BUDGET-RAISE-HUMAN", setByPerson}},
	"turn.started":             {{"INV-SESSION-PAUSED-NO-TURN", sessionRuns}, {"INV-TURN-SEQUENTIAL", agentsOnlyTurn}, {"INV-STAGE-TURN-CAP", insideCap}},
	"turn.call_finished":       {{"INV-TOOL-TERMINAL", hasResult}},
	"turn.tools_finished":      {{"INV-TURN-CALLS-CLOSED", noOpenCall}},
	"turn.completed":           {{"INV-TURN-CALLS-CLOSED", noOpenCall}, {"INV-BUDGET-RESERVE", reservedFirst}},
	"turn.compacted":           {{"INV-BUDGET-RESERVE", reservedFirst}},
	"turn.tool_calls_received": {{"INV-BUDGET-RESERVE", reservedFirst}},
	"turn.interrupted":         {{"INV-TURN-CALLS-CLOSED", noOpenCall}},
	"turn.error":               {{"INV-TURN-CALLS-CLOSED", noOpenCall}},
	"agent.terminated":         {{"INV-AGENT-PARENT-CLOSE", nothingUnder}},
	"tool.call":                {{"INV-TOOL-CALL-OF-TURN", turnExpectsCall}},
	"tool.restarted":           {{"INV-APPR-HUMAN", answeredByPerson}},
	"tool.result":              {{"INV-APPR-HUMAN", answeredByPerson}},
	"tool.approved":            {{"INV-APPR-HUMAN", answeredByPerson}, {"INV-SESSION-PAUSED-NO-TURN", sessionRuns}, {"INV-TOOL-ORDER", groupIsNext}, {"INV-BUDGET-NONNEG", roomForTool}, {"INV-STAGE-ENVELOPE", insideEnvelope}},
	"workflow.started":         {{"INV-WORKFLOW-HUMAN", startedByPerson}, {"INV-SESSION-PAUSED-NO-TURN", sessionBegins}},
	"workflow.confirmed":       {{"INV-WORKFLOW-HUMAN", confirmedByPerson}},
	"stage.begun":              {{"INV-WORKFLOW-ORDER", chosenByRun}},
}

// permit holds the laws of one move, before it is taken.
func (w *World) permit(p Path, mv machine.Move, by string) error {
	if w.seq == 0 && mv.Kind != "session.created" {
		return &Violation{"INV-SESSION-FIRST", "a log begins with session.created"}
	}
	for _, l := range laws[mv.Kind] {
		if err := l.hold(w, p, mv, by); err != nil {
			return &Violation{l.name, err.Error()}
		}
	}
	return nil
}

func isFirst(w *World, p Path, _ machine.Move, _ string) error {
	if w.seq != 0 || p != SessionPath {
		return errors.New("a log has one session, and it is first")
	}
	return nil
}

func nothingElseLives(w *World, _ Path, _ machine.Move, _ string) error {
	for _, name := range []string{"agent", "turn", "tool", "stage", "workflow"} {
		if left := w.paths(name, ""); len(left) > 0 {
			return fmt.Errorf("%s is still there", left[0])
		}
	}
	return nil
}

func noTurnRuns(w *World, _ Path, _ machine.Move, _ string) error {
	if running := data[agent.Data](w, RootPath).Turn; running != "" {
		return fmt.Errorf("%s is running", running)
	}
	return nil
}

func sessionLives(w *World, _ Path, _ machine.Move, _ string) error {
	if s := w.State(SessionPath); s == "closing" || s == "closed" || s == "archived" {
		return fmt.Errorf("the session is %s", s)
	}
	return nil
}

// sessionRuns holds that nothing new begins while a session is stopped. A
// closing session still lets its present turn finish.
func sessionRuns(w *World, _ Path, mv machine.Move, _ string) error {
	s := w.State(SessionPath)
	if s == "active" || (s == "closing" && mv.Kind == "tool.approved") {
		return nil
	}
	return fmt.Errorf("the session is %s", s)
}

// sessionBegins is sessionRuns for what may also begin with its session.
func sessionBegins(w *World, p Path, mv machine.Move, by string) error {
	if w.State(SessionPath) == "created" {
		return nil
	}
	return sessionRuns(w, p, mv, by)
}

func agentsOnlyTurn(w *World, p Path, mv machine.Move, _ string) error {
	started := mv.Event.(turn.Started)
	if d := data[agent.Data](w, p.parent()); d.Turn != started.TurnID {
		return fmt.Errorf("%s starts but its agent was given %q", started.TurnID, d.Turn)
	}
	for _, other := range w.paths("turn", p.parent()) {
		if other != p {
			return fmt.Errorf("%s is running", other)
		}
	}
	return nil
}

func noOpenCall(w *World, p Path, _ machine.Move, _ string) error {
	if open := w.paths("tool", p); len(open) > 0 {
		return fmt.Errorf("%s has no result", open[0])
	}
	return nil
}

func nothingUnder(w *World, p Path, _ machine.Move, _ string) error {
	for _, name := range []string{"turn", "tool"} {
		if left := w.paths(name, p); len(left) > 0 {
			return fmt.Errorf("%s is still there", left[0])
		}
	}
	return nil
}

// hasResult holds that a turn notes the end of a call only after the call's own.
func hasResult(w *World, p Path, mv machine.Move, _ string) error {
	id := mv.Event.(turn.CallFinished).CallID
	if w.State(p.tool(id)) != machine.None {
		return fmt.Errorf("%s has no result", id)
	}
	return nil
}

// turnExpectsCall holds that the calls of an answer are recorded right behind
// it, each once and in order.
func turnExpectsCall(w *World, p Path, mv machine.Move, _ string) error {
	parent, _ := w.find(p.parent())
	for i, o := range data[turn.Data](w, p.parent()).Open {
		if o.CallID == p.Name() && o.CallID == mv.Event.(tool.Call).CallID && w.seq == parent.seq+uint64(i) {
			return nil
		}
	}
	return fmt.Errorf("its turn did not just receive %s", p.Name())
}

// answeredByPerson holds that nothing but a person lets an asked call run or
// says what became of a lost one.
func answeredByPerson(_ *World, _ Path, mv machine.Move, by string) error {
	asked := mv.From == "awaiting_approval" && (mv.To == "executing" || mv.To == "completed_result")
	lost := mv.From == "outcome_unknown" && mv.To != "unknown_result"
	if (asked || lost) && !strings.HasPrefix(by, "user:") {
		return fmt.Errorf("a question for a person was answered by %q", by)
	}
	return nil
}

func groupIsNext(w *World, p Path, _ machine.Move, _ string) error {
	for _, id := range data[turn.Data](w, p.parent()).Next() {
		if id == p.Name() {
			return nil
		}
	}
	return errors.New("calls before it are not done")
}
