package world

import (
	"fmt"
	"slices"
	"strings"

	"stave/internal/model"
	"stave/internal/runelog"
)

// books are a second opinion on the accounts: kept from runes alone, by path and
// for ever, so that what an ended agent used still counts.
type books struct {
	of     map[string]*sheet
	rootID string
	// reserved is what each turn has set aside, and limited whether its present
	// call began under a limit on model calls.
	reserved map[string]model.Amount
	limited  map[string]bool
	gone     map[string]bool // agents that have ended
}

type sheet struct {
	parent                     string // path, "" for the session's own
	tools                      []string
	depth                      int
	limit, spent, held, unsure model.Amount
}

// money is what the books read of a payload.
type money struct {
	Config struct {
		Budget model.Amount `json:"budget"`
	} `json:"config"`
	RootID     string       `json:"root_agent_id"`
	AgentID    string       `json:"agent_id"`
	ParentID   string       `json:"parent_id"`
	Tools      []string     `json:"tools"`
	Depth      int          `json:"depth"`
	Budget     model.Amount `json:"budget"`
	Limit      model.Amount `json:"limit"`
	Reconciled bool         `json:"reconciled"`
	Usage      model.Usage  `json:"usage"`
	Unknown    bool         `json:"usage_unknown"`
	Free       bool         `json:"free"`
	Bill       *struct {
		Usage    model.Usage `json:"usage"`
		MicroUSD int64       `json:"micro_usd"`
		Unknown  bool        `json:"usage_unknown"`
	} `json:"bill"`
	model.Amount
}

func newBooks() books {
	return books{of: map[string]*sheet{}, reserved: map[string]model.Amount{}, limited: map[string]bool{}, gone: map[string]bool{}}
}

// above lists the sheets that what happens at a path is entered into.
func (b *books) above(path string) []*sheet {
	list := []*sheet{}
	for at := string(AgentOf(Path(path))); at != "" && b.of[at] != nil; at = b.of[at].parent {
		list = append(list, b.of[at])
	}
	return append(list, b.of["session"])
}

func (b *books) place(id string) string {
	switch id {
	case "":
		return ""
	case b.rootID:
		return string(RootPath)
	}
	return "agent:" + id
}

func limits(list []*sheet) bool {
	return slices.ContainsFunc(list, func(s *sheet) bool { return s.limit.MicroUSD > 0 || s.limit.Tokens > 0 || s.limit.ModelCalls > 0 })
}

// account enters a rune into the books and holds what concerns them.
func (h *history) account(r runelog.Rune, m money) {
	b := &h.books
	switch r.Kind {
	case "session.created":
		b.rootID = m.RootID
		b.of["session"] = &sheet{limit: m.Config.Budget}
	case "session.budget_set":
		h.hold("INV-BUDGET-RAISE-HUMAN", strings.HasPrefix(r.By, "user:"))
		b.of["session"].limit = m.Limit
		for path := range b.limited { // a limit that is gone does not count any more
			b.limited[path] = b.limited[path] && limits(b.above(path))
		}
		for _, s := range b.of {
			if m.Reconciled {
				s.spent, s.unsure = s.spent.Minus(s.unsure), model.Amount{}
			}
		}
	case "agent.spawning":
		delete(b.gone, r.Path)
		h.spawned(r, m)
	case "agent.terminated", "agent.failed":
		b.gone[r.Path] = true
	case "turn.started", "turn.tools_finished":
		b.limited[r.Path] = limits(b.above(r.Path))
	case "turn.reserved":
		h.hold("INV-BUDGET-ONCE", b.reserved[r.Path] == model.Amount{})
		b.reserved[r.Path] = m.Amount
		h.take(r.Path, func(s *sheet) { s.held = s.held.Plus(m.Amount) })
	case "tool.approved":
		h.take(r.Path, func(s *sheet) { s.spent.ToolCalls++ })
	case "turn.tool_calls_received", "turn.compacted", "turn.completed", "turn.retried", "turn.interrupted", "turn.error":
		if r.From == "streaming" {
			h.settled(r, m)
		}
	}
}

func (h *history) spawned(r runelog.Rune, m money) {
	b, s := &h.books, &sheet{parent: h.books.place(m.ParentID), tools: m.Tools, depth: m.Depth, limit: m.Budget}
	h.hold("INV-AGENT-TREE", (s.parent == "") == (r.Path == string(RootPath)) && r.Path == b.place(m.AgentID))
	if parent := b.of[s.parent]; parent != nil {
		h.hold("INV-AGENT-TREE", h.at[s.parent] != "" && s.depth == parent.depth+1)
		h.hold("INV-AGENT-NO-ESCALATE", parent.tools == nil || s.tools != nil)
		for _, name := range s.tools {
			h.hold("INV-AGENT-NO-ESCALATE", parent.tools == nil || slices.Contains(parent.tools, name))
		}
		h.take(s.parent, func(s *sheet) { s.spent.Agents++ })
	}
	b.of[r.Path] = s
}

// take enters a use and holds that no limit that it touches is passed by it.
func (h *history) take(path string, use func(*sheet)) {
	for _, s := range h.books.above(path) {
		before := s.spent.Plus(s.held)
		use(s)
		after := s.spent.Plus(s.held)
		grown := s.limit
		for i, part := range parts(&grown) {
			if *parts(&after)[i] == *parts(&before)[i] {
				*part = 0
			}
		}
		h.hold("INV-BUDGET-NONNEG", after.Over(grown) == "")
	}
}

func parts(a *model.Amount) [6]*int64 {
	return [6]*int64{&a.MicroUSD, &a.Tokens, &a.ModelCalls, &a.ToolCalls, &a.Agents, &a.WallMs}
}

// settled ends a model call: by its bill, as free, or as nobody knows.
func (h *history) settled(r runelog.Rune, m money) {
	b := &h.books
	held := b.reserved[r.Path]
	delete(b.reserved, r.Path)
	billed := r.Kind == "turn.tool_calls_received" || r.Kind == "turn.compacted" || r.Kind == "turn.completed"
	h.hold("INV-BUDGET-RESERVE", !billed || !b.limited[r.Path] || held != model.Amount{})
	if m.Bill != nil { // of a whole answer that was not used
		billed, m.Usage, m.MicroUSD, m.Unknown = true, m.Bill.Usage, m.Bill.MicroUSD, m.Bill.Unknown
	}
	cost, unsure := held, held
	switch {
	case billed && !m.Unknown:
		cost = model.Amount{MicroUSD: m.MicroUSD, Tokens: m.Usage.InputTokens + m.Usage.OutputTokens, ModelCalls: 1}
		unsure = model.Amount{}
	case m.Free:
		cost, unsure = model.Amount{}, model.Amount{}
	}
	for _, s := range b.above(r.Path) {
		s.held, s.spent, s.unsure = s.held.Minus(held), s.spent.Plus(cost), s.unsure.Plus(unsure)
	}
	if r.Kind == "turn.retried" {
		b.limited[r.Path] = limits(b.above(r.Path))
	}
}

// differs says where the accounts of a world and the books disagree, and where
// what agents used is not in what those above them used.
func (b *books) differs(w *World) error {
	for _, a := range w.Accounts() {
		s := b.of[string(a.Path)]
		if s == nil {
			return fmt.Errorf("nobody heard of %s", a.Path)
		}
		spent := a.Spent
		spent.WallMs = 0 // the books have no clock
		if a.Limit != s.limit || spent != s.spent || a.Held != s.held || a.Unsure != s.unsure {
			return fmt.Errorf("%s: %+v, by the books %+v", a.Path, a, *s)
		}
	}
	return b.adds()
}

// adds says where the agents under one have used more than it has.
func (b *books) adds() error {
	sums := map[string]*sheet{}
	for path, s := range b.of {
		if path == "session" || b.gone[path] { // a root that comes again begins anew
			continue
		}
		above := s.parent
		if above == "" {
			above = "session"
		}
		if sums[above] == nil {
			sums[above] = &sheet{}
		}
		sum := sums[above]
		sum.spent, sum.held, sum.unsure = sum.spent.Plus(s.spent), sum.held.Plus(s.held), sum.unsure.Plus(s.unsure)
	}
	for path, sum := range sums {
		own := b.of[path]
		for i := range parts(&sum.spent) {
			if *parts(&sum.spent)[i] > *parts(&own.spent)[i] || *parts(&sum.held)[i] > *parts(&own.held)[i] || *parts(&sum.unsure)[i] > *parts(&own.unsure)[i] {
				return fmt.Errorf("under %s more was used than by it: %+v, %+v", path, *sum, *own)
			}
		}
	}
	return nil
}
