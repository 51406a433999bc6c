package openai_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stave/internal/model"
	"stave/internal/model/openai"
)

// TestRefusals shows which error every refusal becomes, and that one call is
// one request.
func TestRefusals(t *testing.T) {
	past := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		name    string
		status  int
		headers map[string]string
		body    string
		kind    model.ErrorKind
		wait    time.Duration
		message string
	}{
		{"key", 401, nil, `{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}`, model.ErrAuth, 0, "check the key"},
		{"permission", 403, nil, `{"error":{"message":"no access"}}`, model.ErrAuth, 0, "no access"},
		{"bad request", 400, nil, `{"error":{"message":"Unknown parameter: 'x'.","type":"invalid_request_error","param":"x"}}`, model.ErrBadRequest, 0, "Unknown parameter"},
		{"too long by code", 400, nil, `{"error":{"message":"no","code":"context_length_exceeded"}}`, model.ErrTooLong, 0, ""},
		{"too long by words", 400, nil, `{"error":{"message":"This model's maximum context length is 8192 tokens."}}`, model.ErrTooLong, 0, ""},
		{"too long for llama.cpp", 400, nil, `{"error":{"code":400,"type":"exceed_context_size_error","message":"x"}}`, model.ErrTooLong, 0, ""},
		{"no model", 404, nil, `{"error":{"message":"model 'x' not found"}}`, model.ErrBadRequest, 0, "/v1"},
		{"no path", 404, nil, "404 page not found", model.ErrBadRequest, 0, "404 page not found"},
		{"too large", 413, nil, "", model.ErrBadRequest, 0, "no reason given"},
		{"more than a minute's share", 413, nil, `{"error":{"message":"Request too large","code":"rate_limit_exceeded"}}`, model.ErrTooLong, 0, ""},
		{"invalid", 422, nil, `{"detail":[{"msg":"field required"}]}`, model.ErrBadRequest, 0, "field required"},
		{"error as text", 400, nil, `{"error":"json: cannot unmarshal"}`, model.ErrBadRequest, 0, "json: cannot unmarshal"},
		{"error in a list", 400, nil, `[{"error":{"code":400,"message":"in a list"}}]`, model.ErrBadRequest, 0, "in a list"},
		{"error without error", 400, nil, `{"message":"bare","type":"x"}`, model.ErrBadRequest, 0, "bare"},
		{"no credit", 402, nil, `{"error":{"message":"Insufficient credits"}}`, model.ErrQuota, 0, "plan and credit"},
		{"quota", 429, map[string]string{"Retry-After": "5"}, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, model.ErrQuota, 0, ""},
		{"rate", 429, map[string]string{"Retry-After": "7"}, `{"error":{"message":"Rate limit"}}`, model.ErrRateLimited, 7 * time.Second, ""},
		{"rate in milliseconds", 429, map[string]string{"Retry-After-Ms": "1500", "Retry-After": "9"}, "", model.ErrRateLimited, 1500 * time.Millisecond, ""},
		{"rate for a day", 429, map[string]string{"Retry-After": "86400"}, "", model.ErrRateLimited, 5 * time.Minute, ""},
		{"rate for ever", 429, map[string]string{"Retry-After": "1e400"}, "", model.ErrRateLimited, 0, ""},
		{"rate backwards", 429, map[string]string{"Retry-After": "-4"}, "", model.ErrRateLimited, 0, ""},
		{"rate until a past date", 429, map[string]string{"Retry-After": past}, "", model.ErrRateLimited, 0, ""},
		{"rate until their date", 429, map[string]string{"Retry-After": "Thu, 01 Jan 2015 00:00:30 GMT", "Date": "Thu, 01 Jan 2015 00:00:00 GMT"}, "", model.ErrRateLimited, 30 * time.Second, ""},
		{"rate nonsense", 429, map[string]string{"Retry-After": "soon"}, "", model.ErrRateLimited, 0, ""},
		{"timeout", 408, nil, "", model.ErrTimeout, 0, ""},
		{"server", 500, nil, `{"error":{"message":"oops","type":"server_error"}}`, model.ErrOverloaded, 0, "oops"},
		{"gateway", 502, nil, "<html><body><h1>502 Bad Gateway</h1></body></html>", model.ErrOverloaded, 0, "HTML page"},
		{"loading", 503, map[string]string{"Retry-After": "3"}, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, model.ErrOverloaded, 3 * time.Second, "Loading model"},
		{"overloaded", 529, map[string]string{"Retry-After": "86400"}, "", model.ErrOverloaded, 5 * time.Minute, ""},
		{"not there", 501, nil, "", model.ErrBadRequest, 0, ""},
		{"no content", 204, nil, "", model.ErrStream, 0, ""},
		{"endless", 500, nil, strings.Repeat("x", 1<<20), model.ErrOverloaded, 0, "xxx…"},
		{"control characters", 400, nil, "a\x1b[31mb\r\n\x00\u202ec\xff", model.ErrBadRequest, 0, "a [31mb c\uFFFD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d dialect) {
				var asked atomic.Int64
				url := serve(t, func(w http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					for name, value := range c.headers {
						w.Header().Set(name, value)
					}
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.body)
				})
				_, err := attempt(t, d.newProvider(openai.Options{BaseURL: url, APIKey: testKey}))
				e := wantKind(t, err, c.kind)
				if e.RetryAfter != c.wait {
					t.Errorf("the wait is %v, want %v", e.RetryAfter, c.wait)
				}
				if !strings.Contains(e.Message, c.message) || len(e.Message) > 2000 {
					t.Errorf("the message is %q, want something with %q", e.Message, c.message)
				}
				if n := asked.Load(); n != 1 {
					t.Errorf("the service was asked %d times", n)
				}
			})
		})
	}
}

// TestKeyStaysSecret shows that a service that repeats our key, in any place,
// does not bring it into an error.
func TestKeyStaysSecret(t *testing.T) {
	const plainKey = "0123456789-not-of-a-known-shape"
	for _, key := range []string{testKey, plainKey} {
		echo := func(status int, media, body string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Authorization"); got != "Bearer "+key {
					t.Errorf("the service got the authorization %q", got)
				}
				w.Header().Set("Content-Type", media)
				w.Header().Set("Location", "https://"+key+".example/"+key)
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, body, key)
			}
		}
		for name, handle := range map[string]http.HandlerFunc{
			"refusal":      echo(401, "application/json", `{"error":{"message":"%s is wrong"}}`),
			"far behind":   echo(400, "text/plain", strings.Repeat("-", 380)+"%s"),
			"redirect":     echo(307, "text/plain", "%s"),
			"stream":       echo(200, "text/event-stream", `data: {"type":"error","error":{"message":"%s"}}`+"\n\n"),
			"one JSON":     echo(200, "application/json", `{"error":{"message":"%s"}}`),
			"content type": echo(200, "text/html", "%s"),
		} {
			t.Run(name, func(t *testing.T) {
				eachDialect(t, func(t *testing.T, d dialect) {
					_, err := attempt(t, d.newProvider(openai.Options{BaseURL: serve(t, handle), APIKey: key}))
					if err == nil || strings.Contains(err.Error(), key[:12]) {
						t.Errorf("the error is %v", err)
					}
				})
			})
		}
	}
}

// TestRedirect shows that neither the key nor the conversation follows a redirect.
func TestRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d dialect) {
				elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request went elsewhere") })
				url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, status) })
				for _, client := range []*http.Client{nil, {}, {CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}} {
					_, err := attempt(t, d.newProvider(openai.Options{BaseURL: url, APIKey: testKey, HTTP: client}))
					wantKind(t, err, model.ErrBadRequest)
				}
			})
		})
	}
}

// TestUnreachable shows the messages for services that are not there.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := listener.Addr().String()
	_ = listener.Close()
	for _, c := range []struct {
		name, base string
		kind       model.ErrorKind
		message    string
	}{
		{"ollama", "http://user:password@" + free + "/v1", model.ErrUnreachable, "is Ollama running?"},
		{"vllm", "http://" + free + "/v1", model.ErrUnreachable, "is vllm running on this machine?"},
		{"nowhere", "http://name.invalid/v1", model.ErrUnreachable, "name.invalid"},
		{"no scheme", "localhost:11434/v1", model.ErrBadRequest, "https://host/v1"},
		{"other scheme", "file:///etc/passwd", model.ErrBadRequest, "https://host/v1"},
		{"no URL", "http://user:password@[::1", model.ErrBadRequest, "https://host/v1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d dialect) {
				_, err := attempt(t, d.newProvider(openai.Options{Name: c.name, BaseURL: c.base}))
				e := wantKind(t, err, c.kind)
				if !strings.Contains(e.Message, c.message) || strings.Contains(e.Message, "password") {
					t.Errorf("the message is %q, want something with %q", e.Message, c.message)
				}
			})
		})
	}
}

// TestClientTimeout shows that the end of the client's own patience is a
// timeout of the service, and not the end of our context.
func TestClientTimeout(t *testing.T) {
	slow := errTimeout{}
	for name, client := range map[string]*http.Client{
		"before the answer": {Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, slow })},
		"in the stream":     bodyOf(func() io.Reader { return failing{slow} }),
	} {
		t.Run(name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d dialect) {
				_, err := attempt(t, d.newProvider(openai.Options{HTTP: client}))
				wantKind(t, err, model.ErrTimeout)
			})
		})
	}
}

type errTimeout struct{}

func (errTimeout) Error() string   { return "too slow" }
func (errTimeout) Timeout() bool   { return true }
func (errTimeout) Temporary() bool { return true }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestEnvironment shows that only the options say where a request goes and with
// which key.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"} {
		t.Setenv(name, "ambient")
	}
	t.Setenv("OPENAI_BASE_URL", "http://ambient.invalid")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Ambient: ambient")
	eachDialect(t, func(t *testing.T, d dialect) {
		client := bodyOf(func() io.Reader { return strings.NewReader(d.complete) })
		inner := client.Transport
		client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "api.openai.com" || r.URL.Scheme != "https" {
				t.Errorf("the request goes to %s", r.URL)
			}
			if all := fmt.Sprint(r.Header); strings.Contains(all, "ambient") || strings.Contains(all, "Authorization") {
				t.Errorf("the headers are %s", all)
			}
			return inner.RoundTrip(r)
		})
		if _, err := attempt(t, d.newProvider(openai.Options{HTTP: client})); err != nil {
			t.Fatal(err)
		}
	})
}

// TestContextEndsWhileRefusing shows that a service that never ends its refusal
// does not hold a cancelled call.
func TestContextEndsWhileRefusing(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		ctx, cancel := context.WithCancel(t.Context())
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(500)
			w.(http.Flusher).Flush()
			cancel()
			<-r.Context().Done()
		})
		for _, err := range d.newProvider(openai.Options{BaseURL: url}).Stream(ctx, simpleRequest()) {
			if err != context.Canceled {
				t.Errorf("got %v", err)
			}
		}
	})
}
