package toolbox

import "strings"

// wildMatch matches a path against a glob by git's rules, byte by byte: "*",
// "?" and "[...]" stay inside one element, "**" between slashes spans any
// number of them. Only the latest "*" and the latest "**" are ever retried,
// which suffices because each earlier one already took the shortest match, and
// keeps a hostile glob from costing exponential time.
func wildMatch(glob, path string) bool {
	m := matcher{glob: glob, path: path, star: -1, deep: -1}
	for {
		switch {
		case m.g == len(glob) && m.p == len(path):
			return true
		case m.g < len(glob) && glob[m.g] == '*':
			if m.stars() {
				return true
			}
		case m.g < len(glob) && m.p < len(path) && m.one():
		case !m.retry():
			return false
		}
	}
}

type matcher struct {
	glob, path string
	g, p       int

	star, starPath int // where to go on after the latest "*", and from which byte
	deep, deepPath int // the same for "**"
	whole          bool
}

// stars reads a run of stars and reports whether it takes all that is left.
func (m *matcher) stars() bool {
	from := m.g
	for m.g < len(m.glob) && m.glob[m.g] == '*' {
		m.g++
	}
	rest := m.glob[m.g:]
	bounded := (from == 0 || m.glob[from-1] == '/') && (rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`))
	if m.g-from < 2 || !bounded {
		m.star, m.starPath = m.g, m.p
		return false
	}
	if rest == "" {
		return true
	}
	m.whole = rest[0] == '/'
	if m.whole {
		m.g++ // "**/" takes whole elements, none at first
	}
	m.star, m.deep, m.deepPath = -1, m.g, m.p
	return false
}

// one matches a single byte against the next element of the glob.
func (m *matcher) one() bool {
	c := m.path[m.p]
	n, ok := 1, false
	switch m.glob[m.g] {
	case '?':
		ok = c != '/'
	case '[':
		n, ok = matchClass(m.glob[m.g:], c)
		ok = ok && c != '/'
	case '\\':
		n, ok = 2, m.g+1 < len(m.glob) && m.glob[m.g+1] == c
	default:
		ok = m.glob[m.g] == c
	}
	if !ok {
		return false
	}
	m.g, m.p = m.g+n, m.p+1
	if c == '/' {
		m.star = -1
	}
	return true
}

// retry lets the latest star, else the latest double star, take more.
func (m *matcher) retry() bool {
	if m.star >= 0 && m.starPath < len(m.path) && m.path[m.starPath] != '/' {
		m.starPath++
		m.g, m.p = m.star, m.starPath
		return true
	}
	if m.deep < 0 || m.deepPath >= len(m.path) {
		return false
	}
	more := 1
	if m.whole {
		if more = strings.IndexByte(m.path[m.deepPath:], '/') + 1; more == 0 {
			return false
		}
	}
	m.deepPath += more
	m.star, m.g, m.p = -1, m.deep, m.deepPath
	return true
}

// matchClass matches c against the bracket expression that glob starts with and
// returns its length. An expression that never ends matches nothing.
func matchClass(glob string, c byte) (length int, ok bool) {
	i := 1
	negated := i < len(glob) && (glob[i] == '!' || glob[i] == '^')
	if negated {
		i++
	}
	found := false
	var low byte // start of a possible range, 0 if there is none
	for first := true; ; first = false {
		if i >= len(glob) {
			return 0, false
		}
		switch {
		case glob[i] == ']' && !first:
			return i + 1, found != negated
		case glob[i] == '-' && low != 0 && i+1 < len(glob) && glob[i+1] != ']':
			if i++; glob[i] == '\\' {
				if i++; i == len(glob) {
					return 0, false
				}
			}
			found = found || low <= c && c <= glob[i]
			low = 0
			i++
			continue
		case strings.HasPrefix(glob[i:], "[:"):
			name, closed := posixName(glob[i+2:])
			if closed {
				in, known := inPosixClass(name, c)
				if !known {
					return 0, false
				}
				found = found || in
				low = 0
				i += len(name) + 4
				continue
			}
		case glob[i] == '\\':
			if i++; i == len(glob) {
				return 0, false
			}
		}
		low = glob[i]
		found = found || low == c
		i++
	}
}

// posixName reads "name:]".
func posixName(s string) (name string, closed bool) {
	end := strings.IndexByte(s, ']')
	if end < 1 || s[end-1] != ':' {
		return "", false
	}
	return s[:end-1], true
}

func inPosixClass(name string, c byte) (in, known bool) {
	upper, lower, digit := 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9'
	graph := '!' <= c && c <= '~'
	switch name {
	case "alnum":
		return upper || lower || digit, true
	case "alpha":
		return upper || lower, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < ' ' || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return graph, true
	case "lower":
		return lower, true
	case "print":
		return graph || c == ' ', true
	case "punct":
		return graph && !upper && !lower && !digit, true
	case "space":
		return c == ' ' || '\t' <= c && c <= '\r', true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F', true
	}
	return false, false
}
