package toolbox

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
)

//go:embed todo.md
var todoDoc string

// Statuses of an item.
const (
	todoPending    = "pending"
	todoInProgress = "in_progress"
	todoDone       = "done"
)

type todoArgs struct {
	Items []todoItem `json:"items" max:"100" jsonschema:"the whole list, in order"`
}

type todoItem struct {
	Text   string `json:"text" min:"1" max:"300" jsonschema:"what is to do, in one line"`
	Status string `json:"status" enum:"pending,in_progress,done" jsonschema:"how far it is"`
}

// Todo returns the tool that keeps the agent's list. It needs no place to keep
// it: the latest call's arguments are the list, and the log has them. Nothing is
// touched, so it is read_only.
func Todo() Tool { return New("Todo", todoDoc, ReadOnly, false, runTodo) }

func runTodo(_ context.Context, _ Env, args todoArgs) (Output, error) {
	seen := map[string]int{}
	count := map[string]int{}
	for i, item := range args.Items {
		text := strings.TrimSpace(item.Text)
		if text == "" || strings.ContainsFunc(text, unprintable) {
			return Output{}, fmt.Errorf("items[%d]: text must be one line of visible characters", i)
		}
		if first, twice := seen[text]; twice {
			return Output{}, fmt.Errorf("items[%d] has the same text as items[%d]; leave one out or tell them apart", i, first)
		}
		seen[text] = i
		count[item.Status]++
	}
	return Output{Text: renderTodo(args.Items), Meta: map[string]any{
		"items": len(args.Items), todoPending: count[todoPending], todoInProgress: count[todoInProgress], todoDone: count[todoDone],
	}}, nil
}

// unprintable is for texts of one line that people read.
func unprintable(r rune) bool { return r == '\n' || r == '\t' || hidden(r) }

func renderTodo(items []todoItem) string {
	if len(items) == 0 {
		return "(the list is empty)"
	}
	var b strings.Builder
	done := 0
	for _, item := range items {
		box := "[ ]"
		switch item.Status {
		case todoInProgress:
			box = "[>]"
		case todoDone:
			box = "[x]"
			done++
		}
		fmt.Fprintf(&b, "%s %s\n", box, strings.TrimSpace(item.Text))
	}
	fmt.Fprintf(&b, "(%d of %d done)", done, len(items))
	return b.String()
}
