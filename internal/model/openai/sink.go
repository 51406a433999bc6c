package openai

import (
	"context"
	"errors"

	"stave/internal/model"
)

// errLeft ends a stream whose reader has gone.
var errLeft = errors.New("the reader of the stream has left")

// sink hands events to whoever reads the stream and marks where an item ends.
type sink struct {
	ctx    context.Context
	yield  func(model.Event, error) bool
	origin string
	open   openKind
	done   bool // the response is told to its end
}

type openKind int

const (
	nothing openKind = iota
	someText
	someThought
)

func (s *sink) give(ev model.Event) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if !s.yield(ev, nil) {
		return errLeft
	}
	return nil
}

func (s *sink) text(fragment string) error {
	if fragment == "" {
		return nil
	}
	if err := s.begin(someText); err != nil {
		return err
	}
	return s.give(model.Event{Text: fragment})
}

func (s *sink) thought(fragment string) error {
	if fragment == "" {
		return nil
	}
	if err := s.begin(someThought); err != nil {
		return err
	}
	return s.give(model.Event{Reasoning: &model.Reasoning{Text: fragment, Origin: s.origin}})
}

// seal gives the part of a thought that only its maker can read.
func (s *sink) seal(id, opaque string) error {
	if err := s.begin(someThought); err != nil {
		return err
	}
	return s.give(model.Event{Reasoning: &model.Reasoning{ID: id, Opaque: opaque, Origin: s.origin}})
}

func (s *sink) begin(kind openKind) error {
	if s.open == kind {
		return nil
	}
	if err := s.endItem(); err != nil {
		return err
	}
	s.open = kind
	return nil
}

// endItem says that the open item, if there is one, is finished.
func (s *sink) endItem() error {
	if s.open == nothing {
		return nil
	}
	s.open = nothing
	return s.give(model.Event{ItemDone: true})
}

// finish gives all that is known only at the end of a response.
func (s *sink) finish(calls []model.RawCall, usage *model.Usage, stop model.StopReason) error {
	if err := s.endItem(); err != nil {
		return err
	}
	for _, c := range calls {
		if err := s.give(model.Event{Call: &c}); err != nil {
			return err
		}
	}
	if usage != nil {
		if err := s.give(model.Event{Usage: usage}); err != nil {
			return err
		}
	}
	s.done = true
	return s.give(model.Event{Done: stop})
}
