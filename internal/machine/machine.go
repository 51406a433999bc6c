package machine

import (
	"fmt"
	"reflect"
	"slices"
)

// Machine is a table with the three pure functions that give it meaning. D is
// what an instance remembers beyond its state; it is a value, never shared.
type Machine[D any] struct {
	Name    string
	Initial State // the box an instance starts in without a rune; None if it is born by a command
	Boxes   []Box
	// Decide says what happens. The events it returns must be those of a row of
	// this state and command; none means the command changes nothing.
	Decide func(s State, d D, c Command) ([]Event, error)
	// Evolve says what is remembered. An error means the event may not follow
	// what is remembered already: it is refused before it is written and
	// reported when it is found in a log.
	Evolve func(d D, a Arrow, e Event) (D, error)
	// Due returns the job of a work box or the question of an ask box.
	Due func(s State, d D) any

	index *index
}

// index holds what Step and Fold look up, built once from the boxes.
type index struct {
	boxes  map[State]*Box
	rows   map[rowKey][]*Row
	arrows map[Arrow]bool
	kinds  map[string]reflect.Type
	names  map[reflect.Type]string
}

type rowKey struct {
	state   State
	command reflect.Type
}

// Arrow is a recorded move, as a rune names it.
type Arrow struct {
	Kind     string
	From, To State
}

// Move is one arrow taken, with what it records.
type Move struct {
	Arrow
	Event Event
}

// Make returns the machine ready to run, with its table indexed.
func Make[D any](m Machine[D]) *Machine[D] {
	x := &index{
		boxes: map[State]*Box{}, rows: map[rowKey][]*Row{}, arrows: map[Arrow]bool{},
		kinds: map[string]reflect.Type{}, names: map[reflect.Type]string{},
	}
	for i := range m.Boxes {
		b := &m.Boxes[i]
		x.boxes[b.State] = b
		for j := range b.Rows {
			x.add(b.State, &b.Rows[j])
		}
	}
	m.index = x
	return &m
}

func (x *index) add(from State, r *Row) {
	if !r.Past {
		key := rowKey{from, r.Command}
		x.rows[key] = append(x.rows[key], r)
	}
	for _, t := range r.Events {
		kind := kindOf(t)
		x.kinds[kind], x.names[t] = t, kind
		x.arrows[Arrow{kind, from, r.To}] = true
		from = r.To
	}
}

// Instance is one machine at work. Step and Fold return the next one and leave
// the receiver as it was.
type Instance interface {
	Machine() string
	State() State
	Mode() Mode
	Data() any
	// Draws reports whether the present state has a row for the command.
	Draws(Command) bool
	// Step answers a command with the moves it causes.
	Step(Command) (Instance, []Move, error)
	// Fold takes a move that is already recorded.
	Fold(Move) (Instance, error)
	// Absorb is Fold in place, for an owner whom nobody else shares the instance
	// with: replay makes no garbage.
	Absorb(Move) error
	// Due returns the job or question of the present state, nil if none.
	Due() any
	// Possible lists the commands the present state draws; people only if asked.
	Possible(people bool) []string
}

type instance[D any] struct {
	m     *Machine[D]
	state State
	data  D
}

// DataOf returns what an instance of a known machine remembers, the zero value
// if it is of another; it is Data without a copy on the heap.
func DataOf[D any](i Instance) (d D) {
	if known, ok := i.(*instance[D]); ok {
		d = known.data
	}
	return d
}

// New returns an instance that nothing has happened to.
func (m *Machine[D]) New() Instance { return &instance[D]{m: m, state: m.Initial} }

// Restore returns an instance in a known place, as a snapshot holds it.
func (m *Machine[D]) Restore(s State, load func(data any) error) (Instance, error) {
	var d D
	if _, ok := m.index.boxes[s]; !ok {
		return nil, fmt.Errorf("restoring %s: no state %q", m.Name, s)
	}
	if err := load(&d); err != nil {
		return nil, fmt.Errorf("restoring %s: %w", m.Name, err)
	}
	return &instance[D]{m, s, d}, nil
}

// NewEvent returns a pointer to a zero event of a kind, nil if this machine
// does not know the kind.
func (m *Machine[D]) NewEvent(kind string) any {
	t, ok := m.index.kinds[kind]
	if !ok {
		return nil
	}
	return reflect.New(t).Interface()
}

func (i *instance[D]) Machine() string { return i.m.Name }
func (i *instance[D]) State() State    { return i.state }
func (i *instance[D]) Data() any       { return i.data }

func (i *instance[D]) Mode() Mode {
	if b := i.m.index.boxes[i.state]; b != nil {
		return b.Mode
	}
	return ModeRest
}

func (i *instance[D]) Due() any {
	if mode := i.Mode(); i.m.Due == nil || (mode != ModeWork && mode != ModeAsk) {
		return nil
	}
	return i.m.Due(i.state, i.data)
}

func (i *instance[D]) Draws(c Command) bool { return len(i.rows(c)) > 0 }

func (i *instance[D]) rows(c Command) []*Row {
	return i.m.index.rows[rowKey{i.state, reflect.TypeOf(c)}]
}

func (i *instance[D]) Step(c Command) (Instance, []Move, error) {
	rows := i.rows(c)
	if len(rows) == 0 {
		return i, nil, i.refuse(c, "")
	}
	events, err := i.m.Decide(i.state, i.data, c)
	if err != nil {
		return i, nil, i.refuse(c, err.Error())
	}
	if len(events) == 0 {
		return i, nil, nil
	}
	row := pick(rows, events)
	if row == nil {
		return i, nil, fmt.Errorf("%s decided %T in %q on %s, which its table does not draw", i.m.Name, events[0], i.state, Verb(c))
	}
	next := *i
	moves := make([]Move, len(events))
	for n, e := range events {
		moves[n] = Move{Arrow{i.m.index.names[row.Events[n]], next.state, row.To}, e}
		if next.data, err = i.m.Evolve(next.data, moves[n].Arrow, e); err != nil {
			return i, nil, next.refuse(c, err.Error())
		}
		next.state = row.To
	}
	return &next, moves, nil
}

func pick(rows []*Row, events []Event) *Row {
	for _, r := range rows {
		if slices.EqualFunc(r.Events, events, func(t reflect.Type, e Event) bool { return t == reflect.TypeOf(e) }) {
			return r
		}
	}
	return nil
}

func (i *instance[D]) Fold(m Move) (Instance, error) {
	next := *i
	if err := next.Absorb(m); err != nil {
		return i, err
	}
	return &next, nil
}

func (i *instance[D]) Absorb(m Move) error {
	if i.state != m.From {
		return fmt.Errorf("%s: %s leaves %q, but the machine is in %q", i.m.Name, m.Kind, m.From, i.state)
	}
	if !i.m.index.arrows[m.Arrow] {
		return fmt.Errorf("%s: no arrow %s from %q to %q", i.m.Name, m.Kind, m.From, m.To)
	}
	data, err := i.m.Evolve(i.data, m.Arrow, m.Event)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", i.m.Name, m.Kind, err)
	}
	i.state, i.data = m.To, data
	return nil
}

func (i *instance[D]) Possible(people bool) []string {
	var verbs []string
	if b := i.m.index.boxes[i.state]; b != nil {
		for _, r := range b.Rows {
			if v := snake(r.Command.Name()); !r.Past && (r.Person || !people) && !slices.Contains(verbs, v) {
				verbs = append(verbs, v)
			}
		}
	}
	return verbs
}

func (i *instance[D]) refuse(c Command, reason string) error {
	return &Refusal{Machine: i.m.Name, State: i.state, Command: Verb(c), Reason: reason, Possible: i.Possible(true)}
}
