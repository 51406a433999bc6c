package secret

import (
	"strings"
	"sync"
)

const (
	maxKey = 255 // a longer run of letters is no key
	// A private key is hidden only if it has a line as dense as one, and no
	// further than the largest keys take.
	minPEM = 40
	maxPEM = 16 << 10
)

// shape is a well-known kind of key: a prefix and a run of letters.
type shape struct {
	prefix   string
	letter   func(byte) bool
	min, max int
	// run is how many letters with a digit among them must follow each other
	// without a hyphen: words joined by hyphens look like keys otherwise.
	run int
}

// beginnings finds where a well-known key may begin. Its table is made only for
// who asks.
var beginnings = sync.OnceValue(func() *finder {
	prefixes := map[string]bool{pemBegin: true}
	for _, k := range shapes {
		prefixes[k.prefix] = true
	}
	return newFinder(prefixes)
})

// shapes is conservative: it lists what hardly ever is anything else.
var shapes = listShapes()

func listShapes() []shape {
	word := func(c byte) bool { return alnum(c) || c == '_' }
	dashed := func(c byte) bool { return word(c) || c == '-' }
	upper := func(c byte) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' }
	list := []shape{
		{"sk-", dashed, 20, maxKey, 20},
		{"AIza", dashed, 35, 35, 0},
		{"github_pat_", word, 60, maxKey, 0},
	}
	for _, kind := range "pousr" {
		list = append(list, shape{"gh" + string(kind) + "_", alnum, 36, maxKey, 0})
	}
	for _, prefix := range []string{"AKIA", "ASIA"} {
		list = append(list, shape{prefix, upper, 16, 16, 0})
	}
	for _, kind := range "bpars" {
		list = append(list, shape{"xox" + string(kind) + "-", func(c byte) bool { return alnum(c) || c == '-' }, 20, maxKey, 10})
	}
	return list
}

// verdict is what can be said of a place in a text.
type verdict int

const (
	no verdict = iota
	yes
	maybe // the text ends too early to tell
)

// match looks whether a key begins the text. The end of the text is the end of
// the key only if it is final.
func (k shape) match(text string, final bool) (int, verdict) {
	rest, ok := strings.CutPrefix(text, k.prefix)
	if !ok {
		if !final && strings.HasPrefix(k.prefix, text) {
			return 0, maybe
		}
		return 0, no
	}
	n := 0
	for n < len(rest) && n <= k.max && k.letter(rest[n]) {
		n++
	}
	switch {
	case n == len(rest) && n <= k.max && !final:
		return 0, maybe
	case n < k.min || n > k.max || n < len(rest) && alnum(rest[n]) || !denseRun(rest[:n], k.run):
		return 0, no
	}
	return len(k.prefix) + n, yes
}

// denseRun reports whether some part between hyphens has the length of a key and
// a digit.
func denseRun(text string, length int) bool {
	if length == 0 {
		return true
	}
	for part := range strings.SplitSeq(text, "-") {
		if len(part) >= length && strings.ContainsAny(part, "0123456789") {
			return true
		}
	}
	return false
}

const (
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END "
	pemKey   = "PRIVATE KEY-----"
	pemLabel = 16 // what may stand between: RSA, EC, OPENSSH, ENCRYPTED
)

// matchPEM looks whether a private key begins the text. One that was cut off, as
// long outputs are, is hidden up to where it ends.
func matchPEM(text string, final bool) (int, verdict) {
	if len(text) < len(pemBegin) {
		if !final && strings.HasPrefix(pemBegin, text) {
			return 0, maybe
		}
		return 0, no
	}
	rest, ok := strings.CutPrefix(text, pemBegin)
	if !ok {
		return 0, no
	}
	label := 0
	for label < len(rest) && label <= pemLabel && ('A' <= rest[label] && rest[label] <= 'Z' || rest[label] == ' ') && !strings.HasPrefix(rest[label:], pemKey) {
		label++
	}
	if !strings.HasPrefix(rest[label:], pemKey) {
		// The last letters may be the first of "PRIVATE KEY-----".
		if !final && len(rest) <= pemLabel+len(pemKey) && endsWithin(rest) {
			return 0, maybe
		}
		return 0, no
	}
	head := len(pemBegin) + label + len(pemKey)
	return matchBody(text, head, final)
}

// endsWithin reports whether the text can still become a label and pemKey.
func endsWithin(text string) bool {
	for i := range len(text) + 1 {
		if strings.HasPrefix(pemKey, text[i:]) {
			return true
		}
		if c := text[i]; c != ' ' && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return false
}

// matchBody measures a private key whose first line ends at head.
func matchBody(text string, head int, final bool) (int, verdict) {
	limit := min(len(text), maxPEM)
	n, run, dense := head, 0, false
	for ; n < limit; n++ {
		c := text[n]
		if strings.HasPrefix(text[n:limit], pemEnd) {
			if end := strings.Index(text[n+len(pemEnd):limit], "-----"); end >= 0 {
				n += len(pemEnd) + end + len("-----")
			} else if !final && limit < maxPEM {
				return 0, maybe
			}
			break
		}
		if alnum(c) || c == '+' || c == '/' || c == '=' {
			run++
			dense = dense || run >= minPEM
			continue
		}
		run = 0
		if strings.IndexByte(" \t\r\n\\:,-", c) < 0 { // also of headers, and escaped line ends
			break
		}
	}
	if n == len(text) && n < maxPEM && !final {
		return 0, maybe
	}
	if !dense {
		return 0, no
	}
	return n, yes
}

// nextShape finds the first well-known key from i on.
func (s *scanner) nextShape(i int) span {
	for ; ; i++ {
		i, _ = beginnings().next(s.text, i)
		if i == len(s.text) {
			return span{i, i}
		}
		if end, v := s.shapeAt(i); v == yes {
			return span{i, end}
		}
	}
}

// pendingShape finds the first place before limit where a key may begin that
// the text does not tell yet.
func (s *scanner) pendingShape(limit int) int {
	for i := max(0, len(s.text)-maxPEM); i < limit; i++ {
		if _, v := s.shapeAt(i); v == maybe {
			return i
		}
	}
	return limit
}

func (s *scanner) shapeAt(i int) (end int, v verdict) {
	switch s.text[i] {
	case 's', 'A', 'g', 'x', '-': // what a shape begins with
	default:
		return 0, no
	}
	before := s.before
	if i > 0 {
		before = s.text[i-1]
	}
	rest := s.text[i:]
	if rest[0] == '-' {
		end, v = matchPEM(rest, s.final)
		return i + end, v
	}
	if alnum(before) || before == '_' { // in the middle of a word, as in "task-"
		return 0, no
	}
	for _, k := range shapes {
		if end, v = k.match(rest, s.final); v != no {
			return i + end, v
		}
	}
	return 0, no
}
