package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"stave/internal/model"
)

const testKey = "sk-ant-test-0123456789abcdef"

// service is an endpoint on a real connection. It keeps what it was asked.
type service struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte
	heads  []http.Header
}

// serve answers the n-th request, from 0, with answer.
func serve(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller went away
		}
		s.mu.Lock()
		n := len(s.bodies)
		s.bodies = append(s.bodies, body)
		s.heads = append(s.heads, r.Header.Clone())
		s.mu.Unlock()
		answer(n, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) provider() *Provider { return New(Options{APIKey: testKey, BaseURL: s.URL}) }

// sent is the n-th request.
func (s *service) sent(t *testing.T, n int) map[string]any {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bodies) <= n {
		t.Fatalf("the service got %d requests", len(s.bodies))
	}
	var v map[string]any
	if err := json.Unmarshal(s.bodies[n], &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (s *service) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

func startStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
}

// streamOf answers every request with the same stream.
func streamOf(t *testing.T, stream string) *service {
	t.Helper()
	return serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		startStream(w)
		_, _ = io.WriteString(w, stream)
	})
}

// hangUp cuts the connection in the middle of the answer.
func hangUp(w http.ResponseWriter) {
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// fixture reads a stream from testdata.
func fixture(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sse writes one event.
func frame(data string) string {
	var v struct{ Type string }
	_ = json.Unmarshal([]byte(data), &v)
	return fmt.Sprintf("event: %s\ndata: %s\n\n", v.Type, data)
}

func events(all ...string) string {
	var b strings.Builder
	for _, e := range all {
		b.WriteString(frame(e))
	}
	return b.String()
}

func question() model.Request {
	return model.Request{
		Model: "claude-opus-5-5", System: "Be brief.", Attempt: 1,
		Messages: []model.Message{{Role: model.RoleUser, Parts: []model.Part{{Text: "Begin."}}}},
		Tools: []model.ToolSpec{
			{Name: "read", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object"}`)},
			{Name: "list", Description: "Lists files.", Schema: json.RawMessage(`{"type":"object"}`)},
		},
	}
}

// collect reads a stream to its end.
func collect(t *testing.T, p *Provider, r model.Request) ([]model.Event, error) {
	t.Helper()
	var all []model.Event
	for ev, err := range p.Stream(t.Context(), r) {
		if err != nil {
			return all, err
		}
		all = append(all, ev)
	}
	return all, nil
}

func assemble(t *testing.T, p *Provider, r model.Request) (model.Response, error) {
	t.Helper()
	return model.Assemble(p.Stream(t.Context(), r), model.Limits{}, func(model.Delta) error { return nil })
}

func wantError(t *testing.T, err error, kind model.ErrorKind, retryable bool) *model.Error {
	t.Helper()
	var known *model.Error
	if !errors.As(err, &known) {
		t.Fatalf("the error is %v, want one of kind %s", err, kind)
	}
	if known.Kind != kind || known.Retryable != retryable || known.Message == "" {
		t.Errorf("the error is %+v, want kind %s, retryable %v", *known, kind, retryable)
	}
	if strings.Contains(known.Message, testKey) {
		t.Errorf("the error shows the key: %s", known.Message)
	}
	return known
}
