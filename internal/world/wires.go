package world

import (
	"slices"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/policy"
)

// wire carries news from one machine to another inside the same batch.
type wire struct {
	kind    string // when this rune is recorded
	to      string // who is told
	machine string // of what machine
	command string // what
	send    func(w *World, at Path, e machine.Event) []letter
}

// on declares a wire: when an E is recorded, tell whoever send names a C.
func on[E machine.Event, C machine.Command](to string, send func(w *World, at Path, e E) []letter) wire {
	var e E
	var c C
	return wire{
		kind: machine.Kind(e), to: to, machine: machine.Room(c), command: machine.Verb(c),
		send: func(w *World, at Path, e machine.Event) []letter { return send(w, at, e.(E)) },
	}
}

// wireList is every wire there is. Those of stages come before the rest: what a
// call hands in is heard by its stage before its turn goes on.
var wireList = slices.Concat(stageWires, conversationWires)

var conversationWires = []wire{
	on[session.Created, agent.Spawn]("new root agent", func(_ *World, _ Path, e session.Created) []letter {
		return to(RootPath, agent.Spawn{Spawning: agent.Spawning{AgentID: e.RootAgentID, Role: "root", Model: e.Config.Model}})
	}),
	on[session.Created, session.Say]("itself, if it begins with a message", func(_ *World, _ Path, e session.Created) []letter {
		if e.First == nil {
			return nil
		}
		return []letter{{path: SessionPath, cmd: e.First.Say, by: e.First.By}}
	}),
	on[agent.Spawning, agent.Tell]("itself, if it comes with a task", func(_ *World, at Path, e agent.Spawning) []letter {
		if e.First == "" {
			return nil
		}
		return []letter{{path: at, cmd: agent.Tell{Told: agent.Told{Text: e.First}}, by: "agent:" + e.ParentID}}
	}),
	on[agent.Ready, agent.Proceed]("itself", goOn[agent.Ready]),
	on[agent.Told, agent.Proceed]("itself", goOn[agent.Told]),
	on[agent.TurnEnded, agent.Proceed]("itself", goOn[agent.TurnEnded]),
	on[session.Activated, agent.Proceed]("every agent", allGoOn[session.Activated]),
	on[session.Resumed, agent.Proceed]("every agent", allGoOn[session.Resumed]),
	on[session.Unsuspended, agent.Proceed]("every agent", allGoOn[session.Unsuspended]),
	on[agent.Terminated, agent.Kill]("the agents under it", func(w *World, at Path, e agent.Terminated) []letter {
		return toAll(w.children(e.AgentID), agent.Kill{Reason: "its parent ended: " + e.Reason, Force: true})
	}),
	on[agent.Failed, agent.Kill]("the agents under it", func(w *World, _ Path, e agent.Failed) []letter {
		return toAll(w.children(e.AgentID), agent.Kill{Reason: "its parent failed: " + e.Error, Force: true})
	}),
	on[agent.Ready, session.Activate]("session, which begins with the root agent", func(w *World, at Path, e agent.Ready) []letter {
		if at != RootPath && w.State(SessionPath) == "created" {
			return nil
		}
		return to(SessionPath, session.Activate{AgentID: e.AgentID})
	}),
	on[agent.Failed, session.AgentGone]("session", func(_ *World, at Path, e agent.Failed) []letter {
		return to(SessionPath, session.AgentGone{AgentID: e.AgentID, Root: at == RootPath, Reason: e.Error})
	}),
	on[agent.Terminated, session.AgentGone]("session", func(_ *World, at Path, e agent.Terminated) []letter {
		return to(SessionPath, session.AgentGone{AgentID: e.AgentID, Root: at == RootPath, Reason: e.Reason})
	}),

	on[session.Activated, session.Proceed]("itself", proceed[session.Activated]),
	on[session.AgentJoined, session.Proceed]("itself", proceed[session.AgentJoined]),
	on[session.AgentLost, session.Proceed]("itself", proceed[session.AgentLost]),
	on[session.MessageReceived, session.Proceed]("itself", proceed[session.MessageReceived]),
	on[session.TurnEnded, session.Proceed]("itself", proceed[session.TurnEnded]),
	on[session.Resumed, session.Proceed]("itself", proceed[session.Resumed]),
	on[session.Closing, session.Proceed]("itself", proceed[session.Closing]),
	on[session.Unsuspended, agent.Spawn]("root agent, if it is gone", func(w *World, _ Path, _ session.Unsuspended) []letter {
		s := w.Session()
		if w.State(RootPath) != machine.None {
			return nil
		}
		return to(RootPath, agent.Spawn{Spawning: agent.Spawning{AgentID: s.RootAgentID, Role: "root", Model: s.Config.Model}})
	}),
	on[session.Unsuspended, session.Proceed]("itself, if the root agent is there", func(w *World, at Path, e session.Unsuspended) []letter {
		if w.State(RootPath) == machine.None {
			return nil // it proceeds when the new one is ready
		}
		return proceed(w, at, e)
	}),

	on[session.TurnAdmitted, agent.Assign]("root agent", func(w *World, _ Path, e session.TurnAdmitted) []letter {
		cfg := w.Session().Config
		return to(RootPath, agent.Assign{Work: agent.Work{
			Turn: e.Turn, Text: e.Text, Images: e.Images, Mode: e.Mode, Message: e.Message,
			MaxRequests: cfg.MaxRequests, MaxAttempts: cfg.MaxAttempts,
		}})
	}),
	on[agent.TurnAssigned, turn.Start]("its turn", func(_ *World, at Path, e agent.TurnAssigned) []letter {
		return to(at.turn(e.Turn), turn.Start{Started: turn.Started{
			TurnID: e.TurnID, Number: e.Turn, AgentID: e.AgentID, MaxRequests: e.MaxRequests, MaxAttempts: e.MaxAttempts,
			Input: turn.Input{Text: e.Text, Images: e.Images, Mode: e.Mode, Message: e.Message},
		}})
	}),

	on[session.MessageReceived, turn.Steer]("root agent's turn, if it steers", func(w *World, _ Path, e session.MessageReceived) []letter {
		if e.Mode != session.Steer {
			return nil
		}
		return toAll(w.paths("turn", RootPath), turn.Steer{})
	}),
	on[session.Paused, turn.Pause]("every turn", func(w *World, _ Path, _ session.Paused) []letter {
		return toAll(w.paths("turn", ""), turn.Pause{Reason: "pause"})
	}),
	on[session.Suspended, tool.Doubt]("running effects, if their process died", func(w *World, _ Path, e session.Suspended) []letter {
		if e.Reason != session.CrashLoop {
			return nil
		}
		// Or the interrupt below would call them cancelled.
		lost := slices.DeleteFunc(w.paths("tool", ""), func(p Path) bool { return data[tool.Data](w, p).Harmless() })
		return toAll(lost, tool.Doubt{Known: "the process ended while it ran"})
	}),
	on[session.Suspended, turn.Interrupt]("every turn", func(w *World, _ Path, _ session.Suspended) []letter {
		return toAll(w.paths("turn", ""), turn.Interrupt{Reason: "suspended"})
	}),
	on[session.Closing, agent.Kill]("every agent", func(w *World, _ Path, e session.Closing) []letter {
		return toAll(w.paths("agent", ""), agent.Kill{Reason: e.Reason, Force: e.Force})
	}),
	on[session.Stopping, agent.Kill]("every agent", func(w *World, _ Path, e session.Stopping) []letter {
		return toAll(w.paths("agent", ""), agent.Kill{Reason: e.Reason, Force: true})
	}),
	on[agent.Stopping, turn.Interrupt]("its turn, if forced", func(w *World, at Path, e agent.Stopping) []letter {
		if !e.Force {
			return nil
		}
		return toAll(w.paths("turn", at), turn.Interrupt{Reason: e.Reason})
	}),

	on[turn.ToolCallsReceived, tool.Propose]("new tools, one per call", propose),
	on[tool.Call, tool.Judge]("itself, if its place has come", func(w *World, at Path, e tool.Call) []letter {
		return judge(w, at, e)
	}),
	on[turn.CallFinished, tool.Judge]("the next group, once one is done", func(w *World, at Path, _ turn.CallFinished) []letter {
		var list []letter
		for _, id := range data[turn.Data](w, at).Next() {
			list = append(list, judge(w, at.tool(id), data[tool.Data](w, at.tool(id)).Call)...)
		}
		return list
	}),
	on[turn.StopRequested, tool.Cancel]("its calls, if they must end now", func(w *World, at Path, e turn.StopRequested) []letter {
		if e.Stop != turn.StopInterrupt && e.Stop != turn.StopCrash {
			return nil
		}
		return toAll(w.paths("tool", at), tool.Cancel{Reason: "cancelled: " + e.Reason})
	}),
	on[turn.StopRequested, tool.Withdraw]("its calls that have not begun, on a pause", func(w *World, at Path, e turn.StopRequested) []letter {
		if e.Stop != turn.StopPause {
			return nil
		}
		return toAll(w.paths("tool", at), tool.Withdraw{Reason: "cancelled: the conversation was paused"})
	}),
	on[turn.AssistantDelta, turn.Boundary]("itself, after a whole item", func(_ *World, at Path, e turn.AssistantDelta) []letter {
		if !e.ItemDone {
			return nil
		}
		return to(at, turn.Boundary{})
	}),
	on[turn.ToolsFinished, turn.Boundary]("itself", func(_ *World, at Path, _ turn.ToolsFinished) []letter {
		return to(at, turn.Boundary{})
	}),
	on[turn.Retried, turn.Boundary]("itself", func(_ *World, at Path, _ turn.Retried) []letter {
		return to(at, turn.Boundary{})
	}),
	on[turn.Interrupted, session.Suspend]("session, if its budget is used up", func(w *World, at Path, e turn.Interrupted) []letter {
		limit, ok := strings.CutPrefix(e.Reason, session.BudgetReason)
		if !ok || at.parent() != RootPath && !w.sessionIsShort(at.parent(), limit) {
			return nil
		}
		return to(SessionPath, session.Suspend{Reason: "budget", Info: limit})
	}),
	on[turn.Interrupted, agent.ExhaustBudget]("its agent, if its own budget is used up", func(w *World, at Path, e turn.Interrupted) []letter {
		limit, ok := strings.CutPrefix(e.Reason, session.BudgetReason)
		if !ok || at.parent() == RootPath || w.sessionIsShort(at.parent(), limit) {
			return nil // the conversation is suspended, and it goes on with that
		}
		return to(at.parent(), agent.ExhaustBudget{Limit: limit})
	}),
	on[turn.Completed, turn.Finalize]("itself", finalize[turn.Completed]),
	on[turn.Interrupted, turn.Finalize]("itself", finalize[turn.Interrupted]),
	on[turn.Error, turn.Finalize]("itself", finalize[turn.Error]),
	// Before its agent: what that does next depends on what is left.
	on[turn.Finalized, stage.EndTurn]("the stage its agent works for", func(w *World, at Path, e turn.Finalized) []letter {
		return toStage(w.stageOf(at), stage.EndTurn{Requests: answered(e), Outcome: e.Outcome, Reason: whyEnded(e), Cut: cutOff(e)})
	}),
	on[turn.Finalized, agent.EndTurn]("its agent", func(_ *World, at Path, e turn.Finalized) []letter {
		return to(at.parent(), agent.EndTurn{TurnID: e.TurnID, Outcome: e.Outcome, Output: e.Output, Cut: cutOff(e)})
	}),
	on[turn.Finalized, session.Spend]("session", func(_ *World, at Path, e turn.Finalized) []letter {
		return to(SessionPath, session.Spend{TurnEnded: session.TurnEnded{
			TurnID: e.TurnID, Root: at.parent() == RootPath, Outcome: e.Outcome, Reason: e.Reason, Calls: e.Calls, Usage: e.Usage, MicroUSD: e.MicroUSD,
		}})
	}),

	on[tool.Approved, session.Remember]("session, if the person wants it remembered", func(w *World, at Path, e tool.Approved) []letter {
		if e.Remember == "" {
			return nil
		}
		r := session.Remembered{Tool: data[tool.Data](w, at).Call.Tool, Scope: e.Remember, Digest: e.Digest}
		if e.Remember == tool.RememberTool {
			r.Digest = ""
		}
		return []letter{{path: SessionPath, cmd: session.Remember{Remembered: r}, by: e.Approver}}
	}),
	on[tool.Result, session.Taint]("session, if it brought something in", func(_ *World, _ Path, e tool.Result) []letter {
		if len(e.Traits) == 0 {
			return nil
		}
		return to(SessionPath, session.Taint{Tainted: session.Tainted{
			Private: slices.Contains(e.Traits, tool.Private), Untrusted: slices.Contains(e.Traits, tool.Untrusted), Source: e.Tool,
		}})
	}),
	on[tool.Result, agent.Kill]("the agent it waits for, if it was cancelled", func(w *World, at Path, e tool.Result) []letter {
		child := ChildPath(e.CallID)
		if e.Status != tool.Cancelled || w.State(child) == machine.None {
			return nil
		}
		return to(child, agent.Kill{Reason: "cancelled with the call that started it", Force: true})
	}),
	on[tool.Result, turn.Fail]("its turn, if the router broke", func(_ *World, at Path, e tool.Result) []letter {
		if !e.Crashed {
			return nil
		}
		return to(at.parent(), turn.Fail{Type: "tool_crash", Message: e.Error})
	}),
	on[tool.Result, turn.ToolDone]("its turn", func(w *World, at Path, e tool.Result) []letter {
		done := e.Status == tool.Success && w.completes(at, e.Tool)
		return to(at.parent(), turn.ToolDone{CallID: e.CallID, Status: string(e.Status), Concludes: done})
	}),
	on[tool.OutcomeUnknown, tool.GiveUp]("itself, if nobody can be asked", func(w *World, at Path, _ tool.OutcomeUnknown) []letter {
		if !w.Session().Headless {
			return nil
		}
		return to(at, giveUp)
	}),
	on[session.Recovered, tool.Deny]("open approvals, if nobody is there now", func(w *World, _ Path, e session.Recovered) []letter {
		if !e.Headless {
			return nil
		}
		return letters(w.paths("tool", ""), tool.Deny{By: policy.HeadlessRule, Reason: "nobody is there to give permission"}, policy.HeadlessRule)
	}),
	on[session.Recovered, tool.GiveUp]("lost calls, if nobody is there now", func(w *World, _ Path, e session.Recovered) []letter {
		if !e.Headless {
			return nil
		}
		return toAll(w.paths("tool", ""), giveUp)
	}),
}

var giveUp = tool.GiveUp{Reason: "nobody is there to ask"}

// wires is wireList by kind.
var wires = byKind(wireList)

func byKind(list []wire) map[string][]wire {
	m := map[string][]wire{}
	for _, w := range list {
		m[w.kind] = append(m[w.kind], w)
	}
	return m
}

// Wire describes a wire to people.
type Wire struct {
	When    string `json:"when"`
	Tell    string `json:"tell"`
	Machine string `json:"machine"` // what the told one is
	Command string `json:"command"`
}

// Wires lists every wire for documents.
func Wires() []Wire {
	list := make([]Wire, len(wireList))
	for i, w := range wireList {
		list[i] = Wire{w.kind, w.to, w.machine, w.command}
	}
	return list
}

func to(p Path, c machine.Command) []letter { return []letter{{path: p, cmd: c}} }

func toAll(paths []Path, c machine.Command) []letter { return letters(paths, c, "") }

func letters(paths []Path, c machine.Command, by string) []letter {
	list := make([]letter, len(paths))
	for i, p := range paths {
		list[i] = letter{path: p, cmd: c, by: by}
	}
	return list
}

func proceed[E machine.Event](w *World, _ Path, _ E) []letter {
	// Who is left is of interest only where one may have gone.
	if s := w.Session(); s.Ready && w.State(SessionPath) == "active" {
		return to(SessionPath, session.Proceed{Agents: 1})
	}
	return to(SessionPath, session.Proceed{Agents: len(w.paths("agent", "")) + len(w.paths("workflow", ""))})
}

func finalize[E machine.Event](_ *World, at Path, _ E) []letter { return to(at, turn.Finalize{}) }

func propose(w *World, at Path, e turn.ToolCallsReceived) []letter {
	list := make([]letter, len(e.Calls))
	for i, c := range e.Calls {
		list[i] = letter{path: at.tool(c.CallID), by: "agent:" + data[turn.Data](w, at).AgentID, cmd: tool.Propose{Call: tool.Call{
			CallID: c.CallID, Tool: c.Tool, Arguments: c.Args, Digest: c.Digest, Defined: c.Defined, Safety: c.Safety,
			Parallel: c.Parallel, Group: e.Groups[i], Invalid: c.Invalid, Alias: c.Alias,
			Opaque: c.Opaque, Origin: c.Origin, Traits: c.Traits, Guards: guarded(c.Guards), Waits: c.Waits,
		}}}
	}
	return list
}

func guarded(said []turn.Guarded) []tool.Verdict {
	var list []tool.Verdict
	for _, g := range said {
		list = append(list, tool.Verdict{Answer: tool.Answer(g.Answer), By: g.By, Reason: g.Reason})
	}
	return list
}

// goOn lets an agent take up what it was told, while the session runs.
func goOn[E machine.Event](w *World, at Path, _ E) []letter {
	if w.State(SessionPath) != "active" {
		return nil
	}
	return to(at, w.proceed(at))
}

func allGoOn[E machine.Event](w *World, _ Path, _ E) []letter {
	var list []letter
	for _, p := range w.paths("agent", "") {
		list = append(list, letter{path: p, cmd: w.proceed(p)})
	}
	return list
}

// proceed bounds an agent's next turn: by what its stage leaves it, if it works
// for one.
func (w *World) proceed(at Path) agent.Proceed {
	cfg := w.Session().Config
	p := agent.Proceed{MaxRequests: cfg.MaxRequests, MaxAttempts: cfg.MaxAttempts}
	if s := data[agent.Data](w, at).Stage; s != "" {
		p.MaxRequests = data[stage.Data](w, Path(s)).Left()
	}
	return p
}

// judge brings a call before the gate once its place in the order has come. A
// call that was judged already has its room.
func judge(w *World, at Path, c tool.Call) []letter {
	d := data[turn.Data](w, at.parent())
	held := d.Stop != turn.NoStop && d.Stop != turn.StopSteer || w.heldRun(at)
	if held || w.State(at) != "pending_call" || !slices.Contains(d.Next(), c.CallID) {
		return nil
	}
	if limit := w.short(AgentOf(at), model.Amount{ToolCalls: 1 + ahead(w, at)}); limit != "" && c.Invalid == "" {
		return to(at.parent(), turn.Interrupt{Reason: session.BudgetReason + limit})
	}
	v := w.verdict(at, c, d.Repeats)
	return []letter{{path: at, cmd: tool.Judge{Verdict: v}, by: v.By}}
}

// ahead counts the calls that run beside this one and are let run by the same
// batch, but are not charged yet.
func ahead(w *World, at Path) int64 {
	n, turnOf := int64(0), data[turn.Data](w, at.parent())
	if w.Limit(at).ToolCalls == 0 {
		return 0
	}
	for _, id := range turnOf.Next() {
		p := at.parent().tool(id)
		if p == at {
			break
		}
		c := data[tool.Data](w, p).Call
		if w.State(p) == "pending_call" && c.Invalid == "" && w.verdict(p, c, turnOf.Repeats).Answer == tool.Allow {
			n++
		}
	}
	return n
}
