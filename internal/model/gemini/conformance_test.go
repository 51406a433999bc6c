package gemini_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"stave/internal/conformance"
	"stave/internal/model"
	"stave/internal/model/gemini"
	"stave/internal/model/script"
	"stave/internal/model/wire"
)

// The suite runs over real connections, against a server that plays each
// scenario in Gemini's dialect.
func TestConformance(t *testing.T) {
	conformance.Provider(t, func(t *testing.T, s conformance.ProviderScenario) model.Provider {
		played, err := script.Parse("test.yaml", scenario(t, s))
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		return serve(t, wire.Handler(played))
	})
}

// serve starts a server and returns a provider in front of it.
func serve(t *testing.T, h http.Handler) *gemini.Provider {
	t.Helper()
	server := httptest.NewServer(h)
	client := server.Client()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return connect(t, server.URL, client)
}

func connect(t *testing.T, url string, client *http.Client) *gemini.Provider {
	t.Helper()
	p, err := gemini.New(gemini.Options{APIKey: "secret-key", BaseURL: url, HTTP: client})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	return p
}

// scenario writes a scenario as a script; JSON is YAML too.
func scenario(t *testing.T, s conformance.ProviderScenario) []byte {
	t.Helper()
	last := s.Tries[len(s.Tries)-1]
	reply := map[string]any{"text": ""}
	if len(last.Text) > 0 {
		reply = map[string]any{"deltas": last.Text}
	}
	if last.Reasoning != "" {
		reply["reasoning"] = last.Reasoning
	}
	if last.Stop != "" {
		reply["stop"], reply["usage"] = last.Stop, last.Usage
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
	return data
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
