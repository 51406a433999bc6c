package toolbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTodo shows how a list is drawn and what is refused.
func TestTodo(t *testing.T) {
	item := func(text, status string) args { return args{"text": text, "status": status} }
	out := newEnv(t).must(Todo(), args{"items": []args{item("read", "done"), item(" write ", "in_progress"), item("test", "pending")}})
	if diff := cmp.Diff("[x] read\n[>] write\n[ ] test\n(1 of 3 done)", out.Text); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"items": 3, "pending": 1, "in_progress": 1, "done": 1}, out.Meta); diff != "" {
		t.Error(diff)
	}
	if out := newEnv(t).must(Todo(), args{"items": []args{}}); out.Text != "(the list is empty)" {
		t.Error(out.Text)
	}
	for says, items := range map[string][]args{
		"items[1] has the same text as items[0]":     {item("a", "done"), item("a ", "pending")},
		"items[0]: text must be one line of visible": {item("a\nb", "done")},
		"items[1]: text must be one line of visible": {item("a", "done"), item("b\x1b[0m", "done")},
		"text must be one line of visible":           {item("   ", "done")},
	} {
		_, err := newEnv(t).run(Todo(), args{"items": items})
		wantError(t, err, says)
	}
	for says, call := range map[string]string{
		`"items[0].status" must be one of "pending", "in_progress", "done", not the string "doing"`: `{"items":[{"text":"a","status":"doing"}]}`,
		`"items" must have at most 100 items, not 101`:                                              fmt.Sprintf(`{"items":[%s{"text":"a","status":"done"}]}`, strings.Repeat(`{"text":"a","status":"done"},`, 100)),
		`"items" is missing`: `{}`,
	} {
		wantError(t, Todo().Check(json.RawMessage(call)), says)
	}
}
