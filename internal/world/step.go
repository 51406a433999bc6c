package world

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"stave/internal/machine"
	"stave/internal/runelog"
)

// Change is what a message causes: runes to be written and then committed.
type Change struct {
	Runes []runelog.Rune // drafts: seq is set, the chain adds the rest
	Sync  bool           // must be durable before it is acted upon
	Seal  bool           // the log takes nothing after this
	next  *World         // only what changed

	events []machine.Event // what each rune records
}

// Meta returns what a listing shows once the change is written.
func (c *Change) Meta(createdMs, updatedMs int64) runelog.Meta {
	return c.next.Meta(createdMs, updatedMs)
}

// Touched lists the instances that moved or ended.
func (c *Change) Touched() []Path {
	paths := slices.Collect(maps.Keys(c.next.live))
	return slices.AppendSeq(paths, maps.Keys(c.next.gone))
}

// letter is a command between machines of one log.
type letter struct {
	path  Path
	cmd   machine.Command
	by    string
	cause uint64
}

// wired says that a rune set the letter off, not the message itself.
func (l letter) wired() bool { return l.cause != 0 }

// engineName signs what the runtime does by itself.
const engineName = "engine"

// Step answers a message with the whole batch it causes, and changes nothing:
// the caller writes the runes and then commits.
func (w *World) Step(m Message) (*Change, error) {
	if m.IfSeq != 0 && m.IfSeq != w.seq {
		return nil, fmt.Errorf("the log is at %d, not at %d: %w", w.seq, m.IfSeq, runelog.ErrConflict)
	}
	if m.Job != "" && !w.isDue(m.Path, m.Job) {
		return nil, ErrStale
	}
	c := &Change{next: w.overlay()}
	queue := []letter{{path: m.Path, cmd: sign(m.Command, m.By), by: m.By}}
	for _, also := range m.Also {
		queue = append(queue, letter{path: also.Path, cmd: sign(also.Command, m.By), by: m.By})
	}
	for sent := 0; len(queue) > 0; sent++ {
		if sent > MaxCascade {
			return nil, fmt.Errorf("one message set off more than %d others", MaxCascade)
		}
		l := queue[0]
		queue = queue[1:]
		more, err := c.deliver(l, m)
		if err != nil {
			return nil, err
		}
		queue = append(queue, more...)
	}
	return c, nil
}

// deliver takes one letter, records the moves it causes, and returns the
// letters those set off.
func (c *Change) deliver(l letter, m Message) ([]letter, error) {
	w := c.next
	n, err := w.at(l.path)
	if err != nil {
		return nil, err
	}
	if l.wired() && !n.Draws(l.cmd) {
		return nil, nil // its receiver has moved on
	}
	_, moves, err := n.Step(l.cmd)
	if err != nil {
		return nil, w.explain(err, l.path)
	}
	var more []letter
	for _, mv := range moves {
		draft, err := c.record(l, mv, m)
		if err != nil {
			return nil, err
		}
		if err := w.take(l.path, mv, draft); err != nil {
			return nil, w.explain(err, l.path)
		}
		for _, wr := range wires[mv.Kind] {
			for _, next := range wr.send(w, l.path, mv.Event) {
				next.cause = draft.Seq
				if next.by == "" {
					next.by = engineName
				}
				more = append(more, next)
			}
		}
	}
	return more, nil
}

// record drafts the rune of a move. Its payload is canonical from the beginning, so
// that nobody has to put it in order again.
func (c *Change) record(l letter, mv machine.Move, m Message) (runelog.Rune, error) {
	text, err := json.Marshal(mv.Event)
	if err != nil {
		return runelog.Rune{}, fmt.Errorf("writing %s: %w", mv.Kind, err)
	}
	payload, err := runelog.Canonicalize(text)
	if err != nil {
		return runelog.Rune{}, fmt.Errorf("writing %s: %w", mv.Kind, err)
	}
	r := runelog.Rune{
		Seq: c.next.seq + 1, Log: c.next.log, Path: string(l.path), Kind: mv.Kind,
		From: string(mv.From), To: string(mv.To), Visibility: visibility(mv.Event),
		TSMs: m.AtMs, By: l.by, Cause: l.cause, Payload: payload,
	}
	if !l.wired() {
		r.Job = m.Job
	}
	c.Runes, c.events = append(c.Runes, r), append(c.events, mv.Event)
	lazy, ok := mv.Event.(interface{ Lazy() bool })
	c.Sync = c.Sync || !ok || !lazy.Lazy()
	c.Seal = c.Seal || mv.Kind == "session.closed"
	return r, nil
}

// take applies one recorded move and holds the invariants of the whole log. It
// is the only way a world changes, live or replayed.
func (w *World) take(p Path, mv machine.Move, r runelog.Rune) error {
	var err error
	n, here := w.find(p)
	if !here {
		if n, err = w.at(p); err != nil {
			return err
		}
	}
	// A move that concerns no law and no account can be taken in place by the
	// present itself: nobody shares its instances. Most of a log is such moves.
	before, mode := n, machine.Mode("")
	if here {
		mode = n.Mode()
	}
	if w.base == nil && w.seq > 0 && laws[mv.Kind] == nil && !booked[mv.Kind] {
		err = n.Absorb(mv)
	} else if n.Instance, err = n.Fold(mv); err == nil {
		err = w.permit(p, mv, r.By)
	}
	if err != nil {
		return err
	}
	if mv.From != mv.To {
		n.since, n.seq = r.TSMs, r.Seq
	}
	w.live[p] = n
	delete(w.gone, p)
	if booked[mv.Kind] {
		w.book(p, before, mv, r.TSMs)
	}
	w.count(mode, -1)
	if !leaves[mv.Kind] {
		w.count(n.Mode(), 1)
	}
	if leaves[mv.Kind] {
		delete(w.live, p)
		if w.base != nil {
			w.gone[p] = true
		}
	}
	w.seq = r.Seq
	w.last.note(r.Seq, mv.Kind)
	switch {
	case mv.Kind == "session.recovered":
		w.progress = false
	case ends[mv.Kind]:
		w.progress = true
	}
	return nil
}

func (w *World) count(m machine.Mode, by int) {
	switch m {
	case machine.ModeAsk:
		w.modes.asking += by
	case machine.ModeWork:
		w.modes.working += by
	}
}

// leaves lists the runes after which an instance has nothing left to do and
// leaves the world; its parent hears of it by the same rune.
var leaves = map[string]bool{
	"tool.result": true, "turn.finalized": true, "agent.terminated": true, "agent.failed": true,
	"stage.exited": true, "stage.failed": true, "stage.cancelled": true,
	"workflow.completed": true, "workflow.failed": true, "workflow.cancelled": true,
}

// ends lists the runes that count as getting somewhere.
var ends = map[string]bool{
	"tool.result": true, "turn.tool_calls_received": true, "turn.finalized": true,
	"stage.prepared": true, "stage.initialized": true, "stage.asserted": true, "workflow.stages_chosen": true,
}

func visibility(e machine.Event) runelog.Visibility {
	if _, ok := e.(interface{ Internal() }); ok {
		return runelog.Internal
	}
	return runelog.Public
}

// sign puts the sender's name into commands that record who gave them, so that
// nobody can answer in another's name.
func sign(c machine.Command, by string) machine.Command {
	if s, ok := c.(interface{ Signed(by string) any }); ok {
		return s.Signed(by)
	}
	return c
}

func (w *World) explain(err error, p Path) error {
	var r *machine.Refusal
	if errors.As(err, &r) {
		r.Path, r.Last = string(p), w.last.list()
		return r
	}
	return fmt.Errorf("%s: %w", p, err)
}
