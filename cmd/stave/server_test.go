package main

import (
	"context"
	"os"

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
	type args struct {
		City string `json:"city"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "forecast", Description: os.Args[1]}, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "rain in " + a.City}}}, nil, nil
	})
	if s.Run(context.Background(), &mcp.StdioTransport{}) != nil {
		os.Exit(1)
	}
}
