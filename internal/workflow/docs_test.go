package workflow

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDocs shows that the page about workflows names every field, every name a
// rule may use, what rules may answer, and every limit of a field.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "workflows.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	var names []string
	for _, fields := range [][]string{definitionFields, stageFields, retryFields, choiceFields, budgetFields} {
		names = append(names, fields...)
	}
	for _, name := range resultNames {
		names = append(names, "result."+name)
	}
	for _, name := range contextNames {
		names = append(names, "ctx."+name)
	}
	var s Stage
	for _, verdict := range slices.Concat(s.gateScope().verdicts, s.assertScope().verdicts) {
		names = append(names, `"`+verdict+`"`)
	}
	names = append(names, Sequential, Parallel, BackoffNone, BackoffFixed, BackoffExponential, AllTools, none)
	for _, name := range names {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the page does not tell of %s", name)
		}
	}
	for phrase, limit := range map[string]any{
		"has at most %v bytes": MaxFile, "a list, at most %v": MaxStages, "attempt may make, 1 to %v": MaxTurnCap,
		"enter the stage, 1 to %v": MaxVisitCap, "left out, at most %v": MaxAttempts, "rule over `ctx`; at most %v": MaxInputs,
		"that holds is taken; at most %v": MaxChoices, "`maxAttempts` (%v if left out": defaultAttempts, "at most %.0fh": MaxDelay.Hours(),
	} {
		if want := fmt.Sprintf(phrase, limit); !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}
