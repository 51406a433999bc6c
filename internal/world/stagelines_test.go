package world

import (
	"fmt"
	"strconv"
	"strings"

	"stave/internal/machine/stage"
	"stave/internal/machine/workflow"
)

// briefs reads stages as stories write them: Plan, or Plan:cap:attempts, or
// Plan:cap:attempts:budget.
func briefs(text string) []workflow.Brief {
	var list []workflow.Brief
	for item := range strings.FieldsSeq(text) {
		parts := strings.Split(item, ":")
		b := workflow.Brief{Stage: parts[0], Completion: "hand", TurnCap: 3, MaxAttempts: 2}
		if len(parts) > 2 {
			b.TurnCap, _ = strconv.Atoi(parts[1])
			b.MaxAttempts, _ = strconv.Atoi(parts[2])
		}
		if len(parts) > 3 {
			b.Budget.Tokens, _ = strconv.ParseInt(parts[3], 10, 64)
		}
		list = append(list, b)
	}
	return list
}

// ofStage finds what a story calls by its stage: Plan is the stage itself,
// Plan/agent and Plan/turn its agent and that one's turn, Plan/a a call of it.
func ofStage(w *World, name string) Path {
	name, part, of := strings.Cut(name, "/")
	at := Path("workflow:r/stage:" + name + ".1")
	for _, p := range w.paths("stage", "") {
		if data[stage.Data](w, p).Stage == name {
			at = p
		}
	}
	if !of {
		return at
	}
	agentAt := w.agentPath(data[stage.Data](w, at).AgentID)
	turns := w.paths("turn", agentAt)
	switch {
	case part == "agent" || len(turns) == 0:
		return agentAt
	case part == "turn":
		return turns[0]
	}
	return turns[0].tool(part)
}

// expand replaces the one line "Plan acts tools=…" by those that lead a stage into
// Act with an agent that is ready.
func (l line) expand() []line {
	if l.verb != "acts" {
		return []line{l}
	}
	steps := []line{
		{l.who, "prepare", l.args},
		{l.who, "initialize", map[string]string{"prompt": "You are " + l.who + "."}},
		{l.who, "gate", map[string]string{"verdict": stage.Proceed}},
		{l.who + "/agent", "become_ready", map[string]string{}},
	}
	return steps
}

// inShort writes what of a run's payload is not a plain value.
func inShort(key string, value any) string {
	switch value := value.(type) {
	case []any:
		var names []string
		for _, item := range value {
			if m, ok := item.(map[string]any); ok {
				names = append(names, fmt.Sprint(m["stage"]))
			}
		}
		return strings.Join(names, ",")
	case map[string]any:
		if key == "result" {
			return fmt.Sprint(value["status"])
		}
		return fmt.Sprint(value["stage"])
	}
	return ""
}
