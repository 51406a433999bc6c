package toolbox

import (
	"io"
	"os"
	"strings"
)

const (
	ignoreName = ".gitignore"
	// excludeName is the ignore file that a clone keeps for itself.
	excludeName     = ".git/info/exclude"
	maxIgnoreBytes  = 1 << 20
	maxIgnoreRules  = 10_000
	maxIgnoreLength = 1 << 10
)

// ignores are the rules of one directory on top of those of its parents. A nil
// *ignores ignores nothing.
type ignores struct {
	above *ignores
	base  string // the directory, "" for the top
	rules []ignoreRule
}

// ignoreRule is one line of a .gitignore.
type ignoreRule struct {
	glob    string
	literal int  // how many leading bytes of glob are no wildcard
	keeps   bool // "!": takes a name out again
	dirOnly bool
	byName  bool // no slash: matches the last element at any depth
}

// match reports whether the last rule that fits says to ignore the path, which
// is relative to the workspace. It looks at this path only: who walks does not
// enter an ignored directory, so nothing below one is ever asked about.
func (g *ignores) match(path string, isDir bool) bool {
	for ; g != nil; g = g.above {
		local := path
		if g.base != "" {
			local = path[len(g.base)+1:]
		}
		for i := len(g.rules) - 1; i >= 0; i-- {
			if r := &g.rules[i]; (isDir || !r.dirOnly) && r.match(local) {
				return !r.keeps
			}
		}
	}
	return false
}

func (r *ignoreRule) match(path string) bool {
	if r.byName {
		return wildMatch(r.glob, path[strings.LastIndexByte(path, '/')+1:])
	}
	// Git compares the literal start first and hands only the rest to its
	// matcher, so that in "a**/b" the stars count as standing at the start.
	rest, ok := strings.CutPrefix(path, r.glob[:r.literal])
	return ok && wildMatch(r.glob[r.literal:], rest)
}

// under adds the rules of an ignore file in dir to those above it.
func (g *ignores) under(root *os.Root, file, dir string) *ignores {
	f, _, err := openRegular(root, file)
	if err != nil {
		return g // an ignore file that cannot be read hides nothing
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes))
	if err != nil {
		return g
	}
	rules := parseIgnore(string(text))
	if len(rules) == 0 {
		return g
	}
	return &ignores{above: g, base: dir, rules: rules}
}

func parseIgnore(text string) []ignoreRule {
	var rules []ignoreRule
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\uFEFF"), "\n") {
		if rule, ok := parseIgnoreLine(strings.TrimSuffix(line, "\r")); ok && len(rules) < maxIgnoreRules {
			rules = append(rules, rule)
		}
	}
	return rules
}

func parseIgnoreLine(line string) (ignoreRule, bool) {
	if strings.HasPrefix(line, "#") || len(line) > maxIgnoreLength {
		return ignoreRule{}, false
	}
	var r ignoreRule
	r.glob, r.keeps = strings.CutPrefix(trimSpaces(line), "!")
	r.glob, r.dirOnly = strings.CutSuffix(r.glob, "/")
	r.byName = !strings.Contains(r.glob, "/")
	r.glob = strings.TrimPrefix(r.glob, "/")
	r.literal = strings.IndexAny(r.glob, `*?[\`)
	if r.literal < 0 {
		r.literal = len(r.glob)
	}
	return r, r.glob != ""
}

// trimSpaces cuts the spaces at the end of a line, except where a backslash
// protects them.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}
