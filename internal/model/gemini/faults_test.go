package gemini_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
	"stave/internal/model/gemini"
)

const (
	eventStream = "text/event-stream"
	aCall       = `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"write","args":{"path":"x"}}}]},"index":0}]}` + "\n\n"
	aWord       = `data: {"candidates":[{"content":{"parts":[{"text":"Grüße"}]}}]}` + "\n\n"
	theEnd      = `data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}` + "\n\n"
)

// body answers every request with the same bytes.
func body(status int, media, text string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func ask(ctx context.Context, p model.Provider) (model.Response, error) {
	r := model.Request{
		Model:    "gemini-test",
		Messages: []model.Message{{Role: model.RoleUser, Parts: []model.Part{{Text: "Begin."}}}},
	}
	return model.Assemble(p.Stream(ctx, r), model.Limits{}, func(model.Delta) error { return nil })
}

// faultTest is one way to fail.
type faultTest struct {
	name string
	h    http.HandlerFunc
	want model.Error
}

const jsonMedia = "application/json; charset=UTF-8"

func refusal(code, status, message, details string) string {
	return `{"error":{"code":` + code + `,"message":"` + message + `","status":"` + status + `","details":[` + details + `]}}`
}

// refused are the answers that are none.
func refused() []faultTest {
	return []faultTest{
		{"bad request", body(400, jsonMedia, refusal("400", "INVALID_ARGUMENT", "no such field", "")), model.Error{Kind: model.ErrBadRequest}},
		{
			"wrong key", body(400, jsonMedia, refusal("400", "INVALID_ARGUMENT", "API key not valid.", `{"reason":"API_KEY_INVALID"}`)),
			model.Error{Kind: model.ErrAuth},
		},
		{"unauthorized", body(401, jsonMedia, refusal("401", "UNAUTHENTICATED", "who?", "")), model.Error{Kind: model.ErrAuth}},
		{"forbidden", body(403, jsonMedia, "["+refusal("403", "PERMISSION_DENIED", "no", "")+"]"), model.Error{Kind: model.ErrAuth}},
		{"no such model", body(404, jsonMedia, refusal("404", "NOT_FOUND", "models/x is not found", "")), model.Error{Kind: model.ErrBadRequest}},
		{
			"too long", body(400, jsonMedia, refusal("400", "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8).", "")),
			model.Error{Kind: model.ErrTooLong},
		},
		{
			"too many", body(429, jsonMedia, refusal("429", "RESOURCE_EXHAUSTED", "slow down", `{"retryDelay":"34.5s"}`)),
			model.Error{Kind: model.ErrRateLimited, Retryable: true, RetryAfter: 34500 * time.Millisecond},
		},
		{
			"too many, by header", body(429, "text/plain", "slow down", "Retry-After", "86400000"),
			model.Error{Kind: model.ErrRateLimited, Retryable: true, RetryAfter: 24 * time.Hour},
		},
		{
			"used up for today", body(429, jsonMedia, refusal("429", "RESOURCE_EXHAUSTED", "quota", `{"violations":[{"quotaId":"GenerateRequestsPerDayPerProject"}]},{"retryDelay":"20s"}`)),
			model.Error{Kind: model.ErrQuota},
		},
		{"internal", body(500, jsonMedia, refusal("500", "INTERNAL", "oh", "")), model.Error{Kind: model.ErrOverloaded, Retryable: true}},
		{"bad gateway in HTML", body(502, "text/html", "<html>"), model.Error{Kind: model.ErrOverloaded, Retryable: true}},
		{"overloaded", body(503, jsonMedia, refusal("503", "UNAVAILABLE", "busy", "")), model.Error{Kind: model.ErrOverloaded, Retryable: true}},
		{"slow inside", body(504, jsonMedia, refusal("504", "DEADLINE_EXCEEDED", "late", "")), model.Error{Kind: model.ErrTimeout, Retryable: true}},
	}
}

// spoiled are the streams that come to no good end.
func spoiled() []faultTest {
	cut := model.Error{Kind: model.ErrStream, Retryable: true}
	return []faultTest{
		{"a web page", body(200, "text/html", "<html>sign in</html>"), cut},
		{"a list instead of a stream", body(200, jsonMedia, "[]"), cut},
		{"nothing", body(200, eventStream, ""), cut},
		{"no end", body(200, eventStream, aWord+aCall), cut},
		{"cut in JSON", body(200, eventStream, aCall+theEnd[:40]), cut},
		{"cut in a character", body(200, eventStream, aCall+aWord[:strings.Index(aWord, "ü")+1]), cut},
		{"cut by the connection", broken(aCall + aWord), cut},
		{"not JSON", body(200, eventStream, aCall+"data: what?\n\n"), cut},
		{
			"an error in the stream", body(200, eventStream, aCall+"data: "+refusal("503", "UNAVAILABLE", "busy", "")+"\n\n"),
			model.Error{Kind: model.ErrOverloaded, Retryable: true},
		},
		{"a call that is none", body(200, eventStream, finish("MALFORMED_FUNCTION_CALL")), cut},
		{"an end nobody knows", body(200, eventStream, finish("SOMETHING_NEW")), cut},
		{"no signature", body(200, eventStream, finish("MISSING_THOUGHT_SIGNATURE")), model.Error{Kind: model.ErrBadRequest}},
		{"too many calls", body(200, eventStream, finish("TOO_MANY_TOOL_CALLS")), model.Error{Kind: model.ErrLimit}},
		{"one huge event", repeated("data: ", strings.Repeat("x", 1<<20)), model.Error{Kind: model.ErrLimit}},
		{"a huge compressed event", bomb, model.Error{Kind: model.ErrLimit}},
	}
}

// Every way to fail is typed, says whether a retry is worth it, and gives no call out.
func TestFaults(t *testing.T) {
	for _, tt := range append(refused(), spoiled()...) {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ask(t.Context(), serve(t, tt.h))
			var got *model.Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want a *model.Error", err)
			}
			if got.Message == "" || len(r.Calls) > 0 {
				t.Errorf("message %q, calls %v; want a message and no calls", got.Message, r.Calls)
			}
			tt.want.Message = got.Message
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func finish(reason string) string {
	return aCall + `data: {"candidates":[{"finishReason":"` + reason + `","finishMessage":"so"}],"usageMetadata":{}}` + "\n\n"
}

// broken breaks the connection after some bytes.
func broken(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body(200, eventStream, text)(w, r)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// repeated sends a beginning and then the same without end.
func repeated(begin, piece string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", eventStream)
		_, err := io.WriteString(w, begin)
		for err == nil {
			_, err = io.WriteString(w, piece)
		}
	}
}

// bomb is small on the wire and has no end once it is unpacked.
func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", eventStream)
	w.Header().Set("Content-Encoding", "gzip")
	_, err := w.Write(packed([]byte("data: ")))
	for piece := packed(bytes.Repeat([]byte("x"), 1<<20)); err == nil; {
		_, err = w.Write(piece)
	}
}

func packed(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

// The key goes to the service it is for, in a header, and nowhere else.
func TestKeyStays(t *testing.T) {
	var elsewhere atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		p := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Goog-Api-Key") != "secret-key" || strings.Contains(r.URL.String(), "secret-key") {
				t.Errorf("the key is not in its header or in %s", r.URL)
			}
			http.Redirect(w, r, other.URL, status)
		}))
		_, err := ask(t.Context(), p)
		var got *model.Error
		if !errors.As(err, &got) || got.Kind != model.ErrBadRequest {
			t.Errorf("%d: got %v, want a refusal to follow", status, err)
		}
	}
	if elsewhere.Load() {
		t.Error("a redirect was followed")
	}
	p := serve(t, body(400, "application/json", `{"error":{"message":"the key secret-key is wrong"}}`))
	if _, err := ask(t.Context(), p); err == nil || strings.Contains(err.Error(), "secret-key") {
		t.Errorf("the error %v repeats the key or is none", err)
	}
}

// A service that is not there may be there later.
func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := ask(t.Context(), connect(t, server.URL, nil))
	var got *model.Error
	if !errors.As(err, &got) || got.Kind != model.ErrUnreachable || !got.Retryable {
		t.Errorf("got %v, want a retryable error of kind %s", err, model.ErrUnreachable)
	}
}

// What cannot be right is refused before any call, and no key is no call.
func TestNewRefuses(t *testing.T) {
	for _, o := range []gemini.Options{
		{BaseURL: "example.com"},
		{BaseURL: "ftp://example.com"},
		{BaseURL: "https://user:pw@example.com"},
		{BaseURL: "https://example.com?key=x"},
		{BaseURL: "https://exa mple.com"},
		{APIKey: "a b"},
		{APIKey: "a\r\nHost: x"},
	} {
		if _, err := gemini.New(o); err == nil {
			t.Errorf("New(%+v) took it", o)
		}
	}
	p, err := gemini.New(gemini.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got *model.Error
	if _, err := ask(t.Context(), p); !errors.As(err, &got) || got.Kind != model.ErrAuth {
		t.Errorf("without a key: got %v, want one of kind %s and no call", err, model.ErrAuth)
	}
}
