package world

import (
	"reflect"

	"pgregory.net/rapid"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
)

// someLimit draws a limit: on most things none, else one that is soon reached.
func someLimit(rt *rapid.T) model.Amount {
	few := func(name string, most int64) int64 {
		return max(0, rapid.Int64Range(-2*most, most).Draw(rt, name))
	}
	return model.Amount{
		MicroUSD: few("money", 20), Tokens: few("tokens", 120), ModelCalls: few("model calls", 6),
		ToolCalls: few("tool calls", 5), Agents: few("agents", 2), WallMs: few("wall ms", 300),
	}
}

// newLimit draws what a person sets: anything, or more of what there is.
func (l *life) newLimit(rt *rapid.T) model.Amount {
	limit := someLimit(rt)
	if !l.onlyRaise {
		return limit
	}
	now := l.Session().Config.Budget
	for i, part := range parts(&limit) {
		if had := *parts(&now)[i]; had > 0 {
			*part += had
		} else {
			*part = 0
		}
	}
	return limit
}

// someBill draws what a call cost: never more than was set aside for it.
func someBill(rt *rapid.T, held model.Amount) turn.Bill {
	if held == (model.Amount{}) {
		held = worst
	}
	in := rapid.Int64Range(0, held.Tokens).Draw(rt, "input")
	return turn.Bill{
		Usage:    model.Usage{InputTokens: in, OutputTokens: rapid.Int64Range(0, held.Tokens-in).Draw(rt, "output")},
		MicroUSD: rapid.Int64Range(0, held.MicroUSD).Draw(rt, "price"),
		Unsure:   seldom(rt, 5),
	}
}

// answers are what a person can say to a question by one verb.
func (l *life) answers(rt *rapid.T, at Path, verb string) []machine.Command {
	switch verb {
	case "approve":
		if l.Short(at, model.Amount{ToolCalls: 1}) != "" {
			return nil // it would be refused: nothing is left to run it with
		}
		if data[tool.Data](l.World, at).Grant != (tool.Grant{}) {
			return []machine.Command{tool.Approve{}} // a grant is never remembered
		}
		return []machine.Command{tool.Approve{Remember: rapid.SampledFrom([]string{"", "", tool.RememberCall, tool.RememberTool}).Draw(rt, "remember")}}
	case "reply":
		return []machine.Command{tool.Reply{Text: "because"}}
	}
	t, _ := commandType(at.machine(), verb)
	return []machine.Command{reflect.Zero(t).Interface()}
}

// agents are what running calls do with agents that work for theirs.
func (l *life) agents(rt *rapid.T, add func(p Path, by, job string, commands ...machine.Command)) {
	for _, j := range l.Jobs() {
		run, ok := j.Work.(tool.RunTool)
		if !ok || run.Call.Tool != "task" {
			continue
		}
		boss := data[agent.Data](l.World, AgentOf(j.Path))
		child := ChildPath(run.Call.CallID)
		by := "agent:" + boss.AgentID
		switch l.State(child) {
		case machine.None:
			if boss.Ending != "" || boss.Depth == maxDepth || !l.sessionOpen() || l.Short(j.Path, model.Amount{Agents: 1}) != "" {
				continue
			}
			spawn := agent.Spawn{Spawning: agent.Spawning{
				AgentID: ChildID(run.Call.CallID), ParentID: boss.AgentID, Depth: boss.Depth + 1, Tools: boss.Tools,
				First: rapid.SampledFrom([]string{"", "look"}).Draw(rt, "task"),
			}}
			if rapid.Bool().Draw(rt, "limited child") {
				spawn.Budget = someLimit(rt)
			}
			add(child, by, "", spawn, spawn)
		default:
			if len(data[agent.Data](l.World, child).Tasks) < 3 {
				add(child, by, "", agent.Tell{Told: agent.Told{Text: "and this"}})
			}
			if seldom(rt, 5) {
				add(child, by, "", agent.Kill{Reason: "closed by its parent", Force: true})
			}
		}
	}
	for _, p := range l.paths("turn", "") {
		if l.wallOver(p) {
			add(p, engineName, "", turn.Interrupt{Reason: "budget: wall time"})
		}
	}
}

// wallOver says that a turn has had its time.
func (l *life) wallOver(p Path) bool {
	left, limited := l.WallLeft(p, l.clock)
	return limited && left == 0
}

func (l *life) sessionOpen() bool {
	switch l.State(SessionPath) {
	case "active", "paused", "suspended":
		return true
	}
	return false
}
