package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpServer is a small MCP server on standard input and output. What it says of
// its tool is the first argument, so that a test can change it; every start
// leaves a mark in the file the second one names.
func mcpServer() {
	mark, err := os.OpenFile(os.Args[2], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(1)
	}
	if _, err := mark.WriteString("started\n"); err != nil {
		os.Exit(1)
	}
	mark.Close()
	if weather(os.Args[1]).Run(context.Background(), &mcp.StdioTransport{}) != nil {
		os.Exit(1)
	}
}

// weather has a tool, a prompt and two things to read.
func weather(about string) *mcp.Server {
	type args struct {
		City string `json:"city"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "forecast", Description: about}, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "rain in " + a.City}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "reach", Description: "tries what it should not"}, func(_ context.Context, _ *mcp.CallToolRequest, a reachArgs) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: reach(a)}}}, nil, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "plan", Description: "a day out", Arguments: []*mcp.PromptArgument{
		{Name: "city", Required: true}, {Name: "day", Description: "which one"},
	}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text := "Plan a day in " + r.Params.Arguments["city"] + "\x1b[31m."
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
	})
	for uri, content := range map[string]*mcp.ResourceContents{
		"sky://today": {Text: "clouds\n"}, "sky://photo": {Blob: []byte{0, 1, 2}, MIMEType: "image/x-sky"},
	} {
		content.URI = uri
		s.AddResource(&mcp.Resource{URI: uri, Name: "sky", Description: "how it looks"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
		})
	}
	return s
}

// reachArgs are what a server tries to get at.
type reachArgs struct {
	Read  string   `json:"read"`
	Write []string `json:"write"`
	Dial  string   `json:"dial"` // a URL
}

// reach tries everything and says what came of it.
func reach(a reachArgs) string {
	text, err := os.ReadFile(a.Read)
	said := fmt.Sprintf("read %q", text)
	if err != nil {
		said = "read refused"
	}
	for _, name := range a.Write {
		// Only a file that is there shows it: a private /tmp can be written to.
		if err := os.WriteFile(name, []byte("written"), 0o600); err != nil {
			said += ", write refused"
		} else {
			said += ", write accepted"
		}
	}
	said += ", dial refused"
	if u, err := url.Parse(a.Dial); err == nil {
		if c, err := net.Dial("tcp", u.Host); err == nil {
			c.Close()
			said = strings.TrimSuffix(said, "refused") + "answered"
		}
	}
	return said
}
