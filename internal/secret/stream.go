package secret

import "strings"

// Stream takes text in pieces and gives back what is safe to show. It holds back
// what may be the beginning of a secret. One goroutine uses it.
type Stream struct {
	set     *Set
	held    string
	covered int  // so much of held lies under a mark that was given out
	before  byte // what came before held
}

// Stream begins a text. Values added while it runs count from then on.
func (s *Set) Stream() *Stream { return &Stream{set: s} }

// Write takes the next piece and returns what is safe.
func (s *Stream) Write(chunk string) (safe string) {
	text := chunk
	if s.held != "" {
		text = s.held + chunk
	}
	safe, rest := s.scan(text, false)
	if rest > 0 {
		s.before = text[rest-1]
	}
	s.held = strings.Clone(text[rest:]) // or it would keep all of the piece alive
	return safe
}

// Close ends the text and returns what was held back. The Stream can then take
// another text.
func (s *Stream) Close() (rest string) {
	safe, _ := s.scan(s.held, true)
	*s = Stream{set: s.set}
	return safe
}

// scan returns what is safe of a text and where the rest begins. Secrets that
// overlap share a mark.
func (s *Stream) scan(text string, final bool) (safe string, rest int) {
	look := scanner{finder: s.set.load(), known: s.set.Known, text: text, before: s.before, final: final}
	rest = len(text)
	if !final {
		rest = look.pending()
	}
	covered := s.covered // text[:covered] has its mark already
	var b strings.Builder
	for i := 0; ; {
		start, end := look.next(i)
		if start >= rest {
			break
		}
		if start >= covered {
			b.WriteString(text[covered:start])
			b.WriteString(Mark)
		}
		covered = max(covered, end)
		i = start + 1
	}
	s.covered = max(0, covered-rest)
	plain := text[min(covered, rest):rest]
	if b.Len() == 0 {
		return plain, rest
	}
	b.WriteString(plain)
	return b.String(), rest
}

// scanner looks for both kinds of secrets in one text.
type scanner struct {
	finder *finder
	known  bool
	text   string
	before byte
	final  bool

	// What each of the two found last, as long as it lies ahead.
	value, shape span
}

type span struct{ start, end int }

// next finds the first secret that begins at i or later. It is asked for growing i.
func (s *scanner) next(i int) (start, end int) {
	if s.value.end == 0 || s.value.start < i {
		s.value.start, s.value.end = s.finder.next(s.text, i)
	}
	if !s.known {
		return s.value.start, s.value.end
	}
	if s.shape.end == 0 || s.shape.start < i {
		s.shape = s.nextShape(i)
	}
	switch {
	case s.shape.start < s.value.start:
		return s.shape.start, s.shape.end
	case s.shape.start == s.value.start:
		return s.value.start, max(s.value.end, s.shape.end)
	}
	return s.value.start, s.value.end
}

// pending finds the first place from which on the text must be held back.
func (s *scanner) pending() int {
	at := s.finder.pending(s.text)
	if s.known {
		at = min(at, s.pendingShape(at))
	}
	return at
}
