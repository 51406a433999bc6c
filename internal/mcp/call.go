package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stave/internal/toolbox"
)

// rejectedCode is what the library answers in a server's place when it could not
// deliver a call.
const rejectedCode = -32005

// maxProgress is how often one call may report.
const maxProgress = 100

var errNeedsInput = errors.New("the server wants to ask something back, which is not supported")

// tools makes tools of the definitions a person approved.
func (s *server) tools() []toolbox.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []toolbox.Tool
	for _, d := range s.lists.tools {
		if s.toolState(d).Status == Available {
			all = append(all, s.tool(d))
		}
	}
	slices.SortFunc(all, func(a, b toolbox.Tool) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (s *server) tool(d definition) toolbox.Tool {
	safety := toolbox.SideEffect
	if s.config.ReadOnly {
		safety = toolbox.ReadOnly
	}
	return toolbox.Tool{
		Name: d.name, Description: d.doc, Schema: d.schema, Safety: safety, Parallel: s.config.ReadOnly,
		Traits: s.traits(d),
		Check: func(args json.RawMessage) error {
			canonical, err := toolbox.Canonical(string(args))
			if err != nil {
				return err
			}
			return d.shape.check(canonical)
		},
		Run: func(ctx context.Context, env toolbox.Env, args json.RawMessage) (toolbox.Output, error) {
			return s.call(ctx, env, d, args)
		},
	}
}

// traits are those a person configured, or the worst. The server's own hints can
// only add.
func (s *server) traits(d definition) []string {
	all := []string{"private", "untrusted", "external"}
	if s.config.Traits != nil {
		all = slices.Clone(s.config.Traits)
	}
	if !slices.Contains(all, "untrusted") {
		all = append(all, "untrusted")
	}
	if d.harmful && !slices.Contains(all, "destructive") {
		all = append(all, "destructive")
	}
	return all
}

// call sends one approved call and says what is known of its outcome. It is
// never sent twice.
func (s *server) call(ctx context.Context, env toolbox.Env, d definition, args json.RawMessage) (toolbox.Output, error) {
	canonical, err := toolbox.Canonical(string(args))
	if err != nil {
		return toolbox.Output{}, err
	}
	live, err := s.live()
	if err != nil {
		s.wake()
		return toolbox.Output{}, err
	}
	if err := s.stillApproved(d); err != nil {
		return toolbox.Output{}, err
	}
	limit := s.timeLimit()
	bound, stop := live.bound(ctx, limit)
	defer stop()
	token, forget := live.onProgress(env)
	defer forget()
	params := &sdk.CallToolParams{Name: d.tool, Arguments: canonical}
	params.SetProgressToken(token)
	var f fate
	result, err := live.wire.CallTool(withFate(bound, &f), params)
	if ctx.Err() != nil {
		return toolbox.Output{}, ctx.Err()
	}
	if err != nil {
		return s.failed(bound, live, &f, limit, err)
	}
	return live.output(ctx, env, result)
}

// wake asks for a new attempt to connect, without ending one that lives.
func (s *server) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// stillApproved refuses a call whose tool is not what it was when it was offered.
func (s *server) stillApproved(d definition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, now := range s.lists.tools {
		if now.tool != d.tool || now.refusal != "" {
			continue
		}
		if now.digest == d.digest && s.pin.Tools[d.tool].Digest == d.digest {
			return nil
		}
		return fmt.Errorf("%s changed after it was approved; a person must look at it first", d.name)
	}
	return fmt.Errorf("MCP server %s does not have the tool %s any more", s.name, d.tool)
}

// onProgress passes reports of the server on to people.
func (s *session) onProgress(env toolbox.Env) (token string, forget func()) {
	token = strconv.FormatUint(s.tokens.Add(1), 10)
	count := 0
	s.progress.Store(token, func(text string) {
		if count++; count <= maxProgress {
			env.Progress("stdout", s.redact.text(text))
		}
	})
	return token, func() { s.progress.Delete(token) }
}

// lastWords is why a connection broke. A call hears of it before the session has
// ended and knows what the server said last, so there is a moment to wait.
func (s *session) lastWords(err error) string {
	patience := 4 * s.limits.Grace // what ending a server takes at most
	if s.hard == nil && s.ctx.Err() == nil && s.gate.broken() == nil {
		patience = 0 // over the network one lost answer is not the end
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.lost.Error()
	case <-timer.C:
		return s.short(err)
	}
}

// failed tells apart what the server said, what never reached it, and what
// nobody knows.
func (s *server) failed(ctx context.Context, live *session, f *fate, limit time.Duration, err error) (toolbox.Output, error) {
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code != rejectedCode && live.gate.broken() == nil {
		return toolbox.Output{}, fmt.Errorf("MCP server %s answered with error %d: %s", s.name, answer.Code, live.shorten(answer.Message))
	}
	if errors.Is(err, ErrSignIn) {
		s.set(NeedsSignIn, ErrSignIn.Error(), nil)
		return toolbox.Output{}, fmt.Errorf("MCP server %s refused the call: %w", s.name, ErrSignIn)
	}
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	why := fmt.Sprintf("no answer within %v", limit)
	if !late {
		why = live.lastWords(err)
	}
	switch {
	case !f.sent.Load():
		return toolbox.Output{}, fmt.Errorf("the call did not reach MCP server %s: %s", s.name, why)
	case f.refused():
		return toolbox.Output{}, fmt.Errorf("MCP server %s refused the call with HTTP status %d: %s", s.name, f.status.Load(), why)
	case s.config.ReadOnly && late:
		return toolbox.Output{Text: "MCP server " + s.name + " gave " + why, TimedOut: true}, nil
	case s.config.ReadOnly:
		return toolbox.Output{}, fmt.Errorf("the answer of MCP server %s was lost: %s; the tool only reads, so calling it again does no harm", s.name, why)
	}
	text := fmt.Sprintf("the call was sent to MCP server %s and its answer was lost: %s. It may have been carried out or not; it was not repeated.", s.name, why)
	return toolbox.Output{Text: text, Unknown: true}, nil
}
