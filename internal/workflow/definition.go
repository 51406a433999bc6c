// Package workflow holds workflow definitions: it reads them, checks everything
// that can be checked before a run, and evaluates their rules and templates. It
// runs nothing.
package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"stave/internal/model"
)

// What a definition may have at most.
const (
	MaxFile       = 1 << 20   // bytes of a file
	MaxStages     = 64        // in one workflow
	MaxBody       = 64 << 10  // bytes of a stage's body
	MaxPrompt     = 1 << 20   // bytes of a body with its values
	MaxSchema     = 64 << 10  // bytes of a completionSchema
	MaxPayload    = 256 << 10 // bytes of a completion payload
	MaxExpression = 4 << 10   // bytes of a rule
	MaxInputs     = 32        // names in a stage's context
	MaxChoices    = 16        // of a stage's next
	MaxTurnCap    = 1000
	MaxVisitCap   = 100
	MaxAttempts   = 10
	MaxDelay      = time.Hour
)

// AllTools as the only entry of AllowedTools lets a stage use every tool of its
// session. It has to be written, so that nobody gets it by leaving something out.
const AllTools = "all"

// How the stages of a Choice run.
const (
	Sequential = "sequential"
	Parallel   = "parallel"
)

// How long a stage waits before it is tried again.
const (
	BackoffNone        = "none"
	BackoffFixed       = "fixed"
	BackoffExponential = "exponential"
)

const defaultAttempts = 2

// Definition is one workflow: its stages and the order the rules allow.
type Definition struct {
	ID          string       `json:"id"`
	Name        string       `json:"name"`
	Description string       `json:"description,omitzero"`
	First       string       `json:"first"` // the stage a run begins with
	Model       string       `json:"model,omitzero"`
	Budget      model.Amount `json:"budget,omitzero"` // of a whole run
	Stages      []Stage      `json:"stages"`          // in declared order

	// Hash names this content; a resumed run compares it. Settle computes it.
	Hash string `json:"hash,omitzero"`

	File  string         `json:"-"`
	lines map[string]int // where each field was read, by its place
}

// Stage is one bounded piece of work on a fresh transcript.
type Stage struct {
	ID               string          `json:"id"`
	Name             string          `json:"name"`
	Body             string          `json:"body"`         // the prompt, with {{ctx.name}} placeholders
	AllowedTools     []string        `json:"allowedTools"` // nil is an error, empty is none
	CompletionTool   string          `json:"completionTool"`
	CompletionSchema json.RawMessage `json:"completionSchema"`
	TurnCap          int             `json:"turnCap"`           // model requests of one attempt
	VisitCap         int             `json:"visitCap,omitzero"` // times one run may enter the stage; 0 is any
	RetryPolicy      RetryPolicy     `json:"retryPolicy"`
	Model            string          `json:"model,omitzero"`
	Budget           model.Amount    `json:"budget,omitzero"`  // of one attempt
	Context          []Input         `json:"context,omitzero"` // names the body and the rules may use
	Gate             string          `json:"gate,omitzero"`    // rule over ctx
	Assert           string          `json:"assert,omitzero"`  // rule over result and ctx
	Next             []Choice        `json:"next,omitzero"`    // the first that holds; none ends the run
}

// RetryPolicy says how often a stage is tried and how long it waits in between.
type RetryPolicy struct {
	MaxAttempts int    `json:"maxAttempts"`
	Backoff     string `json:"backoff"`
	DelayMs     int64  `json:"delayMs,omitzero"` // of the first wait
}

// Input is a name that Setup adds to the context.
type Input struct {
	Name  string `json:"name"`
	Value string `json:"value"` // rule over ctx
}

// Choice is one answer of Next. Without stages it ends the run. The next rules of
// parallel stages, and of all but the last of sequential ones, are not asked:
// the choice already says what follows them.
type Choice struct {
	When      string   `json:"when,omitzero"` // rule over result; empty always holds
	Stages    []string `json:"stages"`
	Execution string   `json:"execution"`
	Join      string   `json:"join,omitzero"` // runs once after all parallel stages
}

// Delay is the wait before an attempt; the first has none.
func (p RetryPolicy) Delay(attempt int) time.Duration {
	wait := time.Duration(p.DelayMs) * time.Millisecond
	switch {
	case attempt <= 1 || p.Backoff == BackoffNone:
		return 0
	case p.Backoff == BackoffExponential:
		for range min(attempt, MaxAttempts) - 2 {
			wait = min(2*wait, MaxDelay)
		}
	}
	return min(wait, MaxDelay)
}

// Stage finds a stage by its id.
func (d Definition) Stage(id string) (Stage, bool) {
	i := d.index(id)
	if i < 0 {
		return Stage{}, false
	}
	return d.Stages[i], true
}

func (d Definition) index(id string) int {
	return slices.IndexFunc(d.Stages, func(s Stage) bool { return s.ID == id })
}

// Visit refuses to enter a stage once more than its visitCap allows; before is
// how often this run has entered it.
func (s Stage) Visit(before int) error {
	if s.VisitCap > 0 && before >= s.VisitCap {
		return fmt.Errorf("stage %s has run %d times, which is its visitCap", s.ID, before)
	}
	return nil
}

// Allows reports whether a tool is in the stage's envelope.
func (s Stage) Allows(tool string) bool {
	return tool == s.CompletionTool || slices.Contains(s.AllowedTools, tool) || slices.Equal(s.AllowedTools, []string{AllTools})
}

// Settle writes out what a definition may leave out and computes its hash. Load
// has done it; a literal has to be settled once.
func Settle(d Definition) Definition {
	d.Stages = slices.Clone(d.Stages)
	if d.Name == "" {
		d.Name = d.ID
	}
	if d.First == "" && len(d.Stages) > 0 {
		d.First = d.Stages[0].ID
	}
	for i := range d.Stages {
		d.Stages[i].settle()
	}
	d.Hash = ""
	if b, err := json.Marshal(d); err == nil {
		v := jsontext.Value(b)
		if v.Canonicalize() == nil {
			sum := sha256.Sum256(v)
			d.Hash = hex.EncodeToString(sum[:])
		}
	}
	return d
}

func (s *Stage) settle() {
	if s.Name == "" {
		s.Name = s.ID
	}
	if s.RetryPolicy.MaxAttempts == 0 {
		s.RetryPolicy.MaxAttempts = defaultAttempts
	}
	if s.RetryPolicy.Backoff == "" {
		s.RetryPolicy.Backoff = BackoffNone
	}
	s.Next = slices.Clone(s.Next)
	for i := range s.Next {
		c := &s.Next[i]
		if c.Execution == "" && len(c.Stages) <= 1 {
			c.Execution = Sequential
		}
		if c.Stages == nil {
			c.Stages = []string{}
		}
	}
}

// CheckID says whether a text can name a workflow, a stage or a context value.
func CheckID(id string) error {
	if !isName(id, "_") {
		return fmt.Errorf("%.80q is not a name; write a letter and then letters, digits or _, at most 64", id)
	}
	return nil
}

// The shapes of names are looked for by hand, because regular expressions are
// compiled whenever the program starts, also where it reads no workflow.

// isName reports whether a text is a letter and then at most 63 letters, digits or
// other characters given.
func isName(text, others string) bool {
	return len(text) > 0 && len(text) <= 64 && !digit(text[0]) && consists(text[:1], "") && consists(text, others)
}

// isServerTool reports whether a text is the name of an MCP server's tool:
// server__tool.
func isServerTool(text string) bool {
	server, tool, ok := strings.Cut(text, "__")
	if !ok || server == "" || !consists(server[:1], "") || !consists(server, "_-") {
		return false
	}
	return len(server)-strings.Count(server, "_") <= 32 && tool != "" && consists(tool, "_-")
}

// consists reports whether a text has letters, digits and the others only.
func consists(text, others string) bool {
	for i := range len(text) {
		c := text[i]
		if !digit(c) && (c|0x20 < 'a' || c|0x20 > 'z') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
