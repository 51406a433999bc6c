package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"

	"stave/internal/toolbox"
)

// Options are what a Hub needs from the program around it.
type Options struct {
	Limits Limits
	// Pins remembers what a person approved; nil forgets with the program.
	Pins Pins
	// Wrap puts the command of a server behind walls, or says why that cannot be
	// done: then the server is not started. Nil starts it as it is.
	Wrap func(name string, s Server, c Command) (Command, error)
	// Walls describes to people what Wrap does for a server; it may be nil.
	Walls func(name string, s Server) string
	// Environ is the environment of which servers get the harmless part; nil
	// means that of the program.
	Environ []string
	// Lookup gives the value of ${NAME} in configured variables and headers; nil
	// refuses them.
	Lookup func(name string) (string, bool)
	// HTTP carries requests; nil means the standard transport.
	HTTP http.RoundTripper
	// OpenURL shows a person the page where they sign in. It must hand the URL to
	// a browser as one argument, never to a shell, and not wait for the person.
	OpenURL func(ctx context.Context, server, url string) error
	// Tokens keeps what signing in gave; nil forgets with the program.
	Tokens TokenStore
	// Changed is called after something about a server changed. It must not
	// block.
	Changed func()
}

// Command is how a server's program is started.
type Command struct {
	Argv []string
	Dir  string
	Env  []string
	// Programs are the files that make the server what was approved: the program,
	// and the scripts among its arguments. Only Wrap looks at them.
	Programs []string
	// Files are open for the program from number 3 on. They are closed once it runs.
	Files []*os.File
	// Release clears up when the program has ended, or was not started; it may be nil.
	Release func()
}

func (c Command) release() {
	for _, f := range c.Files {
		f.Close()
	}
	if c.Release != nil {
		c.Release()
	}
}

// Hub holds the connections with all configured servers.
type Hub struct {
	opt     Options
	servers map[string]*server
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Start begins to connect every server, each by itself, and returns at once.
func Start(c Config, opt Options) *Hub {
	opt.Limits = opt.Limits.orDefaults()
	if opt.Pins == nil {
		opt.Pins = &MemoryPins{}
	}
	if opt.Tokens == nil {
		opt.Tokens = &memoryTokens{}
	}
	if opt.HTTP == nil {
		opt.HTTP = http.DefaultTransport
	}
	if opt.Environ == nil {
		opt.Environ = os.Environ()
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &Hub{opt: opt, servers: make(map[string]*server, len(c.Servers)), cancel: cancel}
	for name, config := range c.Servers {
		s := newServer(name, config, opt)
		h.servers[name] = s
		h.running.Go(func() { s.run(ctx) })
	}
	return h
}

// Close ends all connections and everything that was started for them.
func (h *Hub) Close() error {
	h.cancel()
	h.running.Wait()
	return nil
}

// Ready returns when every server is connected, waits for a person, or failed
// once, or when ctx ends.
func (h *Hub) Ready(ctx context.Context) error {
	for _, s := range h.sorted() {
		if err := s.awaitSettled(ctx); err != nil {
			return fmt.Errorf("waiting for MCP servers: %w", err)
		}
	}
	return nil
}

// State describes all servers, in the order of their names.
func (h *Hub) State() []ServerState {
	var all []ServerState
	for _, s := range h.sorted() {
		all = append(all, s.state())
	}
	return all
}

// Tools gives the approved tools of all servers, in a stable order. A tool stays
// while its server is away; calling it then says so.
func (h *Hub) Tools() []toolbox.Tool {
	var all []toolbox.Tool
	for _, s := range h.sorted() {
		all = append(all, s.tools()...)
	}
	return all
}

// ApproveServer records that a person approved a server as State showed it.
// The digest proves that what they saw is what there is.
func (h *Hub) ApproveServer(name, digest string) error {
	s, err := h.server(name)
	if err != nil {
		return err
	}
	return s.approveIdentity(digest)
}

// ApproveTools records that a person approved tools as State showed them: a
// digest for each of the server's own tool names.
func (h *Hub) ApproveTools(name string, digests map[string]string) error {
	s, err := h.server(name)
	if err != nil {
		return err
	}
	return s.approveTools(digests)
}

// Revoke takes back everything that was approved of a server and disconnects it.
func (h *Hub) Revoke(name string) error {
	s, err := h.server(name)
	if err != nil {
		return err
	}
	return s.revoke()
}

// Reconnect ends the connection with a server and tries again without waiting.
func (h *Hub) Reconnect(name string) error {
	s, err := h.server(name)
	if err != nil {
		return err
	}
	s.restart()
	return nil
}

// SignIn lets a person sign in to a server that asks for it. It shows the page
// with OpenURL and returns when the server is connected or ctx ends.
func (h *Hub) SignIn(ctx context.Context, name string) error {
	s, err := h.server(name)
	if err != nil {
		return err
	}
	if h.opt.OpenURL == nil {
		return errors.New("signing in: there is no way to show a web page here")
	}
	return s.signInNow(ctx)
}

func (h *Hub) server(name string) (*server, error) {
	s, ok := h.servers[name]
	if !ok {
		return nil, fmt.Errorf("there is no MCP server called %q", cleanLine(name, 64))
	}
	return s, nil
}

func (h *Hub) sorted() []*server {
	var all []*server
	for _, name := range slices.Sorted(maps.Keys(h.servers)) {
		all = append(all, h.servers[name])
	}
	return all
}
