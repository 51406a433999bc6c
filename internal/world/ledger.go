package world

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
)

// account is what a session or an agent may use, has used, and has set aside.
// What an agent uses counts for it, for every agent above it, and for the
// session, so a limit anywhere holds for the whole tree below it.
type account struct {
	Limit  model.Amount `json:"limit,omitzero"`
	Spent  model.Amount `json:"spent,omitzero"`
	Held   model.Amount `json:"held,omitzero"`   // reserved for calls under way
	Unsure model.Amount `json:"unsure,omitzero"` // of Spent: charged because nobody knows better
	// Above are the agents above an agent, its parent first. Each may end before
	// those it started have been settled with.
	Above []Path `json:"above,omitzero"`
	// Since is the rune that limited model calls where nothing had before.
	Since uint64 `json:"since,omitzero"`
}

// full names the limit that is used up, "" if none.
func (a account) full() string {
	return a.over(model.Amount{MicroUSD: 1, Tokens: 1, ModelCalls: 1, ToolCalls: 1, WallMs: 1})
}

// over names the limit that more would break, "" if it fits.
func (a account) over(more model.Amount) string {
	return a.Spent.Plus(a.Held).Plus(more).Over(a.Limit)
}

// booked lists the runes that change an account.
var booked = map[string]bool{
	"session.created": true, "session.budget_set": true, "agent.spawning": true, "turn.started": true,
	"turn.reserved": true, "turn.compacted": true, "turn.tool_calls_received": true, "turn.completed": true, "turn.retried": true,
	"turn.interrupted": true, "turn.error": true, "turn.finalized": true, "tool.approved": true,
}

// book enters a move into the accounts. before is the instance as it was.
func (w *World) book(p Path, before node, mv machine.Move, ts int64) {
	switch e := mv.Event.(type) {
	case session.Created:
		w.enter(p, func(a *account) { a.Limit = e.Config.Budget })
	case session.BudgetSet:
		w.enter(p, func(a *account) {
			if limitsCalls(e.Limit) && !limitsCalls(a.Limit) {
				a.Since = w.seq + 1
			}
			a.Limit = e.Limit
		})
		if e.Reconciled {
			w.reconcile()
		}
	case agent.Spawning:
		parent := w.agentPath(e.ParentID)
		w.enter(p, func(a *account) { a.Limit, a.Above = e.Budget, w.above(parent) })
		if e.ParentID != "" {
			w.charge(parent, func(a *account) { a.Spent.Agents++ })
		}
	case turn.Started:
		n := w.live[p]
		n.begun = ts
		w.live[p] = n
	case turn.Reserved:
		w.charge(AgentOf(p), func(a *account) { a.Held = a.Held.Plus(e.Amount) })
	case turn.ToolCallsReceived:
		w.settle(p, before, e.Bill)
	case turn.Compacted:
		w.settle(p, before, e.Bill)
	case turn.Completed:
		if mv.From == "streaming" {
			w.settle(p, before, e.Bill)
		}
	case turn.Retried:
		w.release(p, before, e.Free)
	case turn.Interrupted:
		if e.Bill != nil {
			w.settle(p, before, *e.Bill)
			break
		}
		w.release(p, before, mv.From != "streaming")
	case turn.Error:
		w.release(p, before, e.Free || mv.From != "streaming")
	case turn.Finalized:
		took := max(0, ts-before.begun)
		clock := func(a *account) { a.Spent.WallMs += took }
		for _, payer := range w.clocks(AgentOf(p)) {
			w.enter(payer, clock)
		}
	case tool.Approved:
		w.charge(AgentOf(p), func(a *account) { a.Spent.ToolCalls++ })
	}
}

// clocks are the accounts that an agent's time counts for. Who waits for another's
// turn is in a turn itself, so each counts its own; but nobody waits in a turn for
// a stage, so its time counts for all above it.
func (w *World) clocks(at Path) []Path {
	switch {
	case at == RootPath:
		return []Path{at, SessionPath}
	case data[agent.Data](w, at).Stage != "":
		return slices.DeleteFunc(slices.Collect(w.chain(at)), func(p Path) bool { return p == RootPath })
	}
	return []Path{at}
}

// settle replaces a reservation by what the call really cost. Where the provider
// did not say, the reservation stands.
func (w *World) settle(p Path, before node, b turn.Bill) {
	held := machine.DataOf[turn.Data](before.Instance).Held
	if b.Unsure {
		w.release(p, before, false)
		return
	}
	spent := model.Amount{MicroUSD: b.MicroUSD, Tokens: b.Usage.InputTokens + b.Usage.OutputTokens, ModelCalls: 1}
	spent = model.Amount{}.Plus(spent) // nothing is earned by a call
	w.charge(AgentOf(p), func(a *account) { a.Held, a.Spent = a.Held.Minus(held), a.Spent.Plus(spent) })
}

// release ends a call without a bill. Unless it is known to have cost nothing,
// its reservation stays charged until a person reconciles it.
func (w *World) release(p Path, before node, free bool) {
	held := machine.DataOf[turn.Data](before.Instance).Held
	w.charge(AgentOf(p), func(a *account) {
		a.Held = a.Held.Minus(held)
		if !free {
			a.Spent, a.Unsure = a.Spent.Plus(held), a.Unsure.Plus(held)
		}
	})
}

// reconcile takes back, from everyone, what was charged without a bill.
func (w *World) reconcile() {
	for _, p := range append(w.paths("agent", ""), SessionPath) {
		w.enter(p, func(a *account) { a.Spent, a.Unsure = a.Spent.Minus(a.Unsure), model.Amount{} })
	}
}

// charge enters something into the account of an agent and of all above it.
func (w *World) charge(at Path, entry func(*account)) {
	for p := range w.chain(at) {
		w.enter(p, entry)
	}
}

func (w *World) enter(p Path, entry func(*account)) {
	if n, ok := w.find(p); ok {
		a := n.account()
		entry(&a)
		n.books = &a
		w.live[p] = n
	}
}

// chain yields an agent, those above it, and the session.
func (w *World) chain(at Path) func(yield func(Path) bool) {
	return func(yield func(Path) bool) {
		for _, p := range w.above(at) {
			if !yield(p) {
				return
			}
		}
		yield(SessionPath)
	}
}

// above lists an agent and those above it.
func (w *World) above(at Path) []Path {
	if at == "" {
		return nil
	}
	n, _ := w.find(at)
	return append([]Path{at}, n.account().Above...)
}

// agentPath is where the agent of an id lives.
func (w *World) agentPath(id string) Path {
	switch id {
	case "":
		return ""
	case w.Session().RootAgentID:
		return RootPath
	}
	return Path("agent:" + id)
}

// children returns the agents right under one.
func (w *World) children(id string) []Path {
	return slices.DeleteFunc(w.paths("agent", ""), func(p Path) bool { return data[agent.Data](w, p).ParentID != id })
}

func (w *World) session() node {
	n, _ := w.find(SessionPath)
	return n
}

// short names the limit that keeps an agent from using more, "" if none does.
func (w *World) short(at Path, more model.Amount) string {
	for p := range w.chain(at) {
		if n, ok := w.find(p); ok {
			if limit := n.account().over(more); limit != "" {
				return limit
			}
		}
	}
	return ""
}

// Short names the limit that keeps the agent of a turn from using more, "" if
// there is room.
func (w *World) Short(at Path, more model.Amount) string { return w.short(AgentOf(at), more) }

// Limit returns what an agent may use in all, with the limits above it.
func (w *World) Limit(at Path) model.Amount {
	var limit model.Amount
	for p := range w.chain(AgentOf(at)) {
		n, _ := w.find(p)
		limit = limit.Within(n.account().Limit)
	}
	return limit
}

// Left returns what the limits above an agent leave it: 0 where there is no
// limit, -1 where nothing is left.
func (w *World) Left(at Path) model.Amount {
	var left model.Amount
	for p := range w.chain(AgentOf(at)) {
		n, _ := w.find(p)
		left = left.Within(n.account().Limit.Left(n.account().Spent.Plus(n.account().Held)))
	}
	return left
}

// WallLeft returns how many milliseconds a running turn may still take at a
// moment, and false if nothing limits it.
func (w *World) WallLeft(at Path, nowMs int64) (int64, bool) {
	n, ok := w.find(at)
	if !ok || at.machine() != "turn" || n.Mode() == machine.ModeRest {
		return 0, false
	}
	left := w.Left(at).WallMs
	if left == 0 {
		return 0, false
	}
	return max(0, left-(nowMs-n.begun)), true
}

// maxDepth bounds how deep agents may spawn agents.
const maxDepth = 8

// Account is an account as people look at it.
type Account struct {
	Path   Path         `json:"path"`
	Limit  model.Amount `json:"limit"`
	Spent  model.Amount `json:"spent"`
	Held   model.Amount `json:"held"`
	Unsure model.Amount `json:"unsure"`
}

// Accounts returns the session's account and those of its live agents.
func (w *World) Accounts() []Account {
	list := []Account{}
	for _, p := range append([]Path{SessionPath}, w.paths("agent", "")...) {
		n, _ := w.find(p)
		list = append(list, Account{p, n.account().Limit, n.account().Spent, n.account().Held, n.account().Unsure})
	}
	return list
}

// roomForCall holds that no limit is passed by what a model call may cost.
func roomForCall(w *World, p Path, mv machine.Move, _ string) error {
	amount := mv.Event.(turn.Reserved).Amount
	if err := noDebt(amount); err != nil {
		return err
	}
	return w.roomFor(AgentOf(p), amount)
}

func roomForTool(w *World, p Path, _ machine.Move, _ string) error {
	return w.roomFor(AgentOf(p), model.Amount{ToolCalls: 1})
}

func roomForAgent(w *World, _ Path, mv machine.Move, _ string) error {
	e := mv.Event.(agent.Spawning)
	if e.ParentID == "" {
		return nil
	}
	if err := noDebt(e.Budget); err != nil {
		return err
	}
	return w.roomFor(w.agentPath(e.ParentID), model.Amount{Agents: 1})
}

func (w *World) roomFor(at Path, more model.Amount) error {
	if limit := w.short(at, more); limit != "" {
		return fmt.Errorf("the limit on %s is reached", limit)
	}
	return nil
}

// reservedFirst holds that a model call whose cost is limited was reserved for
// before it was made.
func reservedFirst(w *World, p Path, mv machine.Move, _ string) error {
	if mv.From != "streaming" {
		return nil
	}
	n, _ := w.find(p)
	if machine.DataOf[turn.Data](n.Instance).Held != (model.Amount{}) {
		return nil
	}
	for at := range w.chain(AgentOf(p)) {
		a, _ := w.find(at)
		// A first limit that was set while the model answered holds from the next
		// call on: this one could not have been reserved for.
		if limitsCalls(a.account().Limit) && a.account().Since < n.seq {
			return errors.New("a model call was made without a reservation")
		}
	}
	return nil
}

// limitsCalls says that a limit concerns what model calls use.
func limitsCalls(limit model.Amount) bool {
	return limit.MicroUSD > 0 || limit.Tokens > 0 || limit.ModelCalls > 0
}

// noDebt holds that an amount has no negative part: it would make room where
// there is none.
func noDebt(a model.Amount) error {
	if (model.Amount{}).Minus(a) != (model.Amount{}) {
		return errors.New("less than nothing is no amount")
	}
	return nil
}

func rewindsBack(w *World, _ Path, mv machine.Move, _ string) error {
	if to := mv.Event.(session.Rewound).Seq; to > w.seq {
		return fmt.Errorf("rune %d is still to come", to)
	}
	return nil
}

func setByPerson(_ *World, _ Path, mv machine.Move, by string) error {
	if !strings.HasPrefix(by, "user:") {
		return fmt.Errorf("limits are set by a person, not by %q", by)
	}
	return noDebt(mv.Event.(session.BudgetSet).Limit)
}

// insideParent holds that an agent gets nothing its parent does not have.
func insideParent(w *World, p Path, mv machine.Move, _ string) error {
	e := mv.Event.(agent.Spawning)
	if p != w.agentPath(e.AgentID) && p != RootPath {
		return fmt.Errorf("the place of agent %s is not %s", e.AgentID, p)
	}
	if e.ParentID == "" {
		if p != RootPath {
			return errors.New("only the root agent has no parent")
		}
		return nil
	}
	n, ok := w.find(w.agentPath(e.ParentID))
	if !ok {
		return fmt.Errorf("its parent %s is not there", e.ParentID)
	}
	parent := machine.DataOf[agent.Data](n.Instance)
	switch {
	case parent.Ending != "":
		return errors.New("its parent is ending")
	case e.Depth != parent.Depth+1 || e.Depth > maxDepth:
		return fmt.Errorf("it would be agent number %d in a row, at most %d may be", e.Depth, maxDepth)
	case parent.Tools != nil && e.Tools == nil:
		return errors.New("it would have more tools than its parent")
	}
	for _, name := range e.Tools {
		if parent.Tools != nil && !slices.Contains(parent.Tools, name) {
			return fmt.Errorf("its parent may not use %s", name)
		}
	}
	return nil
}
