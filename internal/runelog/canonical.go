package runelog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// quickDepth bounds the recursion of the quick check; deeper values take the
// slow road, which has its own bound.
const quickDepth = 64

// Canonicalize returns v in the form RFC 8785 prescribes, with one widening:
// integers keep their digits, because rounding a 64-bit identifier to a double
// would silently change what happened. The result shares v's memory when v is
// canonical already.
func Canonicalize(v jsontext.Value) (jsontext.Value, error) {
	if end, ok := skipCanonical(v, 0, 0); ok && end == len(v) {
		return v, nil
	}
	if c, end, ok := appendOrdered(make([]byte, 0, len(v)), v, 0, 0); ok && end == len(v) {
		return c, nil
	}
	c := v.Clone()
	if err := c.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return nil, fmt.Errorf("canonicalize JSON: %w", err)
	}
	return c, nil
}

// skipCanonical returns the index after the canonical value that starts at i.
// It says false when the value is not canonical, and also when that takes more
// than a scan to know: then the caller asks jsontext.
func skipCanonical(b []byte, i, depth int) (int, bool) {
	if i >= len(b) || depth > quickDepth {
		return i, false
	}
	switch b[i] {
	case '"':
		end, _, ok := skipString(b, i)
		return end, ok
	case '{':
		return skipObject(b, i, depth)
	case '[':
		return skipArray(b, i, depth)
	case 't':
		return skipLiteral(b, i, "true")
	case 'f':
		return skipLiteral(b, i, "false")
	case 'n':
		return skipLiteral(b, i, "null")
	default:
		return skipInteger(b, i)
	}
}

func skipLiteral(b []byte, i int, word string) (int, bool) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, false
	}
	return i + len(word), true
}

func skipInteger(b []byte, i int) (int, bool) {
	start := i
	if b[i] == '-' {
		i++
	}
	digits := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	switch n := i - digits; {
	case n == 0, n > 1 && b[digits] == '0', n == 1 && b[digits] == '0' && start != digits:
		return start, false
	case i < len(b) && (b[i] == '.' || b[i] == 'e' || b[i] == 'E'):
		return start, false
	}
	return i, true
}

func skipArray(b []byte, i, depth int) (int, bool) {
	i++
	if i < len(b) && b[i] == ']' {
		return i + 1, true
	}
	for {
		end, ok := skipCanonical(b, i, depth+1)
		if !ok || end >= len(b) {
			return i, false
		}
		switch b[end] {
		case ',':
			i = end + 1
		case ']':
			return end + 1, true
		default:
			return i, false
		}
	}
}

func skipObject(b []byte, i, depth int) (int, bool) {
	i++
	if i < len(b) && b[i] == '}' {
		return i + 1, true
	}
	var last []byte
	for {
		if i >= len(b) || b[i] != '"' {
			return i, false
		}
		end, plain, ok := skipString(b, i)
		// Member names sort by UTF-16 code units, which equals byte order only
		// for plain ASCII.
		if !ok || !plain || end >= len(b) || b[end] != ':' {
			return i, false
		}
		name := b[i:end]
		if last != nil && bytes.Compare(last[:len(last)-1], name[:len(name)-1]) >= 0 {
			return i, false
		}
		last = name
		if end, ok = skipCanonical(b, end+1, depth+1); !ok || end >= len(b) {
			return i, false
		}
		switch b[end] {
		case ',':
			i = end + 1
		case '}':
			return end + 1, true
		default:
			return i, false
		}
	}
}

// skipString returns the index after the canonical string that opens at i, and
// whether it is plain: ASCII without escapes.
func skipString(b []byte, i int) (end int, plain, ok bool) {
	plain = true
	for i++; ; {
		if i = skipPlain(b, i); i == len(b) {
			return i, false, false
		}
		c := b[i]
		switch {
		case c == '"':
			return i + 1, plain, true
		case c == '\\':
			n := canonicalEscape(b[i:])
			if n == 0 {
				return i, false, false
			}
			plain = false
			i += n
		case c < ' ':
			return i, false, false
		default:
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n == 1 {
				return i, false, false
			}
			plain = false
			i += n
		}
	}
}

// Eight bytes at a time: ones times a byte is that byte in each of the eight places.
const (
	ones  = 0x01_01_01_01_01_01_01_01
	highs = 0x80 * ones
)

// skipPlain returns the index of the first byte from i on that is no plain part of a
// string: a quote, a backslash, a control character or part of what is not ASCII.
func skipPlain(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^ones*'"', x^ones*'\\'
		// A place below every marked one is judged rightly: nothing was borrowed from it.
		if marked := (x | (x - ones*' ') | (quote - ones) | (slash - ones)) & highs; marked != 0 {
			return i + bits.TrailingZeros64(marked)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] < utf8.RuneSelf && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// canonicalEscape returns the length of the escape at the start of b, or 0 if
// RFC 8785 would write that character differently.
func canonicalEscape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 || b[2] != '0' || b[3] != '0' {
			return 0
		}
		high, low := b[4], b[5]
		lowerHex := '0' <= low && low <= '9' || 'a' <= low && low <= 'f'
		if high != '0' && high != '1' || !lowerHex {
			return 0
		}
		if high == '0' && (low == '8' || low == '9' || low == 'a' || low == 'c' || low == 'd') {
			return 0 // these have a short escape
		}
		return 6
	}
	return 0
}

const hexDigits = "0123456789abcdef"

// appendString writes s as a canonical JSON string; it says false when s is not
// valid UTF-8.
func appendString(dst []byte, s string) ([]byte, bool) {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf {
			if !utf8.ValidString(s[i:]) {
				return dst, false
			}
			return appendEscaped(append(dst, s[start:i]...), s[i:]), true
		}
		if c < ' ' || c == '"' || c == '\\' {
			dst = appendEscape(append(dst, s[start:i]...), c)
			start = i + 1
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"'), true
}

// appendEscaped finishes a string whose rest is known to be valid UTF-8.
func appendEscaped(dst []byte, rest string) []byte {
	for i := 0; i < len(rest); i++ {
		if c := rest[i]; c < ' ' || c == '"' || c == '\\' {
			dst = appendEscape(dst, c)
		} else {
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}
