package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stave/internal/config"
	"stave/internal/mcp"
	"stave/internal/model/catalog"
	"stave/internal/policy"
)

var (
	commandLine = regexp.MustCompile(`(?m)^    stave (.+)$`)
	fenced      = regexp.MustCompile("(?s)```(yaml|json)\n(.*?)```")
	shellWord   = regexp.MustCompile(`"[^"]*"|\S+`)
)

// TestDocs shows that the pages about settings tell the truth: every command in
// them is one, with flags and arguments it takes, and every file can be read.
func TestDocs(t *testing.T) {
	for page, load := range map[string]func(string, []byte) error{
		"configuration.md": func(n string, b []byte) error { _, err := config.Load(n, b); return err },
		"policy.md":        func(n string, b []byte) error { _, err := policy.Load(n, b); return err },
		"servers.md":       func(n string, b []byte) error { _, err := mcp.Load(n, b); return err },
		"budgets.md":       func(n string, b []byte) error { _, err := catalog.Load(n, b); return err },
		"sandbox.md":       nil,
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		lines := commandLine.FindAllStringSubmatch(string(text), -1)
		if len(lines) == 0 {
			t.Errorf("%s shows no command", page)
		}
		for _, m := range lines {
			if err := understood(t, shellWord.FindAllString(m[1], -1)); err != nil {
				t.Errorf("%s: stave %s: %v", page, m[1], err)
			}
		}
		blocks := fenced.FindAllStringSubmatch(string(text), -1)
		if (len(blocks) > 0) != (load != nil) {
			t.Errorf("%s has %d files in it", page, len(blocks))
		}
		for _, m := range blocks {
			if err := load(page, []byte(m[2])); err != nil {
				t.Errorf("%v", err)
			}
		}
	}
}

// understood leads a command line as far as it goes without running it.
func understood(t *testing.T, words []string) error {
	t.Helper()
	a, _, _ := testApp(t)
	cmd, rest, err := a.root().Find(words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.Name() == "stave" {
		return badInput("it names no command")
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestDocsSettings shows that the page about budgets names every limit there is.
func TestDocsSettings(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "budgets.md"))
	if err != nil {
		t.Fatal(err)
	}
	a, _, _ := testApp(t)
	for _, name := range []string{"usd", "tokens", "model-calls", "tool-calls", "agents", "wall"} {
		if a.askCmd().Flags().Lookup("max-"+name) == nil || a.budgetCmd().Flags().Lookup(name) == nil {
			t.Errorf("there is no limit on %s", name)
		}
		if !strings.Contains(string(text), "`--max-"+name+"`") || !strings.Contains(string(text), "`"+strings.ReplaceAll(name, "-", "_")+"`") {
			t.Errorf("the page about budgets does not tell of %s", name)
		}
	}
}
