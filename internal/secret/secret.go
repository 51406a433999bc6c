// Package secret keeps registered values from leaving the program: it finds them
// in text, also encoded and also cut into pieces, and puts a mark in their place.
package secret

import (
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// Mark is what stands in the place of a secret.
	Mark = "[redacted]"
	// minValue is the length below which a value is too common to be a secret.
	minValue = 8
	// maxPart is the longest value looked for in one piece. A longer one is looked
	// for part by part, so that little text has to be held back.
	maxPart = 4 << 10
)

// Set holds the values that must not be seen. The zero Set is ready. All methods
// may be used at the same time.
type Set struct {
	// Known also hides what has the shape of a well-known kind of key, though
	// nobody registered it. Set it before use.
	Known bool

	mu       sync.Mutex
	patterns map[string]bool
	finder   atomic.Pointer[finder]
}

// Add registers a value. One shorter than eight bytes is ignored: it would be
// found in innocent text. What surrounds it as space is not part of it.
func (s *Set) Add(value string) {
	value = strings.TrimSpace(value)
	if len(value) < minValue || strings.Contains(Mark, value) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.patterns == nil {
		s.patterns = map[string]bool{}
	}
	before := len(s.patterns)
	for _, part := range parts(value) {
		for _, p := range encodings(part) {
			s.patterns[p] = true
		}
	}
	if len(s.patterns) > before {
		s.finder.Store(newFinder(s.patterns))
	}
}

// parts cuts a long value. The last part is not too short to be looked for.
func parts(value string) []string {
	var list []string
	for len(value) > maxPart+minValue {
		list = append(list, value[:maxPart])
		value = value[maxPart:]
	}
	return append(list, value)
}

// Redact returns the text with a mark in the place of every secret. Text without
// any comes back as it is.
func (s *Set) Redact(text string) string {
	st := Stream{set: s}
	safe, _ := st.scan(text, true)
	return safe
}

// Contains reports whether there is a secret in the text.
func (s *Set) Contains(text string) bool {
	found := scanner{finder: s.load(), known: s.Known, text: text, final: true}
	start, _ := found.next(0)
	return start < len(text)
}

func (s *Set) load() *finder {
	if f := s.finder.Load(); f != nil {
		return f
	}
	return &finder{}
}
