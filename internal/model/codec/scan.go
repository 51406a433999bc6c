package codec

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// maxScanDepth is how deep a text may nest; what nests deeper is refused.
const maxScanDepth = 100

// Scanner walks through one JSON text without making anything of it. It takes
// less than package json does: where Ok is false, the text may still be JSON and
// is for package json to read. What it takes, it reads as package json does.
type Scanner struct {
	data  []byte
	at    int
	depth int
	bad   bool
}

// Scan returns a Scanner at the beginning of a text.
func Scan(data []byte) Scanner { return Scanner{data: data} }

// Fail says that the text is not for this Scanner.
func (s *Scanner) Fail() { s.bad = true }

// Ok says, at the end, that all of the text was taken.
func (s *Scanner) Ok() bool { return !s.bad && s.peek() == 0 && s.at == len(s.data) }

// peek returns the next byte that is no space, 0 at the end.
func (s *Scanner) peek() byte {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *Scanner) take(c byte) bool {
	if s.bad || s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *Scanner) must(c byte) {
	if !s.take(c) {
		s.bad = true
	}
}

// Object calls each for every name of an object; each must take the value.
func (s *Scanner) Object(each func(name []byte)) {
	s.enter('{')
	for first := true; !s.bad && !s.take('}'); first = false {
		if !first {
			s.must(',')
		}
		s.peek()
		name, plain := s.quoted()
		if !plain || !utf8.Valid(name) {
			s.bad = true // an escape may hide any name
		}
		s.must(':')
		if !s.bad {
			each(name)
		}
	}
	s.depth--
}

// List calls each for every value of a list; each must take it.
func (s *Scanner) List(each func()) {
	s.enter('[')
	for first := true; !s.bad && !s.take(']'); first = false {
		if !first {
			s.must(',')
		}
		if !s.bad {
			each()
		}
	}
	s.depth--
}

func (s *Scanner) enter(c byte) {
	s.must(c)
	if s.depth++; s.depth > maxScanDepth {
		s.bad = true
	}
}

// Value takes any value and returns it as it is written.
func (s *Scanner) Value() []byte {
	c := s.peek()
	from := s.at
	switch {
	case s.bad:
	case c == '{':
		s.Object(func([]byte) { s.Value() })
	case c == '[':
		s.List(func() { s.Value() })
	case c == '"':
		s.quoted()
	case c == '-' || c >= '0' && c <= '9':
		s.number()
	default:
		s.word()
	}
	if s.bad {
		return nil
	}
	return s.data[from:s.at]
}

// Null takes a null.
func (s *Scanner) Null() {
	if string(s.Value()) != "null" {
		s.bad = true
	}
}

// TakeNull takes a null if one comes next, and says whether it did.
func (s *Scanner) TakeNull() bool {
	if s.bad || s.peek() != 'n' {
		return false
	}
	s.Null()
	return true
}

// Other takes the value of a name that nobody asked for. Package json does not
// tell upper from lower case, so a name that is not all lower is not taken.
func (s *Scanner) Other(name []byte) {
	for _, c := range name {
		if c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			s.bad = true
		}
	}
	s.Value()
}

// Int takes a whole number.
func (s *Scanner) Int() int64 {
	n, err := strconv.ParseInt(string(s.Value()), 10, 64)
	if err != nil {
		s.bad = true
	}
	return n
}

// Text takes a string. One that is not UTF-8 is not taken.
func (s *Scanner) Text() string {
	if s.peek() != '"' {
		s.bad = true
		return ""
	}
	from := s.at
	inner, plain := s.quoted()
	if s.bad || !utf8.Valid(inner) {
		s.bad = true
		return ""
	}
	if plain {
		return string(inner)
	}
	var text string
	if json.Unmarshal(s.data[from:s.at], &text) != nil {
		s.bad = true
	}
	return text
}

// Is takes a value and says whether it is this string, written plainly.
func (s *Scanner) Is(text string) bool {
	v := s.Value()
	return len(v) == len(text)+2 && v[0] == '"' && string(v[1:len(v)-1]) == text
}

// quoted takes a string and returns what is between its quotes, which is plain
// if it has no escapes.
func (s *Scanner) quoted() (inner []byte, plain bool) {
	plain = true
	if s.bad || s.at >= len(s.data) || s.data[s.at] != '"' {
		s.bad = true
		return nil, false
	}
	from := s.at + 1
	for i := from; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.at = i + 1
			return s.data[from:i], plain
		case c < 0x20:
			s.bad = true
			return nil, false
		case c == '\\':
			plain = false
			n := escape(s.data[i:])
			if n == 0 {
				s.bad = true
				return nil, false
			}
			i += n - 1
		}
	}
	s.bad = true
	return nil, false
}

// escape is the length of the escape at the beginning of b, 0 for none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), b[1]) < 0 {
			return 0
		}
		return 2
	}
	if len(b) < 6 {
		return 0
	}
	for _, c := range b[2:6] {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return 0
		}
	}
	return 6
}

func (s *Scanner) number() {
	s.skip('-')
	if !s.skip('0') {
		s.digits()
	}
	if s.skip('.') {
		s.digits()
	}
	if s.skip('e') || s.skip('E') {
		if !s.skip('+') {
			s.skip('-')
		}
		s.digits()
	}
}

func (s *Scanner) skip(c byte) bool {
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *Scanner) digits() {
	from := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	if s.at == from {
		s.bad = true
	}
}

func (s *Scanner) word() {
	for _, w := range []string{"null", "true", "false"} {
		if bytes.HasPrefix(s.data[s.at:], []byte(w)) {
			s.at += len(w)
			return
		}
	}
	s.bad = true
}
