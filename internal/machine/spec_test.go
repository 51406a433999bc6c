package machine

import (
	"encoding/json"
	"testing"
)

// TestSpecGolden shows a table as data and as a drawing; past arrows are data
// only.
func TestSpecGolden(t *testing.T) {
	js, err := json.MarshalIndent(door.Spec(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	Golden(t, "door.json", string(js)+"\n")
	Golden(t, "door.mmd", door.Spec().Mermaid())
}

func TestMermaidInitial(t *testing.T) {
	m := Make(Machine[int]{Name: "lamp", Initial: shut, Boxes: []Box{Rest(shut, "").On(push{}, shut, Pushed{})}})
	const want = "stateDiagram-v2\n    [*] --> shut\n    shut --> shut : push / machine.pushed\n"
	if got := m.Spec().Mermaid(); got != want {
		t.Errorf("got\n%s", got)
	}
}
