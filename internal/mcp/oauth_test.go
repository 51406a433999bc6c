package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// guarded is a server that wants a token, with the sign-in server beside it.
type guarded struct {
	web   *httptest.Server
	inner http.Handler
	valid string

	mu        sync.Mutex
	challenge string
	seen      []url.Values // token requests
}

const firstToken = "first-access-token"

func newGuarded(t *testing.T) *guarded {
	server := realServer()
	g := &guarded{valid: firstToken}
	g.inner = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	g.web = httptest.NewServer(g)
	t.Cleanup(g.web.Close)
	return g
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	base := g.web.URL
	switch {
	case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource"):
		answer(map[string]any{"resource": base + "/mcp", "authorization_servers": []string{base}})
	case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-authorization-server"):
		answer(map[string]any{
			"issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token",
			"registration_endpoint": base + "/register", "code_challenge_methods_supported": []string{"S256"},
			"response_types_supported": []string{"code"}, "token_endpoint_auth_methods_supported": []string{"none"},
		})
	case r.URL.Path == "/register":
		var m map[string]any
		_ = json.NewDecoder(r.Body).Decode(&m)
		m["client_id"] = "client-1"
		w.WriteHeader(http.StatusCreated)
		answer(m)
	case r.URL.Path == "/authorize":
		q := r.URL.Query()
		g.mu.Lock()
		g.challenge = q.Get("code_challenge")
		g.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?code=code-1&state="+url.QueryEscape(q.Get("state")), http.StatusFound)
	case r.URL.Path == "/token":
		_ = r.ParseForm()
		g.mu.Lock()
		g.seen = append(g.seen, r.PostForm)
		challenge := g.challenge
		g.mu.Unlock()
		if sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier"))); base64.RawURLEncoding.EncodeToString(sum[:]) != challenge {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		answer(map[string]any{"access_token": g.valid, "token_type": "Bearer", "expires_in": 3600, "refresh_token": "the-refresh-token"})
	default:
		if r.Header.Get("Authorization") != "Bearer "+g.valid {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="%s/.well-known/oauth-protected-resource"`, base))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		g.inner.ServeHTTP(w, r)
	}
}

// browse is a person's browser: it goes where it is sent.
func browse(ctx context.Context, _, page string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func TestSignIn(t *testing.T) {
	// A page is shown only when a person asks to sign in. The token is for this
	// server, comes by PKCE, is kept for the next program, and is never shown.
	g := newGuarded(t)
	opened := 0
	tokens, pins := NewFileTokens(t.TempDir()), &MemoryPins{}
	c := Config{Servers: map[string]Server{"safe": {URL: g.web.URL + "/mcp"}}}
	s := open1(t, c, Options{Tokens: tokens, Pins: pins, OpenURL: func(ctx context.Context, server, page string) error {
		opened++
		return browse(ctx, server, page)
	}})
	st := s.await("safe", is(NeedsApproval))
	if err := s.ApproveServer("safe", st.Review.Digest); err != nil {
		t.Fatal(err)
	}
	s.await("safe", is(NeedsSignIn))
	if opened != 0 {
		t.Fatal("a page was shown unasked")
	}
	if err := s.SignIn(t.Context(), "safe"); err != nil {
		t.Fatal(err)
	}
	st = s.await("safe", is(Connected))
	if opened != 1 || len(st.Tools) != 1 {
		t.Errorf("%d pages shown, state %+v", opened, st)
	}
	g.mu.Lock()
	form := g.seen[0]
	g.mu.Unlock()
	if form.Get("resource") != g.web.URL+"/mcp" || form.Get("code_verifier") == "" {
		t.Errorf("the token request was %v", form)
	}
	if text, _ := json.Marshal(s.State()); strings.Contains(string(text), firstToken) {
		t.Error("the state shows the token")
	}
	s.Close()
	again := open1(t, c, Options{Tokens: tokens, Pins: pins})
	again.await("safe", is(Connected))
	again.Close()
	// A token kept for one address is not sent to another.
	other := newGuarded(t)
	moved := open1(t, Config{Servers: map[string]Server{"safe": {URL: other.web.URL + "/mcp"}}}, Options{Tokens: tokens})
	st = moved.await("safe", is(NeedsApproval))
	if err := moved.ApproveServer("safe", st.Review.Digest); err != nil {
		t.Fatal(err)
	}
	moved.await("safe", is(NeedsSignIn))
}

func TestSignInRefused(t *testing.T) {
	g := newGuarded(t)
	refuse := errors.New("no browser here")
	opened := 0
	s := open1(t, Config{Servers: map[string]Server{"safe": {URL: g.web.URL + "/mcp"}}}, Options{OpenURL: func(context.Context, string, string) error {
		opened++
		return refuse
	}})
	st := s.await("safe", is(NeedsApproval))
	if err := s.ApproveServer("safe", st.Review.Digest); err != nil {
		t.Fatal(err)
	}
	s.await("safe", is(NeedsSignIn))
	if err := s.SignIn(t.Context(), "safe"); err == nil || opened != 1 {
		t.Errorf("signing in gave %v after %d pages", err, opened)
	}
}

func TestSignInAddresses(t *testing.T) {
	for page, want := range map[string][2]bool{ // from another machine, from this one
		"https://id.example.com/a":  {true, true},
		"http://id.example.com/a":   {false, false},
		"http://127.0.0.1:1/a":      {false, true},
		"https://localhost/a":       {false, true},
		"https://u@id.example.com/": {false, false},
		"file:///etc/passwd":        {false, false},
		"javascript:alert(1)":       {false, false},
	} {
		u, err := url.Parse(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, local := range []bool{false, true} {
			if got := checkAuthURL(u, local) == nil; got != want[i] {
				t.Errorf("%s with local %v: %v", page, local, got)
			}
		}
	}
}

func TestStrangersAtTheBackDoor(t *testing.T) {
	// Requests without the state neither answer nor end a sign-in.
	b, err := listenBack()
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	get := func(u string) int {
		resp, err := http.Get(u)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := get(b.url + "?state=&code=x"); got != http.StatusNotFound {
		t.Errorf("before anything is expected: %d", got)
	}
	if err := b.expect("https://id.example.com/a?state=right", false); err != nil {
		t.Fatal(err)
	}
	for _, u := range []string{b.url, b.url + "?state=wrong&code=x", "http://" + b.host + "/?state=right&code=x", "http://localhost:" + strings.Split(b.host, ":")[1] + "/callback?state=right&code=x"} {
		if got := get(u); got != http.StatusNotFound {
			t.Errorf("%s: %d", u, got)
		}
	}
	if got := get(b.url + "?state=right&code=good"); got != http.StatusOK {
		t.Errorf("the real answer: %d", got)
	}
	if r, err := b.wait(t.Context()); err != nil || r.Code != "good" {
		t.Errorf("got %+v, %v", r, err)
	}
}
