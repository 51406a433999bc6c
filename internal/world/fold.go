package world

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"

	"stave/internal/machine"
	"stave/internal/machine/turn"
	"stave/internal/runelog"
)

// ErrUnknownKind says that a log holds a kind this program does not know: it
// may be read, but nothing is written after it.
var ErrUnknownKind = errors.New("unknown rune kind: the log was written by a newer or another program")

// Fold applies a recorded rune: replay, recovery and verification are this.
func (w *World) Fold(r runelog.Rune) error {
	if r.Seq != w.seq+1 {
		return w.fault(r, fmt.Errorf("it follows rune %d", w.seq))
	}
	mv, err := MoveOf(r)
	if err != nil {
		return w.fault(r, err)
	}
	if err := w.take(Path(r.Path), mv, r); err != nil {
		return w.fault(r, err)
	}
	return nil
}

func (w *World) fault(r runelog.Rune, err error) error {
	return fmt.Errorf("log %s, rune %d (%s at %s): %w", w.log, r.Seq, r.Kind, r.Path, err)
}

// MoveOf returns the arrow a rune records, with its event.
func MoveOf(r runelog.Rune) (machine.Move, error) {
	e, err := EventOf(r)
	return machine.Move{Arrow: machine.Arrow{Kind: r.Kind, From: machine.State(r.From), To: machine.State(r.To)}, Event: e}, err
}

// deltaKind is most of a log: replay is as fast as its runes are read.
var deltaKind = machine.Kind(turn.AssistantDelta{})

// EventOf decodes what a rune records.
func EventOf(r runelog.Rune) (machine.Event, error) {
	if r.Kind == deltaKind {
		if e, ok := turn.ReadDelta(r.Payload); ok {
			return e, nil
		}
	}
	room, ok := rooms[Path(r.Path).machine()]
	if !ok {
		return nil, fmt.Errorf("there is no machine at %q: %w", r.Path, ErrUnknownKind)
	}
	e := room.NewEvent(r.Kind)
	if e == nil {
		return nil, ErrUnknownKind
	}
	if err := json.Unmarshal(r.Payload, e); err != nil {
		return nil, fmt.Errorf("reading its payload: %w", err)
	}
	return reflect.ValueOf(e).Elem().Interface(), nil
}
