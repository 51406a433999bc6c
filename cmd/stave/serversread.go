package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stave/internal/mcp"
)

// signInPatience is how long a person may take to sign in.
const signInPatience = 10 * time.Minute

// ofServer reports whether something belongs to the server a person named, if any.
func ofServer(args []string, server string) bool { return len(args) == 0 || args[0] == server }

// known refuses the name of a server that is not there.
func known(h *mcp.Hub, args []string) error {
	if len(args) == 0 {
		return nil
	}
	_, err := serverState(h, args[0])
	return err
}

func (a *app) showPrompts(_ context.Context, h *mcp.Hub, args []string) error {
	if err := known(h, args); err != nil {
		return err
	}
	found := 0
	for _, p := range h.Prompts() {
		if !ofServer(args, p.Server) {
			continue
		}
		found++
		if a.json {
			if err := a.printJSON(p); err != nil {
				return err
			}
			continue
		}
		a.printf("%s %s%s\n", p.Server, visible(p.Name), because(line(or(p.Description, p.Title), shownLine)))
		for _, arg := range p.Arguments {
			need := ""
			if arg.Required {
				need = " (needed)"
			}
			a.printf("  %s=…%s%s\n", visible(arg.Name), need, because(line(arg.Description, shownLine)))
		}
	}
	if found == 0 && !a.json {
		a.note("no prompt is offered; `stave servers` says how it stands with each server")
	}
	return nil
}

func (a *app) fillPrompt(ctx context.Context, h *mcp.Hub, args []string) error {
	if err := known(h, args); err != nil {
		return err
	}
	values := map[string]string{}
	for _, pair := range args[2:] {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return badInput("%q gives no value; write KEY=VALUE", pair)
		}
		if _, twice := values[key]; twice {
			return badInput("%s is given twice", key)
		}
		values[key] = value
	}
	text, err := h.GetPrompt(ctx, args[0], args[1], values)
	if err != nil {
		return badInput("%w", err)
	}
	if a.json {
		return a.printJSON(text)
	}
	for _, m := range text.Messages {
		if len(text.Messages) > 1 {
			a.printf("── %s\n", visible(m.Role))
		}
		a.printf("%s\n", safe(m.Text))
	}
	return nil
}

func (a *app) showResources(_ context.Context, h *mcp.Hub, args []string) error {
	if err := known(h, args); err != nil {
		return err
	}
	found := 0
	for _, r := range h.Resources() {
		if !ofServer(args, r.Server) {
			continue
		}
		found++
		if a.json {
			if err := a.printJSON(r); err != nil {
				return err
			}
			continue
		}
		kind := ""
		if r.Template {
			kind = " (fill in the places in braces)"
		}
		a.printf("%s %s%s%s\n", r.Server, visible(r.URI), kind, because(line(or(r.Description, r.Name), shownLine)))
	}
	if found == 0 && !a.json {
		a.note("no resource is offered; `stave servers` says how it stands with each server")
	}
	return nil
}

func (a *app) readResource(ctx context.Context, h *mcp.Hub, args []string) error {
	if err := known(h, args); err != nil {
		return err
	}
	parts, err := h.ReadResource(ctx, args[0], args[1])
	if err != nil {
		return badInput("%w", err)
	}
	for _, p := range parts {
		switch {
		case a.json:
			if err := a.printJSON(p); err != nil {
				return err
			}
		case len(p.Bytes) > 0 && a.outTTY:
			return badInput("%s is not text but %d bytes of %s, nothing for a terminal; send it into a file", p.URI, len(p.Bytes), or(p.MIMEType, "something"))
		case len(p.Bytes) > 0:
			if _, err := a.out.Write(p.Bytes); err != nil {
				return fmt.Errorf("writing a resource: %w", err)
			}
		case a.outTTY:
			a.printf("%s\n", safe(p.Text))
		default:
			a.printf("%s", p.Text) // as it is, for the program that reads it
		}
	}
	return nil
}

func (a *app) signInCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "sign-in SERVER",
		Short: "Sign in to a server that asks for it, in your browser",
		Long: `Shows the page where you sign in, opens it in a browser where there is one, and waits for you to come back.
What that gives is kept in the data directory, in a file only you can read, and renewed when it runs out.
BROWSER names the program that opens pages.`,
		Args: exactly("SERVER"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withServers(signInPatience, func(ctx context.Context, h *mcp.Hub) error { return a.signIn(ctx, h, args[0]) })
		},
	}
}

func (a *app) signIn(ctx context.Context, h *mcp.Hub, name string) error {
	s, err := serverState(h, name)
	if err != nil {
		return err
	}
	if s.Review != nil {
		return badInput("%s is not approved as it is now; `%s` comes first", name, a.command("servers approve %s", name))
	}
	if err := h.SignIn(ctx, name); err != nil {
		return badInput("%w", err)
	}
	a.note("you are signed in to %s; `%s` lets models have its tools", name, a.command("servers approve %s", name))
	return nil
}

// showPage shows a person where to sign in. The page's address is one argument of
// a program, never part of a command line.
func (a *app) showPage(_ context.Context, server, page string) error {
	a.note("to sign in to %s, open this page:\n  %s", server, visible(page))
	browser := a.getenv("BROWSER")
	if browser == "" && a.attended {
		browser = map[string]string{"darwin": "open", "linux": "xdg-open"}[runtime.GOOS]
	}
	if browser == "" {
		return nil
	}
	cmd := exec.Command(browser, page)
	if cmd.Start() == nil { // else the person has the address
		go func() { _ = cmd.Wait() }() // how a browser ends is its own business
	}
	return nil
}
