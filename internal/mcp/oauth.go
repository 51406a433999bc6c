package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// ErrSignIn says that a server wants a person to sign in.
var ErrSignIn = errors.New("the server wants you to sign in")

var errForbidden = errors.New("the server forbids this")

// TokenStore keeps what signing in gave: secrets, to be kept like passwords.
type TokenStore interface {
	// Load gives what was saved for a server, nil if nothing was.
	Load(server string) ([]byte, error)
	// Save replaces what is kept for a server.
	Save(server string, secret []byte) error
}

type memoryTokens struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func (m *memoryTokens) Load(server string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[server], nil
}

func (m *memoryTokens) Save(server string, secret []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = make(map[string][]byte)
	}
	m.kept[server] = secret
	return nil
}

// grant is what is kept: the token, for whom it is, and how to renew it.
type grant struct {
	URL          string        `json:"url"`
	Token        *oauth2.Token `json:"token"`
	ClientID     string        `json:"client_id"`
	ClientSecret string        `json:"client_secret,omitempty"`
	TokenURL     string        `json:"token_url"`
	AuthStyle    int           `json:"auth_style"`
	Scopes       []string      `json:"scopes,omitempty"`
}

// signIn is how one server's OAuth is handled. It shows a page only when a
// person asks to sign in, never because a server answers 401: what the server
// demanded is kept until then.
type signIn struct {
	server string
	config Server
	opt    Options

	mu     sync.Mutex
	loaded bool
	source oauth2.TokenSource
	last   *oauth2.Token
	scopes []string // granted so far
	demand *demand  // nil if the server is content
}

// demand is how a server turned a request away.
type demand struct {
	url    *url.URL
	status int
	header http.Header
}

func newSignIn(server string, config Server, opt Options) *signIn {
	return &signIn{server: server, config: config, opt: opt}
}

// secrets are what must never be shown.
func (s *signIn) secrets() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return nil
	}
	return []string{s.last.AccessToken, s.last.RefreshToken}
}

// TokenSource gives the token kept from an earlier sign-in, if there is one.
func (s *signIn) TokenSource(context.Context) (oauth2.TokenSource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded {
		return s.source, nil
	}
	text, err := s.opt.Tokens.Load(s.server)
	if err != nil {
		return nil, errors.New("reading the kept sign-in failed")
	}
	s.loaded = true
	var g grant
	if text == nil || json.Unmarshal(text, &g) != nil || g.Token == nil || g.URL != s.config.URL {
		return nil, nil // what is damaged or for another address is as good as none
	}
	cfg := &oauth2.Config{
		ClientID: g.ClientID, ClientSecret: g.ClientSecret, Scopes: g.Scopes,
		Endpoint: oauth2.Endpoint{TokenURL: g.TokenURL, AuthStyle: oauth2.AuthStyle(g.AuthStyle)},
	}
	s.last, s.scopes = g.Token, g.Scopes
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, s.client())
	s.source = &keeper{sign: s, grant: g, from: cfg.TokenSource(ctx, g.Token)}
	return s.source, nil
}

// Authorize takes note of a 401 or 403 and never lets the request be repeated
// by itself.
func (s *signIn) Authorize(_ context.Context, req *http.Request, resp *http.Response) error {
	resp.Body.Close()
	challenge := strings.Join(resp.Header.Values("WWW-Authenticate"), ",")
	if resp.StatusCode == http.StatusForbidden && !strings.Contains(challenge, "insufficient_scope") {
		return errForbidden
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.demand = &demand{req.URL, resp.StatusCode, resp.Header}
	return ErrSignIn
}

// forget drops a demand of an earlier connection.
func (s *signIn) forget() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.demand = nil
}

func (s *signIn) demanded() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.demand != nil
}

// satisfy lets a person sign in as the server demanded.
func (s *signIn) satisfy(ctx context.Context) error {
	s.mu.Lock()
	d := s.demand
	s.mu.Unlock()
	if d == nil {
		return errors.New("the server has not asked for it")
	}
	req := &http.Request{Method: http.MethodPost, URL: d.url, Header: make(http.Header)}
	resp := &http.Response{StatusCode: d.status, Header: d.header, Body: http.NoBody}
	if err := s.flow(ctx, req, resp); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.demand = nil
	return nil
}

// widen asks for what is wanted now beside what was granted before, so that one
// demand does not take away what another gave.
func (s *signIn) widen(wanted []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.scopes)
	for _, scope := range wanted {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// flow runs the authorization code flow with a page of our own as its end.
func (s *signIn) flow(ctx context.Context, req *http.Request, resp *http.Response) error {
	back, err := listenBack()
	if err != nil {
		return err
	}
	defer back.close()
	cfg := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: back.url, RequestRefreshToken: true, Client: s.client(), ScopeFilter: s.widen,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if err := back.expect(args.URL, s.local()); err != nil {
				return nil, err
			}
			if err := s.opt.OpenURL(ctx, s.server, args.URL); err != nil {
				return nil, fmt.Errorf("showing the sign-in page: %w", err)
			}
			return back.wait(ctx)
		},
		NewTokenSource: func(ctx context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			k := &keeper{sign: s, from: c.TokenSource(ctx, t), grant: grant{
				URL: s.config.URL, ClientID: c.ClientID, ClientSecret: c.ClientSecret,
				TokenURL: c.Endpoint.TokenURL, AuthStyle: int(c.Endpoint.AuthStyle), Scopes: c.Scopes,
			}}
			return k, k.keep(t)
		},
	}
	if err := s.register(cfg); err != nil {
		return err
	}
	h, err := auth.NewAuthorizationCodeHandler(cfg)
	if err != nil {
		return fmt.Errorf("preparing sign-in: %w", err)
	}
	if err := h.Authorize(ctx, req, resp); err != nil {
		return withoutSecrets(err)
	}
	source, err := h.TokenSource(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.loaded, s.source = true, source
	s.mu.Unlock()
	return nil
}

// register says as whom we sign in: the client a person registered, or one the
// sign-in server makes for us now.
func (s *signIn) register(cfg *auth.AuthorizationCodeHandlerConfig) error {
	if s.config.ClientID == "" {
		cfg.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Stave", RedirectURIs: []string{cfg.RedirectURL},
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}}
		return nil
	}
	cfg.PreregisteredClient = &oauthex.ClientCredentials{ClientID: s.config.ClientID}
	secret, err := fill(s.config.ClientSecret, s.opt.Lookup)
	if err != nil {
		return fmt.Errorf("oauth_client_secret: %w", err)
	}
	if secret != "" {
		cfg.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: secret}
	}
	return nil
}

// withoutSecrets keeps the body of a token answer out of messages.
func withoutSecrets(err error) error {
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("the sign-in server refused: %s", cleanLine(r.ErrorCode+" "+r.ErrorDescription, 300))
	}
	return err
}

// keeper is a token source that saves every new token.
type keeper struct {
	sign  *signIn
	grant grant
	from  oauth2.TokenSource
}

// Token implements oauth2.TokenSource.
func (k *keeper) Token() (*oauth2.Token, error) {
	t, err := k.from.Token()
	if err != nil {
		return nil, err
	}
	return t, k.keep(t)
}

func (k *keeper) keep(t *oauth2.Token) error {
	k.sign.mu.Lock()
	defer k.sign.mu.Unlock()
	if last := k.sign.last; last != nil && last.AccessToken == t.AccessToken && last.RefreshToken == t.RefreshToken {
		return nil
	}
	k.sign.last, k.sign.scopes = t, k.grant.Scopes
	g := k.grant
	g.Token = t
	text, err := jsonv2.Marshal(g)
	if err != nil {
		return errors.New("keeping the sign-in failed")
	}
	if err := k.sign.opt.Tokens.Save(k.sign.server, text); err != nil {
		return errors.New("keeping the sign-in failed")
	}
	return nil
}
