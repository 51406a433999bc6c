package main

import (
	"fmt"
	"strings"
	"unicode"
)

// safe makes text from models, tools and logs harmless on a terminal: escape
// sequences and control characters other than newline and tab are dropped, and
// so is what reorders or hides text.
func safe(s string) string { return new(cleaner).clean(s) }

// cleaner is safe for text that comes in pieces: a sequence may begin in one and
// end in another.
type cleaner struct{ at place }

// place is where in an escape sequence the text is.
type place int

const (
	inText       place = iota
	escaped            // behind ESC
	inCSI              // ESC [ parameters, up to a final byte
	inString           // OSC, DCS and their like, up to BEL or ST
	stringEnding       // behind an ESC inside a string
)

const (
	bel, esc, del = 0x07, 0x1b, 0x7f
	csi8, st8     = 0x9b, 0x9c
)

func (c *cleaner) clean(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if c.keeps(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// keeps reports whether a character is text, and follows the sequences.
func (c *cleaner) keeps(r rune) bool {
	// A newline ends any sequence: text after an unfinished one must not vanish.
	if r == '\n' {
		c.at = inText
		return true
	}
	switch c.at {
	case inText:
		c.at = opens(r)
		return c.at == inText && (r == '\t' || !hidden(r))
	case escaped:
		c.at = afterEscape(r)
	case inCSI:
		if r < ' ' || r > '?' {
			c.at = opens(r)
		}
	case inString:
		switch r {
		case bel, st8:
			c.at = inText
		case esc:
			c.at = stringEnding
		}
	case stringEnding:
		c.at = inString
		if r == '\\' {
			c.at = inText
		}
	}
	return false
}

// opens says which sequence a character in text begins.
func opens(r rune) place {
	switch r {
	case esc:
		return escaped
	case csi8:
		return inCSI
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
		return inString
	}
	return inText
}

func afterEscape(r rune) place {
	switch {
	case r == '[':
		return inCSI
	case strings.ContainsRune("PX]^_", r):
		return inString
	case r >= ' ' && r <= '/': // an intermediate byte; the final one follows
		return escaped
	case r == esc:
		return escaped
	}
	return inText
}

// hidden reports whether a character is not what it looks like, or does not
// look like anything: controls, bidi marks, zero width.
func hidden(r rune) bool {
	switch {
	case r < ' ', r >= del && r <= 0x9f: // C0, DEL, C1
		return true
	case r == '\u2028', r == '\u2029': // line breaks that are not newlines
		return true
	case r == '\u034f', r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0': // blank letters
		return true
	case r >= '\ufe00' && r <= '\ufe0f', r >= 0xe0100 && r <= 0xe01ef: // variation selectors
		return true
	case r >= '\ufff9' && r <= '\ufffb':
		return true
	}
	return unicode.Is(unicode.Cf, r) // bidi, zero width, tags, byte order mark
}

// visible shows the characters that safe drops, as JSON writes them. It is for
// what a person is asked to approve: nothing in there may be left out.
func visible(s string) string { return reveal(s, hidden) }

// visibleText is visible for a line of a file or a command, where a tab is a tab.
func visibleText(s string) string {
	return reveal(s, func(r rune) bool { return r != '\t' && hidden(r) })
}

func reveal(s string, hides func(rune) bool) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case !hides(r):
			b.WriteRune(r)
		case r > 0xffff:
			const high, low, half = 0xd800, 0xdc00, 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, high+(r-half)>>10, low+(r-half)&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// line is safe text on one line of at most limit characters.
func line(s string, limit int) string {
	s = strings.Join(strings.Fields(safe(s)), " ")
	return cut(s, limit)
}

// cut shortens text and says so.
func cut(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}
