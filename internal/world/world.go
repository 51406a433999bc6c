// Package world holds all machines of one log and the wires between them: it
// turns a message into one atomic batch of runes, and runes into the present.
package world

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/machine/workflow"
	"stave/internal/policy"
)

// MaxCascade bounds the letters one message may set off.
const MaxCascade = 10_000

// What a message can run into beyond a refusal.
var (
	ErrStale = errors.New("that job is no longer due") // fencing
	ErrGone  = errors.New("it has ended")
)

// room is what the world needs of a machine's definition.
type room interface {
	New() machine.Instance
	NewEvent(kind string) any
	Restore(machine.State, func(any) error) (machine.Instance, error)
	Spec() machine.Spec
	Check() error
}

// rooms are the machines that live in a log.
var rooms = map[string]room{
	"session": session.Machine, "agent": agent.Machine, "turn": turn.Machine, "tool": tool.Machine,
	"workflow": workflow.Machine, "stage": stage.Machine,
}

// RoomOrder is the order in which people are shown the machines.
var RoomOrder = []string{"session", "agent", "turn", "tool", "workflow", "stage"}

// Specs returns every table, in RoomOrder.
func Specs() []machine.Spec {
	specs := make([]machine.Spec, len(RoomOrder))
	for i, name := range RoomOrder {
		specs[i] = rooms[name].Spec()
	}
	return specs
}

// node is an instance with what the log says about its present state.
type node struct {
	machine.Instance
	since int64  // ts_ms of the rune that entered the state
	seq   uint64 // of that rune
	// books are what a session or an agent may use and has used, with all the
	// agents under it; nil for nothing. They are never changed, only replaced.
	books *account
	begun int64 // ts_ms of a turn's first rune
}

func (n node) account() account {
	if n.books == nil {
		return account{}
	}
	return *n.books
}

// World is the present of one log. It changes only by runes.
type World struct {
	log  string
	seq  uint64
	live map[Path]node
	gone map[Path]bool // ended in this overlay
	base *World        // what this overlay changes; nil for the present itself
	last recent        // the newest runes, for refusals
	// progress says that a call or turn ended since the last recovery.
	progress bool
	// modes counts the instances by who moves them on, so that a listing need not
	// look at all of them.
	modes tally
	// The gate's rules, read once: thawed is what frozen says.
	frozen []byte
	thawed policy.Rules
}

// tally counts the instances that wait for a person, and those that work.
type tally struct{ asking, working int }

const lastKept = 5

// recent holds the newest runes, oldest first.
type recent [lastKept]noted

type noted struct {
	Seq  uint64 `json:"seq"`
	Kind string `json:"kind"`
}

func (r *recent) note(seq uint64, kind string) {
	copy(r[:], r[1:])
	r[lastKept-1] = noted{seq, kind}
}

func (r *recent) list() []string {
	var lines []string
	for _, n := range r {
		if n.Seq > 0 {
			lines = append(lines, fmt.Sprintf("%d %s", n.Seq, n.Kind))
		}
	}
	return lines
}

// New returns the world before the first rune.
func New(log string) *World { return &World{log: log, live: map[Path]node{}} }

// Log returns the name of the log.
func (w *World) Log() string { return w.log }

// Seq returns the last rune that has been applied.
func (w *World) Seq() uint64 { return w.seq }

// Message is a command on its way to a machine.
type Message struct {
	Log     string
	Path    Path
	Command machine.Command
	By      string
	Job     string // fencing id, for messages from jobs
	IfSeq   uint64 // refuse unless the log ends here; 0 = do not care
	AtMs    int64
	// Also is what the same sender says in the same batch, to others.
	Also []Aside
}

// Aside is one more command of a message.
type Aside struct {
	Path    Path
	Command machine.Command
}

// overlay returns a world that sees this one and keeps its own changes.
func (w *World) overlay() *World {
	return &World{log: w.log, seq: w.seq, live: map[Path]node{}, gone: map[Path]bool{}, base: w, last: w.last, progress: w.progress, modes: w.modes}
}

// Commit makes a written change the present.
func (w *World) Commit(c *Change) {
	maps.Copy(w.live, c.next.live)
	for p := range c.next.gone {
		delete(w.live, p)
	}
	w.seq, w.last, w.progress, w.modes = c.next.seq, c.next.last, c.next.progress, c.next.modes
}

func (w *World) find(p Path) (node, bool) {
	if n, ok := w.live[p]; ok {
		return n, true
	}
	if w.base == nil || w.gone[p] {
		return node{}, false
	}
	return w.base.find(p)
}

// at returns the node at a path, a fresh one where none lives.
func (w *World) at(p Path) (node, error) {
	if n, ok := w.find(p); ok {
		return n, nil
	}
	r, ok := rooms[p.machine()]
	if !ok {
		return node{}, fmt.Errorf("there is no machine at %q", p)
	}
	return node{Instance: r.New()}, nil
}

// paths returns the live instances of one machine under a parent, in order.
func (w *World) paths(machineName string, under Path) []Path {
	var found []Path
	for at := w; at != nil; at = at.base {
		for p := range at.live {
			if p.machine() == machineName && (under == "" || p.under(under)) && w.holds(p, at) {
				found = append(found, p)
			}
		}
	}
	slices.Sort(found)
	return found
}

// holds reports whether what lives at a path is what a layer says: nothing above
// it has changed or ended it.
func (w *World) holds(p Path, layer *World) bool {
	for at := w; at != layer; at = at.base {
		if _, changed := at.live[p]; changed || at.gone[p] {
			return false
		}
	}
	return true
}

// data returns what the instance at a path remembers, the zero value if it is
// not there.
func data[D any](w *World, p Path) D {
	var d D
	if n, ok := w.find(p); ok {
		d = machine.DataOf[D](n.Instance)
	}
	return d
}

// Session returns what the session remembers.
func (w *World) Session() session.Data { return data[session.Data](w, SessionPath) }

// Since returns when the instance at a path came into its state, in milliseconds.
func (w *World) Since(p Path) int64 {
	n, _ := w.find(p)
	return n.since
}

// State returns the state of the instance at a path, None if it is not there.
func (w *World) State(p Path) machine.State {
	if n, ok := w.find(p); ok {
		return n.State()
	}
	return machine.None
}
