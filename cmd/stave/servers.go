package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"stave/internal/mcp"
	"stave/internal/secret"
	"stave/internal/toolbox"
	"stave/internal/toolbox/sandbox"
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
// the one before. The walls of all are built around that directory.
func (s *servers) enter(dir string, theirs map[string]mcp.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dir == s.dir && (len(theirs) == 0 && len(s.theirs) == 0 || reflect.DeepEqual(theirs, s.theirs)) {
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
			Wrap: serverWalls{data: s.data, dir: s.dir, kept: kept}.wrap, Walls: describeWalls,
		})
		_ = s.hub.Ready(ctx) // what is not ready says so in its state
	}
	return s.hub
}

// serverWalls builds walls around the programs of servers.
type serverWalls struct {
	data string
	dir  string // at work; empty for none
	kept keptFor
}

// homesName is where servers have homes of their own. What they fetch, as npx and
// uvx do, stays there from one start to the next, and no server sees another's.
const homesName = "mcp-homes"

// wrap implements mcp.Options.
func (w serverWalls) wrap(name string, s mcp.Server, c mcp.Command) (mcp.Command, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return c, err
	}
	own := filepath.Join(w.data, homesName, w.kept.file(name))
	if err := os.MkdirAll(own, 0o700); err != nil {
		return c, fmt.Errorf("making its home: %w", err)
	}
	if own, err = filepath.EvalSymlinks(own); err != nil {
		return c, err
	}
	g := guest{
		level: s.Sandbox, workspace: w.dir, readOnly: s.ReadOnly, network: s.Online(),
		read:  append(programPaths(c.Programs, home, w.data), fromHome(s.Read, home)...),
		write: fromHome(s.Write, home), home: own,
		argv: c.Argv, dir: cmp.Or(c.Dir, w.dir, own), env: c.Env,
	}
	if w.dir == "" || c.Dir != w.dir && !strings.HasPrefix(c.Dir, w.dir+"/") {
		g.read = append(g.read, g.dir) // a project's is never elsewhere
	}
	launch, err := g.launch(machineWalls)
	if err != nil {
		return c, fmt.Errorf(`%w (only "sandbox": "off" in your own %s does without)`, err, mcpName)
	}
	c.Argv, c.Dir, c.Env, c.Release = launch.Argv, launch.Dir, launch.Env, launch.Release
	c.Files, err = launch.OpenFiles()
	return c, err
}

// describeWalls says what is around a server's program.
func describeWalls(_ string, s mcp.Server) string {
	level, err := levelOf(s.Sandbox, machineWalls)
	if err == nil && level != sandbox.Off {
		err = machineWalls().Of(level).Err()
	}
	switch {
	case err != nil:
		return "it does not start: " + err.Error()
	case level == sandbox.Off:
		return "off: it can do what you can"
	}
	says := string(level) + ", network"
	if !s.Online() {
		says = string(level) + ", no network"
	}
	if s.ReadOnly {
		says += ", workspace read-only"
	}
	return says
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
