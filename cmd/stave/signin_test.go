package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// browse is a person's browser: it goes where it is sent.
func browse() {
	resp, err := http.Get(os.Args[1])
	if err != nil || resp.Body.Close() != nil {
		os.Exit(1)
	}
}

// guard TOKEN puts a server on the network that wants people to sign in, gives
// them this token, and says in GUARDED where it is.
func guard(ts *testscript.TestScript, _ bool, args []string) {
	server := weather("says how the weather will be")
	g := &guarded{token: args[0], inner: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)}
	g.web = httptest.NewServer(g)
	ts.Defer(func() {
		g.web.CloseClientConnections() // or it waits for streams that stay open
		g.web.Close()
	})
	ts.Setenv("GUARDED", g.web.URL+"/mcp")
}

// guarded is a server that wants a token, with the sign-in server beside it.
type guarded struct {
	web   *httptest.Server
	inner http.Handler
	token string
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v) // a client that left needs no answer
	}
	base := g.web.URL
	switch {
	case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource"):
		answer(http.StatusOK, map[string]any{"resource": base + "/mcp", "authorization_servers": []string{base}})
	case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-authorization-server"):
		answer(http.StatusOK, map[string]any{
			"issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token",
			"registration_endpoint": base + "/register", "code_challenge_methods_supported": []string{"S256"},
			"response_types_supported": []string{"code"}, "token_endpoint_auth_methods_supported": []string{"none"},
		})
	case r.URL.Path == "/register":
		answer(http.StatusCreated, map[string]any{"client_id": "client-1", "redirect_uris": []string{}})
	case r.URL.Path == "/authorize":
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?code=code-1&state="+url.QueryEscape(q.Get("state")), http.StatusFound)
	case r.URL.Path == "/token":
		answer(http.StatusOK, map[string]any{"access_token": g.token, "token_type": "Bearer", "expires_in": 3600})
	case r.Header.Get("Authorization") == "Bearer "+g.token:
		g.inner.ServeHTTP(w, r)
	default:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="%s/.well-known/oauth-protected-resource"`, base))
		w.WriteHeader(http.StatusUnauthorized)
	}
}
