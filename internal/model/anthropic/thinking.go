package anthropic

import (
	"strconv"
	"strings"

	"stave/internal/model"
	"stave/internal/model/codec"
)

// thinkingMode says how a model is told to think.
type thinkingMode int

const (
	noThinking       thinkingMode = iota // it cannot
	budgetThinking                       // with a number of tokens
	adaptiveThinking                     // as much as it finds right, when asked to
	alwaysThinking                       // the same, and it does so unasked
)

const minBudget = 1024 // the API's

// budgets are the tokens of thinking for an effort, where the API wants a number.
var budgets = map[string]int64{"low": 2048, "medium": 8192, "high": 24_576}

// modeOf knows the mode from the version in the model's name: 3.7 began to
// think, 4.6 to choose how much, 5 to do so by default. A name without a
// version is taken for a new one.
func modeOf(model string) thinkingMode {
	_, rest, ok := strings.Cut(model, "claude-")
	if !ok {
		return adaptiveThinking
	}
	var version []int
	for word := range strings.FieldsFuncSeq(rest, func(r rune) bool { return r == '-' || r == '.' || r == '@' }) {
		n, err := strconv.Atoi(word)
		switch {
		case err == nil && len(word) <= 2 && len(version) < 2:
			version = append(version, n)
		case len(version) == 1:
			version = append(version, 0) // 4 in claude-opus-4-20250514 is 4.0
		}
	}
	if len(version) == 0 {
		return adaptiveThinking
	}
	version = append(version, 0)
	switch v := version[0]*100 + version[1]; {
	case v < 307:
		return noThinking
	case v < 406:
		return budgetThinking
	case v < 500:
		return adaptiveThinking
	}
	return alwaysThinking
}

// appendThinking asks for thoughts in readable form, with a budget where the
// model wants one.
func (p *Provider) appendThinking(b []byte, r model.Request, turns []turn) []byte {
	mode := modeOf(r.Model)
	if r.Effort == "" && mode != alwaysThinking {
		return b
	}
	switch mode {
	case noThinking:
	case budgetThinking:
		budget, known := budgets[r.Effort]
		if !known {
			budget = budgets["high"]
		}
		if budget = min(budget, p.maxTokens(r)/2); budget >= minBudget && mayThink(turns) {
			b = codec.IntField(append(codec.Name(b, "thinking"), `{"type":"enabled"`...), "budget_tokens", budget)
			b = append(b, '}')
		}
	case adaptiveThinking, alwaysThinking:
		b = append(codec.Name(b, "thinking"), `{"type":"adaptive","display":"summarized"}`...)
	}
	return b
}

// mayThink is false in the middle of a round of tools that began without a
// thought: models with a budget refuse to begin thinking there.
func mayThink(turns []turn) bool {
	n := len(turns)
	if n < 2 || turns[n-1].assistant || turns[n-1].opens != resultBlock {
		return true
	}
	return turns[n-2].opens == thinkingBlock
}
