package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
	"stave/internal/model/script"
	"stave/internal/model/wire"
)

// dialects are the smallest requests for a stream, and how to read the answer.
var dialects = []struct {
	name, path, body string
	read             func(events []event) (model.Response, error)
}{
	{"anthropic", "/v1/messages", `{"model":"m","stream":true,"messages":[{"role":"user","content":"Begin."}]}`, readAnthropic},
	{"responses", "/v1/responses", `{"model":"m","stream":true,"input":"Begin."}`, readResponses},
	{"chat", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Begin."}]}`, readChat},
	{"gemini", "/v1beta/models/m:streamGenerateContent", `{"contents":[{"role":"user","parts":[{"text":"Begin."}]}]}`, readGemini},
}

func serve(t testing.TB, p model.Provider, o wire.Options) string {
	t.Helper()
	server := httptest.NewServer(wire.New(p, o))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

func parse(t testing.TB, text string) *script.Script {
	t.Helper()
	s, err := script.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return s
}

func post(t testing.TB, ctx context.Context, url, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// The same reply says the same in every dialect.
func TestDialects(t *testing.T) {
	url := serve(t, parse(t, `
replies:
  - reasoning: Both at once.
    opaque: SIGNED
    deltas: ["Grüße,\n", "\"x\" \\ \u0001\u2028 🪵"]
    calls:
      - {id: a, tool: read, args: {path: a.txt, n: [1, 2.5, null]}}
      - {id: b, tool: write, raw: "{\n \"path\": \"b\"\n}"}
    usage: {input_tokens: 100, output_tokens: 20}
`), wire.Options{})
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			resp := post(t, t.Context(), url+d.path, d.body)
			if media := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || media != "text/event-stream" {
				t.Fatalf("status %d, %s", resp.StatusCode, media)
			}
			got, err := d.read(events(t, resp.Body))
			if err != nil {
				t.Fatal(err)
			}
			want := model.Response{
				Text: "Grüße,\n\"x\" \\ \u0001\u2028 🪵", Stop: model.StopToolCalls,
				Usage: model.Usage{InputTokens: 100, OutputTokens: 20},
				Calls: []model.RawCall{{ID: "a", Name: "read", Args: `{"path":"a.txt","n":[1,2.5,null]}`}, {ID: "b", Name: "write", Args: `{"path":"b"}`}},
				Parts: []model.Part{{Reasoning: &model.Reasoning{Text: "Both at once.", Opaque: "SIGNED"}}},
			}
			if d.name == "chat" {
				want.Parts[0].Reasoning.Opaque = "" // it has no place for it
			}
			for i, c := range got.Calls {
				got.Calls[i].Args = strings.NewReplacer("\n", "", " ", "").Replace(c.Args)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// Every dialect says in its own words why an answer ended.
func TestStops(t *testing.T) {
	for _, stop := range []model.StopReason{model.StopEnd, model.StopLength, model.StopRefusal} {
		url := serve(t, parse(t, `replies: [{text: so, stop: `+string(stop)+`}]`), wire.Options{})
		for _, d := range dialects {
			got, err := d.read(events(t, post(t, t.Context(), url+d.path, d.body).Body))
			if err != nil || got.Stop != stop || got.Text != "so" {
				t.Errorf("%s: got %+v and %v, want the stop %q", d.name, got, err, stop)
			}
		}
	}
}

// An error before the first word is a status; in the middle it is the dialect's
// own event, or a broken connection.
func TestErrors(t *testing.T) {
	for kind, status := range map[model.ErrorKind]int{
		model.ErrRateLimited: 429, model.ErrOverloaded: 503, model.ErrAuth: 401, model.ErrBadRequest: 400,
		model.ErrTimeout: 504, model.ErrInternal: 500,
	} {
		url := serve(t, parse(t, `replies: [{text: so, faults: [{error: `+string(kind)+`, message: 'say "why"', retry_after: 1500ms}, {error: overloaded, after: 1}, {cut: 1}]}]`), wire.Options{})
		for _, d := range dialects {
			resp := post(t, t.Context(), url+d.path, d.body)
			var body any
			if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
				t.Errorf("%s, %s: the body is not JSON: %v", d.name, kind, err)
			}
			if resp.StatusCode != status || resp.Header.Get("Retry-After") != "2" || !strings.Contains(fmt.Sprint(body), `say "why"`) {
				t.Errorf("%s, %s: status %d, retry after %s, %v", d.name, kind, resp.StatusCode, resp.Header.Get("Retry-After"), body)
			}
			if _, err := d.read(events(t, post(t, t.Context(), url+d.path, d.body).Body)); !errors.Is(err, errTold) {
				t.Errorf("%s: in the middle: got %v, want an error that was told", d.name, err)
			}
			if _, err := io.ReadAll(post(t, t.Context(), url+d.path, d.body).Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: cut: got %v, want a broken connection", d.name, err)
			}
			got, err := d.read(events(t, post(t, t.Context(), url+d.path, d.body).Body))
			if err != nil || got.Text != "so" {
				t.Errorf("%s: the fourth attempt: got %+v and %v", d.name, got, err)
			}
		}
	}
}

// Attempts of the same request are counted until one succeeds.
func TestAttempts(t *testing.T) {
	url := serve(t, parse(t, `replies: [{text: so, faults: [{error: overloaded}, {error: auth}]}]`), wire.Options{})
	for _, d := range dialects {
		for i, want := range []int{503, 401, 200, 503} {
			resp := post(t, t.Context(), url+d.path, d.body)
			if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != want {
				t.Errorf("%s, request %d: %d and %v, want %d", d.name, i+1, resp.StatusCode, err, want)
			}
		}
	}
}

// Whoever wants no stream gets the same answer at once.
func TestWholeAnswers(t *testing.T) {
	url := serve(t, parse(t, `replies: [{reasoning: hm, deltas: [one, two], calls: [{id: a, tool: read, args: {p: 1}}], usage: {input_tokens: 3, output_tokens: 4}}]`), wire.Options{})
	for path, body := range map[string]string{
		"/v1/messages":                        `{"messages":[{"role":"user","content":"Begin."}]}`,
		"/v1/responses":                       `{"input":"Begin."}`,
		"/v1/chat/completions":                `{"messages":[{"role":"user","content":"Begin."}]}`,
		"/v1beta/models/m:generateContent":    `{"contents":[{"parts":[{"text":"Begin."}]}]}`,
		"/some/prefix/v1/chat/completions":    `{"messages":[]}`,
		"/gemini/v1/models/m:generateContent": `{"contents":[]}`,
	} {
		resp := post(t, t.Context(), url+path, body)
		var got map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		text := fmt.Sprint(got)
		for _, want := range []string{"onetwo", "read", "usage"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s lacks %q", path, text, want)
			}
		}
	}
}

// A provider that breaks its own rules breaks the connection, not the server.
func TestBrokenProviders(t *testing.T) {
	url := serve(t, parse(t, `replies: [{text: so, faults: [{panic: bug}, {cut: 1, silent: true}]}]`), wire.Options{})
	for _, d := range dialects {
		if resp, err := http.Post(url+d.path, "", strings.NewReader(d.body)); err == nil {
			t.Errorf("%s: a panic became %s", d.name, resp.Status)
			_ = resp.Body.Close()
		}
		if got, err := d.read(events(t, post(t, t.Context(), url+d.path, d.body).Body)); err != nil || got.Stop != "" {
			t.Errorf("%s: an end without a word became %+v and %v", d.name, got, err)
		}
	}
}

// Wrong keys, bodies and paths are refused as the services do.
func TestRefusesOtherRequests(t *testing.T) {
	url := serve(t, parse(t, `replies: [{text: so}]`), wire.Options{Key: "right"})
	for _, d := range dialects {
		for header, want := range map[string]int{"X-Api-Key: wrong": 401, "X-Api-Key: right": 200, "X-Goog-Api-Key: right": 200, "Authorization: Bearer right": 200} {
			name, value, _ := strings.Cut(header, ": ")
			if got := post(t, t.Context(), url+d.path, d.body, name, value).StatusCode; got != want {
				t.Errorf("%s, %s: %d, want %d", d.name, header, got, want)
			}
		}
		for _, body := range []string{"", "{", `[]`, `{"messages":1,"input":1,"contents":1}`} {
			if got := post(t, t.Context(), url+d.path, body, "X-Api-Key", "right").StatusCode; got != 400 {
				t.Errorf("%s: the body %q gets %d, want 400", d.name, body, got)
			}
		}
	}
	if got := post(t, t.Context(), url+"/v1/models", "{}").StatusCode; got != 404 {
		t.Errorf("another path: %d", got)
	}
}

// constant says a little and ends; it costs next to nothing.
type constant struct{}

func (constant) Stream(context.Context, model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		for range 20 {
			if !yield(model.Event{Text: "a few words "}, nil) {
				return
			}
		}
		_ = yield(model.Event{Usage: &model.Usage{InputTokens: 1}}, nil) && yield(model.Event{Done: model.StopEnd}, nil)
	}
}

// BenchmarkAnswer is one answer of twenty pieces, without a network.
func BenchmarkAnswer(b *testing.B) {
	h := wire.Handler(constant{})
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(&nowhere{header: http.Header{}}, httptest.NewRequest(http.MethodPost, d.path, strings.NewReader(d.body)))
			}
		})
	}
}

type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}
func (n *nowhere) Flush()                      {}
