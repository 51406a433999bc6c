// Package toolbox holds the Tool port and the bundled tools, one .go and one .md each.
package toolbox

import (
	"context"
	"encoding/json"
	"io"
)

// Safety says what may be done when a call's outcome was lost in a crash.
type Safety string

// Safety classes.
const (
	ReadOnly   Safety = "read_only"   // done again
	Idempotent Safety = "idempotent"  // done again; the tool itself compares before and after
	SideEffect Safety = "side_effect" // never done again by itself
	Question   Safety = "question"    // does nothing but ask a person; it never runs
)

// Tool is one thing a model can call.
type Tool struct {
	Name        string
	Description string          // the tool's .md, read by the model
	Schema      json.RawMessage // JSON Schema of the arguments
	Safety      Safety
	Parallel    bool // may run beside other parallel calls
	// Traits say what a call touches, for the gate: "private", "untrusted",
	// "external", "destructive".
	Traits []string
	// Touches returns further traits of one call, which only its arguments tell:
	// "protected". It is asked for the arguments that will run; nil for none.
	Touches func(args json.RawMessage) []string
	// Workspace says that it may change files of the workspace.
	Workspace bool
	// Waits says that it waits for something, so asking again is no loop.
	Waits bool
	// Check says what is wrong with arguments, which are canonical: see Canonical.
	Check func(args json.RawMessage) error
	// Run does the work, with arguments that Check takes. An error is an ordinary
	// failure the model is told about.
	Run func(ctx context.Context, env Env, args json.RawMessage) (Output, error)
}

// Output is what a call gives back.
type Output struct {
	Text string         // for the model; bounded, valid UTF-8
	Blob string         // sha256 of the whole output where Text was cut
	Meta map[string]any // for people and programs: exit code, hashes, counts
	// TimedOut says the tool ended the work at its own time limit.
	TimedOut bool
	// Unknown says the tool cannot tell whether its effect happened.
	Unknown bool
}

// Env is what a running call may touch.
type Env interface {
	// Dir is the absolute path of the workspace.
	Dir() string
	// Attempt is 1 for the first run of this call, higher after a crash.
	Attempt() int
	// Intent is what an earlier attempt declared with Declare, nil if nothing.
	Intent() json.RawMessage
	// Declare makes intent durable before the effect it describes begins.
	Declare(ctx context.Context, intent any) error
	// Progress streams output for people; stream is "stdout" or "stderr".
	Progress(stream, chunk string)
	// TempFile opens a private file that is removed when the call ends.
	TempFile() (TempFile, error)
	// Plain says that a rule allowed the call as a plain shell command: it must
	// run as argv, without a shell.
	Plain() bool
	// Again says that this attempt was begun by a process that died and may still
	// be running. What it printed is passed to Progress from its beginning; what
	// people have seen of that is not shown again.
	Again() bool
	// CallID names the call: the same however often it is taken up again.
	CallID() string
	// Agents lets the call start other agents and speak to them.
	Agents() Agents
	// PutBlob keeps a value and returns its sha256.
	PutBlob(ctx context.Context, r io.Reader) (string, error)
}

// TempFile is a private scratch file.
type TempFile interface {
	io.ReadWriteSeeker
	io.Closer
}
