package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"stave/internal/mcp"
	"stave/internal/toolbox"
)

// mcpPatience is how long people wait for servers to say what they have.
const mcpPatience = 15 * time.Second

// servers are those a person configured. They are started when the first model
// call wants their tools: commands that only look at a conversation start none.
type servers struct {
	config mcp.Config
	pins   string

	mu  sync.Mutex
	hub *mcp.Hub // nil until it is wanted
}

// loadServers reads which servers there are, nil where there are none.
func loadServers(data string) (*servers, error) {
	file := filepath.Join(data, mcpName)
	b, err := readIfThere(file)
	if err != nil || b == nil {
		return nil, err
	}
	c, err := mcp.Load(file, b)
	if err != nil {
		return nil, badInput("%w", err)
	}
	if len(c.Servers) == 0 {
		return nil, nil
	}
	return &servers{config: c, pins: filepath.Join(data, pinsName)}, nil
}

// start connects the servers, once, and waits until they have said what they
// offer: what comes later a model would not hear of.
func (s *servers) start(ctx context.Context) *mcp.Hub {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub == nil {
		s.hub = mcp.Start(s.config, mcp.Options{Pins: mcp.NewFilePins(s.pins), Lookup: os.LookupEnv})
		_ = s.hub.Ready(ctx) // what is not ready says so in its state
	}
	return s.hub
}

func (s *servers) tools() []toolbox.Tool {
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

func (a *app) serversCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "The MCP servers in mcp.json: what they offer, what is approved",
		Long: `Lists the servers in mcp.json of the data directory and the tools they offer. Nothing of a server is started or
offered to a model before you approved what it is, and a definition that changes must be approved again.`,
		Example: "  stave servers\n  stave servers approve files\n  stave servers revoke files",
		Args:    atMost(0),
		RunE: func(*cobra.Command, []string) error {
			return a.withServers(func(_ context.Context, h *mcp.Hub) error { return a.showServers(h) })
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use: "approve SERVER", Short: "Approve a server as it is configured, then its tools as they are now", Args: exactly("SERVER"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withServers(func(ctx context.Context, h *mcp.Hub) error { return a.approveServer(ctx, h, args[0]) })
		},
	}, &cobra.Command{
		Use: "revoke SERVER", Short: "Take an approval back", Args: exactly("SERVER"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withServers(func(_ context.Context, h *mcp.Hub) error {
				if err := h.Revoke(args[0]); err != nil {
					return badInput("%w", err)
				}
				a.note("%s is not approved any more", args[0])
				return nil
			})
		},
	})
	return cmd
}

// withServers runs f with the servers connected, or as far as they come.
func (a *app) withServers(f func(context.Context, *mcp.Hub) error) error {
	data, err := a.dataDir()
	if err != nil {
		return err
	}
	s, err := loadServers(data)
	if err != nil {
		return err
	}
	if s == nil {
		a.note("no MCP server is configured; write them into %s", filepath.Join(data, mcpName))
		return nil
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), mcpPatience)
	defer cancel()
	return f(ctx, s.start(ctx))
}

func (a *app) showServers(h *mcp.Hub) error {
	for _, s := range h.State() {
		if a.json {
			if err := a.printJSON(s); err != nil {
				return err
			}
			continue
		}
		a.printf("%s  %s%s\n", s.Name, s.Status, because(s.Why))
		if s.Review != nil {
			a.printf("  would run: %s\n", visible(string(s.Review.After)))
		}
		for _, t := range s.Tools {
			a.printf("  %-40s %s%s\n", t.Name, t.Status, because(t.Why))
		}
		for _, n := range s.Notes {
			a.printf("  note: %s\n", visible(n))
		}
	}
	return nil
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + visible(why)
}

// approveServer approves a server, waits for its tools, and approves those: a
// person has seen both with `stave servers`.
func (a *app) approveServer(ctx context.Context, h *mcp.Hub, name string) error {
	s, err := serverState(h, name)
	if err != nil {
		return err
	}
	if s.Review != nil {
		if err := h.ApproveServer(name, s.Review.Digest); err != nil {
			return badInput("%w", err)
		}
		if s, err = restarted(ctx, h, name); err != nil {
			return err
		}
	}
	digests := map[string]string{}
	for _, t := range s.Tools {
		if t.Review != nil {
			digests[t.Tool] = t.Review.Digest
		}
	}
	if len(digests) > 0 {
		if err := h.ApproveTools(name, digests); err != nil {
			return badInput("%w", err)
		}
	}
	return a.showServers(h)
}

// restarted waits until a server that was approved has been started: that
// happens in the background, so for a moment it looks as before.
func restarted(ctx context.Context, h *mcp.Hub, name string) (mcp.ServerState, error) {
	const poll = 10 * time.Millisecond
	for {
		s, err := serverState(h, name)
		if err != nil || s.Review == nil && s.Status != mcp.Connecting || ctx.Err() != nil {
			return s, err
		}
		time.Sleep(poll)
	}
}

func serverState(h *mcp.Hub, name string) (mcp.ServerState, error) {
	for _, s := range h.State() {
		if s.Name == name {
			return s, nil
		}
	}
	return mcp.ServerState{}, badInput("there is no MCP server %q; `stave servers` lists them", name)
}

// makePrivate makes a directory that only its owner may look into.
func makePrivate(dir string) error {
	const private = 0o700
	if err := os.MkdirAll(dir, private); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	return nil
}
