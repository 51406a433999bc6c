package mcp

import (
	"context"
	"errors"
	"fmt"
)

var errStale = errors.New("it is no longer what was shown; look again")

func (s *server) approveIdentity(digest string) error {
	s.mu.Lock()
	if s.review == nil || s.review.Digest != digest {
		s.mu.Unlock()
		return fmt.Errorf("approving MCP server %s: %w", s.name, errStale)
	}
	pin := s.pin.clone()
	pin.Identity = Approved{Digest: digest, Text: s.review.After}
	err := s.save(pin)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.restart()
	return nil
}

// approveTools approves all that is asked or nothing.
func (s *server) approveTools(digests map[string]string) error {
	s.mu.Lock()
	pin := s.pin.clone()
	found := 0
	for _, d := range s.lists.tools {
		digest, asked := digests[d.tool]
		if !asked || d.refusal != "" {
			continue
		}
		if d.digest != digest {
			s.mu.Unlock()
			return fmt.Errorf("approving tool %s: %w", d.name, errStale)
		}
		pin.Tools[d.tool] = Approved{Digest: d.digest, Text: d.text}
		found++
	}
	var err error
	if found != len(digests) {
		err = fmt.Errorf("approving tools of %s: %w", s.name, errStale)
	} else {
		err = s.save(pin)
	}
	s.mu.Unlock()
	if err == nil {
		s.tell()
	}
	return err
}

func (s *server) revoke() error {
	s.mu.Lock()
	err := s.save(Pin{})
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.restart()
	return nil
}

// save needs the lock.
func (s *server) save(pin Pin) error {
	if err := s.opt.Pins.Save(s.name, pin); err != nil {
		return fmt.Errorf("remembering what was approved of %s: %w", s.name, err)
	}
	s.pin = pin
	return nil
}

// signInNow lets a person sign in and waits for what comes of it.
func (s *server) signInNow(ctx context.Context) error {
	if s.sign == nil {
		return fmt.Errorf("signing in to %s: only servers with a url know sign-in", s.name)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("signing in to %s: %w", s.name, ctx.Err())
	}
	err := s.sign.satisfy(ctx)
	s.mu.Lock()
	moved, live := s.moved, s.session
	s.mu.Unlock()
	<-s.turn
	if err != nil {
		return fmt.Errorf("signing in to %s: %w", s.name, err)
	}
	if live != nil {
		s.set(Connected, "", nil) // it only wanted more rights
		return nil
	}
	s.wake()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("signing in to %s: %w", s.name, ctx.Err())
		case <-moved:
		}
		s.mu.Lock()
		status, why := s.status, s.why
		moved = s.moved
		s.mu.Unlock()
		switch status {
		case Connected:
			return nil
		case NeedsSignIn: // once more, perhaps elsewhere
			return fmt.Errorf("signing in to %s: %w", s.name, ErrSignIn)
		case Failed:
			return fmt.Errorf("signing in to %s: %s", s.name, why)
		}
	}
}
