package policy

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"stave/internal/machine/tool"
)

// address is a URL taken apart, without its query. Only what all programs read
// alike has one: no user, no unusual letters, no path that leads up.
type address struct {
	scheme, host string
	port         string // empty for the scheme's own
	path         string // decoded; at least "/"
}

// isAddressField reports whether a field holds a URL, which its name tells.
func isAddressField(name string) bool {
	for _, end := range []string{"url", "uri"} {
		if name == end || strings.HasSuffix(name, "_"+end) {
			return true
		}
	}
	return false
}

// fitsAddress compares a URL. An allow rule compares what the URL means and
// nothing else; to the others it is enough that the text looks like it, and an
// address that can be read in two ways is worth a question.
func (r Rule) fitsAddress(pattern, text string) certainty {
	value, plain := readAddress(text)
	want, good := readAddressPattern(pattern)
	if r.Decision == tool.Allow {
		if plain && good && want.port == value.port && want.covers(value) && globMatch(want.path, value.path) {
			return yes
		}
		return no
	}
	lower := strings.ToLower(pattern)
	switch {
	case globMatch(pattern, text) || globMatch(lower, strings.ToLower(text)):
		return yes
	case !plain:
		return maybe
	case good && (want.port == "" || want.port == value.port) && want.covers(value) && globMatch(strings.ToLower(want.path), strings.ToLower(value.path)):
		return yes
	}
	return no
}

// covers compares scheme and host. A host is compared as a whole or by the
// labels at its end, so evil-example.org is never example.org.
func (p address) covers(a address) bool {
	if p.scheme != a.scheme {
		return false
	}
	below, all := strings.CutPrefix(p.host, "*")
	return p.host == a.host || all && strings.HasSuffix(a.host, below)
}

// readAddress takes a URL apart, and refuses what it is not sure of.
func readAddress(text string) (address, bool) {
	for i := range len(text) {
		if c := text[i]; !letterOrDigit(c) && !strings.ContainsRune("-._~:/?#@!$&'()*+,;=%[]", rune(c)) {
			return address{}, false
		}
	}
	text, _, _ = strings.Cut(text, "#")
	text, _, _ = strings.Cut(text, "?")
	a, ok := splitAddress(text)
	if !ok || !plainHost(a.host) {
		return address{}, false
	}
	a.path, ok = plainPath(a.path)
	return a, ok
}

// readAddressPattern takes a pattern apart. Its host is a name, "*.name" for all
// hosts below it, or "*"; its path is a glob.
func readAddressPattern(pattern string) (address, bool) {
	a, ok := splitAddress(pattern)
	host, below := strings.CutPrefix(a.host, "*.")
	ok = ok && (plainHost(host) || !below && host == "*") && !strings.ContainsAny(a.path, `?#%\`)
	return a, ok
}

// splitAddress cuts a text into its parts without looking into them, but for the
// port: a scheme's own port says nothing.
func splitAddress(text string) (address, bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !plainScheme(scheme) {
		return address{}, false
	}
	host, path := rest, "/"
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	host, port, given := strings.Cut(host, ":")
	if given && (!number(port) || port[0] == '0') {
		return address{}, false
	}
	a := address{strings.ToLower(scheme), strings.ToLower(host), port, path}
	if a.scheme == "https" && port == "443" || a.scheme == "http" && port == "80" {
		a.port = ""
	}
	return a, true
}

func plainScheme(scheme string) bool {
	return scheme != "" && strange(scheme, letterOrDigit) == "" && !number(scheme[:1])
}

func plainHost(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		if !plainLabel(label) {
			return false
		}
	}
	return true
}

func plainLabel(label string) bool {
	for i := range len(label) {
		if c := label[i]; !letterOrDigit(c) && c != '-' && c != '_' {
			return false
		}
	}
	return label != "" && label[0] != '-' && label[len(label)-1] != '-'
}

// plainPath decodes a path, and refuses one that some server reads as another:
// dots that lead up, also before a parameter, and separators in disguise.
func plainPath(path string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			b.WriteByte(path[i])
			continue
		}
		c, err := hex.DecodeString(path[i+1 : min(i+3, len(path))])
		if err != nil || len(c) != 1 || c[0] < ' ' || c[0] == 0x7f || strings.IndexByte(`./\%;`, c[0]) >= 0 {
			return "", false
		}
		b.WriteByte(c[0])
		i += 2
	}
	for part := range strings.SplitSeq(b.String(), "/") {
		if name, _, _ := strings.Cut(part, ";"); name == "." || name == ".." {
			return "", false
		}
	}
	return b.String(), utf8.ValidString(b.String())
}
