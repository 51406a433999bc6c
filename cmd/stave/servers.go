package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"stave/internal/mcp"
	"stave/internal/secret"
	"stave/internal/toolbox"
)

// mcpPatience is how long people wait for servers to say what they have.
const mcpPatience = 15 * time.Second

// servers are those a person configured, and those of the project at work. They
// are started when the first model call wants their tools: commands that only look
// at a conversation start none.
type servers struct {
	data    string
	own     mcp.Config
	secrets *secret.Set // learns what servers are given; nil for nothing
	openURL func(ctx context.Context, server, url string) error

	mu     sync.Mutex
	dir    string                // of the project
	theirs map[string]mcp.Server // of the project, none of a name in own
	hub    *mcp.Hub              // nil until it is wanted
}

// loadServers reads which servers a person has.
func loadServers(data string, secrets *secret.Set) (*servers, error) {
	s := &servers{data: data, secrets: secrets}
	file := filepath.Join(data, mcpName)
	b, err := readIfThere(file)
	if err != nil || b == nil {
		return s, err
	}
	if s.own, err = mcp.Load(file, b); err != nil {
		return nil, badInput("%w", err)
	}
	s.learn(s.own)
	return s, nil
}

// learn keeps secret what servers are given.
func (s *servers) learn(c mcp.Config) {
	if s.secrets == nil {
		return
	}
	for _, value := range c.Secrets(os.LookupEnv) {
		s.secrets.Add(value)
	}
}

// enter takes in the servers of the project in a directory instead of those of
// the one before.
func (s *servers) enter(dir string, theirs map[string]mcp.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(theirs) == 0 && len(s.theirs) == 0 || dir == s.dir && reflect.DeepEqual(theirs, s.theirs) {
		return nil
	}
	s.dir, s.theirs = dir, theirs
	s.learn(mcp.Config{Servers: theirs})
	if s.hub == nil {
		return nil
	}
	err := s.hub.Close()
	s.hub = nil
	return err
}

// start connects the servers, once, and waits until they have said what they
// offer: what comes later a model would not hear of.
func (s *servers) start(ctx context.Context) *mcp.Hub {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub == nil {
		all := mcp.Config{Servers: map[string]mcp.Server{}}
		maps.Copy(all.Servers, s.theirs)
		maps.Copy(all.Servers, s.own.Servers)
		kept := keptFor{dir: s.dir, theirs: s.theirs}
		s.hub = mcp.Start(all, mcp.Options{
			Pins:   scopedPins{mcp.NewFilePins(filepath.Join(s.data, pinsName)), kept},
			Tokens: scopedTokens{mcp.NewFileTokens(filepath.Join(s.data, tokensName)), kept},
			Lookup: os.LookupEnv, OpenURL: s.openURL,
		})
		_ = s.hub.Ready(ctx) // what is not ready says so in its state
	}
	return s.hub
}

// none reports whether there is no server at all.
func (s *servers) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.own.Servers) == 0 && len(s.theirs) == 0
}

func (s *servers) tools() []toolbox.Tool {
	if s.none() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), mcpPatience)
	defer cancel()
	return s.start(ctx).Tools()
}

func (s *servers) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub == nil {
		return nil
	}
	return s.hub.Close()
}

// makePrivate makes a directory that only its owner may look into.
func makePrivate(dir string) error {
	const private = 0o700
	if err := os.MkdirAll(dir, private); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	return nil
}
