package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"stave/internal/mcp"
)

func (a *app) serversCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "The MCP servers in mcp.json: what they offer, what is approved",
		Long: `Lists the servers in mcp.json of the data directory, and those of the project in the current directory if you trust
it, with the tools they offer. Nothing of a server is started or offered to a model before you approved what it is, and a
definition that changes must be approved again. Prompts and resources are for you: no model gets at them.`,
		Example: "  stave servers\n  stave servers approve files\n  stave servers revoke files\n" +
			"  stave servers prompt files summarize path=README.md | stave ask\n  stave servers sign-in tracker",
		Args: atMost(0),
		RunE: func(*cobra.Command, []string) error {
			return a.withServers(mcpPatience, func(_ context.Context, h *mcp.Hub) error { return a.showServers(h) })
		},
	}
	cmd.AddCommand(
		a.serverCmd("approve SERVER", "Approve a server as it is configured, then its tools as they are now", exactly("SERVER"), a.approveServer),
		a.serverCmd("revoke SERVER", "Take an approval back", exactly("SERVER"), a.revokeServer),
		a.serverCmd("prompts [SERVER]", "The prompts servers offer", atMost(1), a.showPrompts),
		a.serverCmd("prompt SERVER NAME [KEY=VALUE…]", "Fill in a prompt and print it", atLeast("SERVER", "NAME"), a.fillPrompt),
		a.serverCmd("resources [SERVER]", "What servers let you read", atMost(1), a.showResources),
		a.serverCmd("read SERVER URI", "Print a resource", exactly("SERVER", "URI"), a.readResource),
		a.signInCmd(),
	)
	return cmd
}

// serverCmd is a command about servers that are connected.
func (a *app) serverCmd(use, short string, args cobra.PositionalArgs, f func(context.Context, *mcp.Hub, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(_ *cobra.Command, args []string) error {
		return a.withServers(mcpPatience, func(ctx context.Context, h *mcp.Hub) error { return f(ctx, h, args) })
	}}
}

// withServers runs f with the servers connected, or as far as they come.
func (a *app) withServers(patience time.Duration, f func(context.Context, *mcp.Hub) error) error {
	data, err := a.dataDir()
	if err != nil {
		return err
	}
	s, err := loadServers(data, a.models.secrets)
	if err != nil {
		return err
	}
	s.openURL = a.showPage
	dir, err := workDir("")
	if err != nil {
		return err
	}
	theirs, notes := projectServers(data, dir, s.own)
	for _, n := range notes {
		a.note("stave: %s", visible(n))
	}
	if err := s.enter(dir, theirs); err != nil {
		return err
	}
	if s.none() {
		a.note("no MCP server is configured; write them into %s", filepath.Join(data, mcpName))
		return nil
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
		if s.Walls != "" {
			a.printf("  walls: %s\n", visible(s.Walls))
		}
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
func (a *app) approveServer(ctx context.Context, h *mcp.Hub, args []string) error {
	name := args[0]
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

func (a *app) revokeServer(_ context.Context, h *mcp.Hub, args []string) error {
	if _, err := serverState(h, args[0]); err != nil {
		return err
	}
	if err := h.Revoke(args[0]); err != nil {
		return badInput("%w", err)
	}
	a.note("%s is not approved any more", args[0])
	return nil
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
