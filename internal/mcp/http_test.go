package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// remoteFake answers the beginning of the protocol and leaves calls to a test.
type remoteFake struct {
	call  func(w http.ResponseWriter, id json.RawMessage)
	calls atomic.Int32
	auth  atomic.Value
}

func (f *remoteFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.auth.Store(r.Header.Get("Authorization"))
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &m)
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, result)
	}
	switch {
	case m.Method == "initialize":
		answer(`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"far","version":"1"}}`)
	case m.Method == "tools/list":
		answer(`"result":{"tools":[{"name":"act","description":"acts","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}]}`)
	case m.Method == "tools/call":
		f.calls.Add(1)
		f.call(w, m.ID)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		answer(`"error":{"code":-32601,"message":"unknown"}`)
	}
}

func openRemote(t *testing.T, h http.Handler, opt Options) *stage {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	opt.Lookup = func(name string) (string, bool) { return "t0psecret", name == "TOKEN" }
	s := open1(t, Config{Servers: map[string]Server{"far": {URL: web.URL + "/mcp", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}}}}, opt)
	s.approveAll("far")
	return s
}

func TestRemoteCalls(t *testing.T) {
	// Over the network as well, only what the server itself answered or refused is
	// known; everything else is unknown, and nothing is sent twice.
	hijack := func(w http.ResponseWriter, _ json.RawMessage) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	document := func(body string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, body, id)
		}
	}
	stream := func(body string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, strings.ReplaceAll(body, "ID", string(id)))
		}
	}
	status := func(code int) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, _ json.RawMessage) { http.Error(w, "no t0psecret here", code) }
	}
	const good = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"token t0psecret"}]}}`
	for _, test := range []struct {
		name    string
		call    func(http.ResponseWriter, json.RawMessage)
		text    string
		err     string
		unknown bool
	}{
		{"answered", stream("data: " + good + "\n\n"), "token [redacted]", "", false},
		{"answered after noise", stream(": x\nevent: ping\ndata: x\n\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\ndata: " + good + "\n\n"), "token [redacted]", "", false},
		{"cut connection", hijack, "answer was lost", "", true},
		{"stream without answer", stream(": nothing\n\n"), "answer was lost", "", true},
		{"bad gateway", status(http.StatusBadGateway), "answer was lost", "", true},
		{"too early", status(http.StatusTooManyRequests), "", "refused the call with HTTP status 429", false},
		{"bad request", status(http.StatusBadRequest), "", "refused the call with HTTP status 400", false},
		{"doubled field", document(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"content":[]}}`), "given twice", "", true},
		{"doubled field in stream", stream(`data: {"jsonrpc":"2.0","id":ID,"result":{"content":[],"content":[]}}` + "\n\n"), "given twice", "", true},
		{"not text", document("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}}"), "bad text", "", true},
		{"own error", document(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`), "", "error -32000: no", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &remoteFake{call: test.call}
			s := openRemote(t, f, Options{})
			out, err := s.call("far__act", `{}`)
			if out.Unknown != test.unknown || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got %+v and %v", out, err)
			}
			if err == nil && !strings.Contains(out.Text, test.text) {
				t.Errorf("it says %q, want %q", out.Text, test.text)
			}
			if n := f.calls.Load(); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
			if f.auth.Load() != "Bearer t0psecret" {
				t.Errorf("the header is %q", f.auth.Load())
			}
		})
	}
}

func TestRemoteGoneBeforeCall(t *testing.T) {
	f := &remoteFake{}
	web := httptest.NewServer(f)
	s := open1(t, Config{Servers: map[string]Server{"far": {Type: typeHTTP, URL: web.URL}}}, Options{})
	s.approveAll("far")
	if got := strings.Join(s.tool("far__act").Traits, " "); got != "private untrusted external destructive" {
		t.Errorf("traits are %q", got)
	}
	web.Close()
	out, err := s.call("far__act", `{}`)
	if out.Unknown || err == nil || !strings.Contains(err.Error(), "did not reach") && !strings.Contains(err.Error(), "not connected") {
		t.Errorf("got %+v and %v", out, err)
	}
}

func TestRedirectElsewhere(t *testing.T) {
	// A redirect to another host is not followed, so the header stays at home.
	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer other.Close()
	web := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer web.Close()
	s := open1(t, Config{Servers: map[string]Server{"far": {URL: web.URL, Headers: map[string]string{"X-Key": "secretsecret"}}}}, Options{})
	st := s.await("far", is(NeedsApproval))
	if err := s.ApproveServer("far", st.Review.Digest); err != nil {
		t.Fatal(err)
	}
	st = s.await("far", is(Failed))
	if reached.Load() || !strings.Contains(st.Why, "another host") {
		t.Errorf("reached %v, it says %q", reached.Load(), st.Why)
	}
}

func TestRemoteNeverAnswers(t *testing.T) {
	// Whatever way is tried, a server that takes connections and says nothing
	// fails at the time limit.
	for _, kind := range []string{"", typeHTTP, typeSSE} {
		t.Run("type "+kind, func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) // only then is it told that the client left
				<-r.Context().Done()
			}))
			defer web.Close()
			s := open1(t, Config{Servers: map[string]Server{"far": {Type: kind, URL: web.URL}}}, Options{Limits: Limits{Start: 300 * time.Millisecond}})
			defer s.Close()
			st := s.await("far", is(NeedsApproval))
			if err := s.ApproveServer("far", st.Review.Digest); err != nil {
				t.Fatal(err)
			}
			if st := s.await("far", is(Failed)); !strings.Contains(st.Why, "did not answer within 300ms") {
				t.Errorf("it says %q", st.Why)
			}
		})
	}
}

// realServer is the library's own server with a bit of everything.
func realServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "real", Version: "1"}, nil)
	type args struct {
		Text string `json:"text"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "says it again"}, func(_ context.Context, _ *sdk.CallToolRequest, a args) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Text}}}, nil, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet", Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "greet " + r.Params.Arguments["who"]}}}}, nil
	})
	s.AddResource(&sdk.Resource{URI: "note://1", Name: "note"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "note://1", Text: "remember"}}}, nil
	})
	return s
}

func TestTransportsAndProtocols(t *testing.T) {
	// The library's own server in all its forms: with sessions, without them (the
	// newest protocol), and the old event stream, which is found by itself.
	server := realServer()
	get := func(*http.Request) *sdk.Server { return server }
	for name, handler := range map[string]http.Handler{
		"sessions":  sdk.NewStreamableHTTPHandler(get, nil),
		"stateless": sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true}),
		"json":      sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{JSONResponse: true}),
		"sse":       sdk.NewSSEHandler(get, nil),
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(handler)
			defer web.Close()
			s := open1(t, Config{Servers: map[string]Server{"real": {URL: web.URL}}}, Options{})
			defer s.Close()
			st := s.approveAll("real")
			t.Logf("%s speaks %s", name, st.Protocol)
			out, err := s.call("real__echo", `{"text":"héllo <b>"}`)
			if err != nil || out.Text != "héllo <b>" {
				t.Errorf("got %+v and %v", out, err)
			}
			if _, err := s.call("real__echo", `{"text":1}`); err == nil {
				t.Error("wrong arguments were accepted")
			}
			p, err := s.GetPrompt(t.Context(), "real", "greet", map[string]string{"who": "Ada"})
			if err != nil || len(p.Messages) != 1 || p.Messages[0].Text != "greet Ada" {
				t.Errorf("the prompt is %+v, %v", p, err)
			}
			r, err := s.ReadResource(t.Context(), "real", "note://1")
			if err != nil || len(r) != 1 || r[0].Text != "remember" {
				t.Errorf("the resource is %+v, %v", r, err)
			}
			if len(s.Prompts()) != 1 || len(s.Resources()) != 1 || !s.Prompts()[0].Arguments[0].Required {
				t.Errorf("prompts %+v, resources %+v", s.Prompts(), s.Resources())
			}
			if _, err := s.ReadResource(t.Context(), "real", "note://2"); err == nil {
				t.Error("a resource that is not there was read")
			}
		})
	}
}

func TestListChangedOverHTTP(t *testing.T) {
	server := realServer()
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer web.Close()
	s := open1(t, Config{Servers: map[string]Server{"real": {URL: web.URL}}}, Options{Limits: Limits{Relist: time.Millisecond}})
	defer s.Close()
	s.approveAll("real")
	server.AddTool(&sdk.Tool{Name: "late", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	st := s.await("real", func(st ServerState) bool { return len(st.Tools) == 2 })
	if st.Tools[1].Status != NeedsApproval || len(s.Tools()) != 1 {
		t.Errorf("the late tool is %+v", st.Tools[1])
	}
}
