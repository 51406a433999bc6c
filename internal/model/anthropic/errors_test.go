package anthropic

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stave/internal/model"
)

func TestRefusals(t *testing.T) {
	failure := func(kind, said string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, said)
	}
	for _, c := range []struct {
		name      string
		status    int
		header    [2]string
		body      string
		kind      model.ErrorKind
		retryable bool
		wait      time.Duration
		says      string
	}{
		{"bad request", 400, [2]string{}, failure("invalid_request_error", "tools.0: no"), model.ErrBadRequest, false, 0, "tools.0"},
		{"too long", 400, [2]string{}, failure("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"), model.ErrTooLong, false, 0, "200001"},
		{"too long with the answer", 400, [2]string{}, failure("invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 2"), model.ErrTooLong, false, 0, "limit"},
		{"no credit", 400, [2]string{}, failure("invalid_request_error", "Your credit balance is too low"), model.ErrQuota, false, 0, "credit"},
		{"no key", 401, [2]string{}, failure("authentication_error", "invalid x-api-key "+testKey), model.ErrAuth, false, 0, "[secret]"},
		{"billing", 402, [2]string{}, failure("billing_error", "pay"), model.ErrQuota, false, 0, "pay"},
		{"forbidden", 403, [2]string{}, failure("permission_error", "not you"), model.ErrAuth, false, 0, "not you"},
		{"no such model", 404, [2]string{}, failure("not_found_error", "model: claude-none"), model.ErrBadRequest, false, 0, "claude-none"},
		{"too large", 413, [2]string{}, failure("request_too_large", "32 MB"), model.ErrTooLong, false, 0, "32 MB"},
		{"rate", 429, [2]string{"Retry-After", "7"}, failure("rate_limit_error", "slow down"), model.ErrRateLimited, true, 7 * time.Second, "slow"},
		{"rate for a day", 429, [2]string{"Retry-After", "86400"}, failure("rate_limit_error", "slow down"), model.ErrRateLimited, true, MaxRetryAfter, "slow"},
		{"rate with nonsense", 429, [2]string{"Retry-After", "NaN"}, failure("rate_limit_error", "slow down"), model.ErrRateLimited, true, 0, "slow"},
		{"spend limit", 429, [2]string{}, `{"error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}`, model.ErrQuota, false, 0, "x"},
		{"internal", 500, [2]string{}, failure("api_error", "oops"), model.ErrOverloaded, true, 0, "500"},
		{"internal for good", 500, [2]string{"X-Should-Retry", "false"}, failure("api_error", "oops"), model.ErrOverloaded, false, 0, "500"},
		{"gateway page", 502, [2]string{"Content-Type", "text/html"}, "<html><script>alert(1)</script>", model.ErrOverloaded, true, 0, "an HTML page"},
		{"gateway timeout", 504, [2]string{}, "", model.ErrTimeout, true, 0, "nothing"},
		{"overloaded", 529, [2]string{"Retry-After", "3"}, failure("overloaded_error", "Overloaded"), model.ErrOverloaded, true, 3 * time.Second, "Overloaded"},
		{"a huge body", 500, [2]string{"Content-Type", "text/plain"}, strings.Repeat("no\n", 1<<20), model.ErrOverloaded, true, 0, "text/plain: no no"},
		{"redirect elsewhere", 307, [2]string{"Location", "http://elsewhere.invalid/v1/messages"}, "", model.ErrBadRequest, false, 0, "redirect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Request-Id", "req_77")
				if c.header[0] != "" {
					w.Header().Set(c.header[0], c.header[1])
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			got, err := collect(t, s.provider(), question())
			e := wantError(t, err, c.kind, c.retryable)
			if len(got) > 0 || e.RetryAfter != c.wait || !strings.Contains(e.Message, c.says) || len(e.Message) > maxMessage+100 {
				t.Errorf("got %d events and %+v, want to wait %v and hear %q", len(got), *e, c.wait, c.says)
			}
			if s.requests() != 1 {
				t.Errorf("the service was asked %d times", s.requests())
			}
		})
	}
}

func TestRetryAfterDate(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		after, date string
		want        time.Duration
	}{
		{at(30 * time.Second), "", 30 * time.Second},
		{at(30 * time.Second), at(10 * time.Second), 20 * time.Second},
		{at(-time.Hour), "", 0},
		{at(24 * time.Hour), "", MaxRetryAfter},
		{"1.5", "", 1500 * time.Millisecond},
		{"-3", "", 0},
		{"Inf", "", MaxRetryAfter},
		{"soon", "", 0},
		{"", "", 0},
	} {
		if got := retryAfter(http.Header{"Retry-After": {c.after}, "Date": {c.date}}, now); got != c.want {
			t.Errorf("%q at %q: wait %v, want %v", c.after, c.date, got, c.want)
		}
	}
}

// An answer that is no stream is an error of the stream, even with status 200.
func TestAnswersThatAreNoStream(t *testing.T) {
	for _, c := range []struct{ name, media, body, says string }{
		{"HTML", "text/html; charset=utf-8", "<!doctype html><p>Log in to the hotel network", "an HTML page"},
		{"JSON", "application/json", `{"type":"message","content":[]}`, "application/json"},
		{"nothing", "", "", "nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.media)
				_, _ = io.WriteString(w, c.body)
			})
			_, err := collect(t, s.provider(), question())
			if e := wantError(t, err, model.ErrStream, true); !strings.Contains(e.Message, c.says) {
				t.Errorf("the error says %q, want %q", e.Message, c.says)
			}
		})
	}
	t.Run("an error with status 200", func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`)
		})
		_, err := collect(t, s.provider(), question())
		wantError(t, err, model.ErrOverloaded, true)
	})
}

// We ask for no compression, and what is compressed all the same is not unpacked.
func TestCompressedAnswer(t *testing.T) {
	s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		startStream(w)
		z := gzip.NewWriter(w)
		for range 100 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
		_ = z.Close()
	})
	_, err := collect(t, s.provider(), question())
	wantError(t, err, model.ErrStream, true)
	if got := s.heads[0].Get("Accept-Encoding"); got != "identity" {
		t.Errorf("we asked for the encoding %q", got)
	}
}

func TestErrorInsideStream(t *testing.T) {
	for kind, want := range map[string]model.ErrorKind{
		"overloaded_error": model.ErrOverloaded, "rate_limit_error": model.ErrRateLimited, "api_error": model.ErrOverloaded,
		"timeout_error": model.ErrTimeout, "error_of_tomorrow": model.ErrStream, "": model.ErrStream,
	} {
		s := streamOf(t, events(hello, call0, stop0, `{"type":"error","error":{"type":"`+kind+`"}}`, tools, bye))
		r, err := assemble(t, s.provider(), question())
		wantError(t, err, want, true)
		if len(r.Calls) > 0 {
			t.Errorf("%s: calls were given out", kind)
		}
	}
	_, err := assemble(t, streamOf(t, events(`{"type":"error"}`)).provider(), question())
	wantError(t, err, model.ErrStream, true)
}

// A key does not follow a redirect, to no host at all.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusPermanentRedirect)
	})
	_, err := collect(t, New(Options{APIKey: testKey, BaseURL: s.URL, HTTP: &http.Client{}}), question())
	wantError(t, err, model.ErrBadRequest, false)
	if elsewhere.requests() != 0 {
		t.Error("the redirect was followed")
	}
}

// A connection that is reset, or never made, is typed and worth a retry.
func TestLostConnections(t *testing.T) {
	reset := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 4294967296\r\n\r\n"+events(hello, call0, stop0))
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	})
	r, err := assemble(t, reset.provider(), question())
	kind := model.ErrStream
	var early *model.Error
	if errors.As(err, &early) && early.Kind == model.ErrUnreachable {
		kind = model.ErrUnreachable // the reset overtook the beginning of the answer
	}
	wantError(t, err, kind, true)
	if len(r.Calls) > 0 {
		t.Error("calls were given out")
	}

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err = collect(t, New(Options{APIKey: testKey, BaseURL: gone.URL}), question())
	wantError(t, err, model.ErrUnreachable, true)

	never := serve(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err = collect(t, New(Options{APIKey: testKey, BaseURL: never.URL, HTTP: &http.Client{Timeout: time.Millisecond}}), question())
	wantError(t, err, model.ErrTimeout, true)
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		opt  Options
		kind model.ErrorKind
	}{
		{Options{}, model.ErrAuth},
		{Options{APIKey: "sk ant"}, model.ErrAuth},
		{Options{APIKey: "sk-ant\n"}, model.ErrAuth},
		{Options{APIKey: testKey, BaseURL: "ftp://x"}, model.ErrBadRequest},
		{Options{APIKey: testKey, BaseURL: "https://user:" + testKey + "@x"}, model.ErrBadRequest},
		{Options{APIKey: testKey, BaseURL: "https://x?key=" + testKey}, model.ErrBadRequest},
		{Options{APIKey: testKey, BaseURL: "://"}, model.ErrBadRequest},
	} {
		_, err := collect(t, New(c.opt), question())
		wantError(t, err, c.kind, false)
	}
	for base, want := range map[string]string{
		"": "https://api.anthropic.com/v1/messages", "https://x/": "https://x/v1/messages",
		"http://localhost:11434/v1": "http://localhost:11434/v1/messages", "https://gate.example/claude": "https://gate.example/claude/v1/messages",
	} {
		if got := New(Options{APIKey: testKey, BaseURL: base}).endpoint; got != want {
			t.Errorf("%q leads to %q, want %q", base, got, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	s := streamOf(t, events(hello, text0, stop0, ended, bye))
	p := New(Options{
		APIKey: testKey, BaseURL: s.URL, Version: "2023-06-01",
		Headers: map[string]string{"Authorization": "Bearer gateway-token", "X-Api-Key": "not this"},
	})
	if _, err := collect(t, p, question()); err != nil {
		t.Fatal(err)
	}
	h := s.heads[0]
	if h.Get("X-Api-Key") != testKey || h.Get("Anthropic-Version") != "2023-06-01" || h.Get("Authorization") != "Bearer gateway-token" {
		t.Errorf("the headers are %v", h)
	}
	if got := p.clean("no gateway-token\x1b[2J for Bearer gateway-token \u202e"); strings.Contains(got, "gateway-token") || strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("a message shows %q", got)
	}
	s2 := streamOf(t, events(hello, text0, stop0, ended, bye))
	if _, err := collect(t, New(Options{BaseURL: s2.URL}), question()); err != nil {
		t.Fatal(err)
	}
	if _, has := s2.heads[0]["X-Api-Key"]; has || s2.heads[0].Get("Anthropic-Version") != DefaultVersion {
		t.Errorf("without a key the headers are %v", s2.heads[0])
	}
}

// The end of the context wins over what it causes.
func TestContextEndsTheWait(t *testing.T) {
	asked := make(chan struct{})
	s := serve(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	for _, err := range s.provider().Stream(ctx, question()) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	}
}
