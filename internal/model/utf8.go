package model

import (
	"strings"
	"unicode/utf8"
)

const replacement = string(utf8.RuneError)

// repairer turns fragments of text into valid UTF-8 without NUL. Every byte
// that is no part of a rune, and every NUL, becomes one U+FFFD: nothing
// disappears unseen, and the result does not depend on where the text was split.
type repairer struct {
	tail     string // the beginning of a rune whose rest has not come yet
	replaced int
}

// add returns what of the text so far is certain; a split rune waits for its rest.
func (r *repairer) add(s string) string {
	if r.tail == "" && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	s = r.tail + s
	r.tail = ""
	var out strings.Builder
	out.Grow(len(s))
	for i := 0; i < len(s); {
		if s[i] >= utf8.RuneSelf && !utf8.FullRuneInString(s[i:]) {
			r.tail = strings.Clone(s[i:])
			break
		}
		c, width := utf8.DecodeRuneInString(s[i:])
		if c == 0 || c == utf8.RuneError && width == 1 {
			out.WriteString(replacement)
			r.replaced++
		} else {
			out.WriteString(s[i : i+width])
		}
		i += width
	}
	return out.String()
}

// flush gives up waiting and returns what stands for the unfinished rune.
func (r *repairer) flush() string {
	n := len(r.tail)
	r.tail = ""
	r.replaced += n
	return strings.Repeat(replacement, n)
}

// repair cleans a text that is complete.
func (r *repairer) repair(s string) string {
	clean := r.add(s)
	return clean + r.flush()
}
