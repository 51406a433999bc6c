package script_test

import (
	"encoding/json"
	"testing"

	"stave/internal/conformance"
	"stave/internal/model"
	"stave/internal/model/script"
)

func TestConformance(t *testing.T) {
	conformance.Provider(t, func(t *testing.T, s conformance.ProviderScenario) model.Provider {
		return parse(t, scenarioScript(t, s))
	})
}

func parse(t *testing.T, text string) *script.Script {
	t.Helper()
	s, err := script.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return s
}

// scenarioScript writes a scenario as a script; JSON is YAML too.
func scenarioScript(t *testing.T, s conformance.ProviderScenario) string {
	t.Helper()
	last := s.Tries[len(s.Tries)-1]
	reply := map[string]any{"text": ""}
	if len(last.Text) > 0 {
		delete(reply, "text")
		reply["deltas"] = last.Text
	}
	if last.Reasoning != "" {
		reply["reasoning"] = last.Reasoning
	}
	if last.Stop != "" {
		reply["stop"] = last.Stop
		reply["usage"] = last.Usage
	}
	var calls, faults []any
	for _, c := range last.Calls {
		calls = append(calls, map[string]any{"id": c.ID, "tool": c.Name, "args": json.RawMessage(c.Args)})
	}
	if calls != nil {
		reply["calls"] = calls
	}
	for _, try := range s.Tries {
		if f := faultOf(try); f != nil {
			faults = append(faults, f)
		}
	}
	if faults != nil {
		reply["faults"] = faults
	}
	data, err := json.Marshal(map[string]any{"replies": []any{reply}})
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return string(data)
}

func faultOf(try conformance.Try) map[string]any {
	if e := try.Refusal; e != nil {
		return map[string]any{"error": e.Kind, "retryable": e.Retryable, "retry_after": e.RetryAfter.String()}
	}
	said := len(try.Text) + len(try.Calls)
	if len(try.Text) > 0 {
		said++ // the end of the text
	}
	if try.Reasoning != "" {
		said += 2 // and its end
	}
	switch try.Ending {
	case conformance.Cut:
		return map[string]any{"cut": said}
	case conformance.Stall:
		return map[string]any{"stall": true, "after": said - 1}
	case conformance.Endless:
		return map[string]any{"endless": true, "after": said - 1}
	case conformance.Complete:
	}
	return nil
}
