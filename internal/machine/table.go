// Package machine is the kernel: a lifecycle is a table of boxes (states) and
// rows (arrows), and validation, replay, drawing and tests are derived from it.
package machine

import (
	"reflect"
	"strings"
	"unicode"
)

// State names a box.
type State string

// None is the state of a machine that has not been born.
const None State = ""

// Command asks a machine to move. Its type is its name.
type Command any

// Event is what a machine records when it moves. Its package and type are the
// rune kind: turn.ToolCallsReceived is turn.tool_calls_received.
type Event any

// Lost tells a machine that the process died while its job ran.
type Lost struct{}

// Late tells a machine that its job or question outlived its limit.
type Late struct{}

// Mode says who moves a box on.
type Mode string

// Modes.
const (
	ModeRest  Mode = "rest"  // whoever has a command
	ModeWork  Mode = "work"  // a job
	ModeAsk   Mode = "ask"   // a person
	ModeAwait Mode = "await" // children, or a wire
	ModeEnd   Mode = "end"   // nobody
)

// Row is one arrow. A command may have several rows out of a box; the events
// that Decide returns choose among them.
type Row struct {
	Command reflect.Type
	To      State
	// Events are the runes the arrow records: the first makes the move, any
	// others are recorded in the box it leads to.
	Events []reflect.Type
	Person bool // a person may send the command
	Past   bool // no longer taken, still replayable
}

// Box is one state with the rows that leave it.
type Box struct {
	State State
	Mode  Mode
	Needs reflect.Type // the job of a work box, the question of an ask box
	Note  string
	Rows  []Row
}

// Born holds the rows by which a machine comes into being.
func Born() Box { return Box{State: None, Mode: ModeRest} }

// Rest is a box that waits for whoever has a command.
func Rest(s State, note string) Box { return Box{State: s, Mode: ModeRest, Note: note} }

// Work is a box that a job moves on.
func Work(s State, job any, note string) Box {
	return Box{State: s, Mode: ModeWork, Needs: reflect.TypeOf(job), Note: note}
}

// Ask is a box that a person moves on.
func Ask(s State, question any, note string) Box {
	return Box{State: s, Mode: ModeAsk, Needs: reflect.TypeOf(question), Note: note}
}

// Await is a box that other machines move on.
func Await(s State, note string) Box { return Box{State: s, Mode: ModeAwait, Note: note} }

// End is a box that nothing leaves.
func End(s State, note string) Box { return Box{State: s, Mode: ModeEnd, Note: note} }

// On adds an arrow that jobs and wires follow.
func (b Box) On(c Command, to State, e Event, also ...Event) Box {
	return b.row(Row{To: to}, c, append([]Event{e}, also...))
}

// May adds an arrow that a person may take: a button, an API verb, a CLI command.
func (b Box) May(c Command, to State, e Event, also ...Event) Box {
	return b.row(Row{To: to, Person: true}, c, append([]Event{e}, also...))
}

// Was adds an arrow that is no longer taken but is still found in old logs.
func (b Box) Was(c Command, to State, e Event, also ...Event) Box {
	return b.row(Row{To: to, Past: true}, c, append([]Event{e}, also...))
}

func (b Box) row(r Row, c Command, events []Event) Box {
	r.Command = reflect.TypeOf(c)
	for _, e := range events {
		r.Events = append(r.Events, reflect.TypeOf(e))
	}
	b.Rows = append(b.Rows[:len(b.Rows):len(b.Rows)], r)
	return b
}

// Kind returns the rune kind of an event type.
func Kind(e Event) string { return kindOf(reflect.TypeOf(e)) }

// Verb returns the name of a command, job or question as people write it.
func Verb(c any) string { return snake(reflect.TypeOf(c).Name()) }

// Room returns the machine a command or event belongs to.
func Room(c any) string { return roomOf(reflect.TypeOf(c)) }

func kindOf(t reflect.Type) string { return roomOf(t) + "." + snake(t.Name()) }

func roomOf(t reflect.Type) string {
	pkg := t.PkgPath()
	return pkg[strings.LastIndexByte(pkg, '/')+1:]
}

func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
