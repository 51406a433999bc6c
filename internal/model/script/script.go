// Package script is the scripted model: a Provider that plays the replies of a
// YAML file, for tests and demonstrations without a network or a key.
//
// A script is a list of replies. Which reply is played depends on the request
// alone, never on what this process has played before, so that a conversation
// rebuilt from its log after a crash goes on at the right place:
//
//   - Replies with a `when` pattern come first: the first whose pattern matches
//     the newest user text or tool result is played.
//   - Otherwise the replies without `when` are played in order, one for every
//     assistant message in the request that no `when` accounts for.
//
// The format is described in docs/scripts.md.
package script

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"regexp"
	"time"

	"stave/internal/model"
)

// Limits of a script file.
const (
	MaxBytes   = 1 << 20
	MaxReplies = 10_000 // of one list
	MaxScenes  = 100
	MaxDeltas  = 100_000 // of one reply
	MaxCalls   = 1000    // of one reply; more than a response may have, to test that
	MaxFaults  = 100     // of one reply
	MaxTimes   = 1_000_000
	MaxWait    = 10 * time.Minute
	MaxRetry   = 24 * time.Hour
	MaxDepth   = 64 // of arguments
)

// Script is a parsed script. It holds no state and may be used concurrently.
type Script struct {
	name   string
	scenes []*scene
}

var _ model.Provider = (*Script)(nil)

// scene is a list of replies for the requests it is meant for.
type scene struct {
	title   string
	system  *regexp.Regexp // on the system prompt; nil matches all
	opening *regexp.Regexp // on the first user text; nil matches all
	cues    []*reply       // with a when
	ordered []*reply       // without
}

// reply is one scripted answer.
type reply struct {
	when      *regexp.Regexp
	times     int // 0: not said
	reasoning string
	opaque    string
	deltas    []string
	chunk     int // runes per delta; 0: deltas as written
	calls     []call
	usage     *model.Usage
	stop      model.StopReason
	delay     time.Duration // before the first event
	pace      time.Duration // between events
	faults    []fault       // one per attempt
}

// call is a tool call; without an id it is given one when played.
type call struct {
	id   *string
	tool string
	args string
}

// fault is what goes wrong in one attempt, after some events of the reply.
type fault struct {
	kind  faultKind
	after int
	err   *model.Error // of fails
	text  string       // of panics
}

type faultKind string

const (
	fails   faultKind = "error"   // one error
	ends    faultKind = "end"     // neither Done nor an error: a provider that breaks its contract
	endless faultKind = "endless" // text for ever
	stalls  faultKind = "stall"   // nothing for ever
	panics  faultKind = "panic"
)

// Load reads a script file.
func Load(path string) (*Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open script: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	return Parse(path, data)
}

// Stream plays the reply that the request calls for.
func (s *Script) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(model.Event{}, err)
			return
		}
		reply, number, err := s.choose(r)
		if err != nil {
			yield(model.Event{}, err)
			return
		}
		reply.play(ctx, number, r.Attempt, yield)
	}
}
