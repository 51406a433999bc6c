package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stave/internal/workflow"
)

var workflowExample = regexp.MustCompile("(?ms)^```(yaml|markdown)\n(.*?)^```$")

// TestDocsWorkflows shows that the page about workflows tells the truth: its
// examples pass every check, its commands are some, and every bundled workflow is
// there with its stages.
func TestDocsWorkflows(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "workflows.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	var kinds []string
	for _, m := range workflowExample.FindAllStringSubmatch(text, -1) {
		kinds = append(kinds, m[1])
		file := map[string]string{"yaml": "example.yaml", "markdown": "example.md"}[m[1]]
		if _, err := workflow.LoadFor(file, []byte(m[2]), toolNames()); err != nil {
			t.Errorf("%v", err)
		}
	}
	if !slices.Equal(kinds, []string{"yaml", "markdown"}) {
		t.Errorf("the examples are %v", kinds)
	}
	lines := commandLine.FindAllStringSubmatch(text, -1)
	for _, m := range lines {
		if err := understood(t, shellWord.FindAllString(m[1], -1)); err != nil {
			t.Errorf("stave %s: %v", m[1], err)
		}
	}
	a, _, _ := testApp(t)
	for _, c := range a.workflowCmd().Commands() {
		if !slices.ContainsFunc(lines, func(m []string) bool { return strings.HasPrefix(m[1], "workflow "+c.Name()) }) {
			t.Errorf("the page does not show workflow %s", c.Name())
		}
		if c.Short == "" || !strings.Contains(c.Example, "stave workflow "+c.Name()) {
			t.Errorf("workflow %s has no description or no example of itself", c.Name())
		}
	}
	for _, d := range workflow.Bundled() {
		i := strings.Index(text, "| `"+d.ID+"` |")
		if i < 0 {
			t.Errorf("the page does not tell of %s", d.ID)
			continue
		}
		row, _, _ := strings.Cut(text[i:], "\n")
		for _, s := range d.Stages {
			if !strings.Contains(row, s.ID) {
				t.Errorf("the page does not name the stage %s of %s", s.ID, d.ID)
			}
		}
	}
}
