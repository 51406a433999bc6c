package policy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	"stave/internal/machine/tool"
)

const (
	maxTextBytes = 1 << 10
	// Patterns may come with a project, so what makes comparing slow is bounded.
	maxBraces, maxDoubleStars = 4, 8
)

// projectPrefix marks the rules that came with a project.
const projectPrefix = "project/"

// isName holds for 1 to 64 small letters, digits, dots, dashes and underscores,
// of which the first is a letter or a digit.
func isName(id string) bool {
	const most = 64
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || i > 0 && strings.IndexByte("._-", c) >= 0) {
			return false
		}
	}
	return 0 < len(id) && len(id) <= most
}

var reserved = []string{
	readsRule, readOnlyRule, yoloRule, allowlistRule, rememberedRule, guardRule, taintRule, destructiveRule,
	protectedRule, repeatsRule, HeadlessRule, "rule:" + unreadableID,
}

// problems says everything that is wrong with a rule, each with what to write.
func (r Rule) problems() []string {
	var list []string
	bad := func(is bool, format string, args ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	id := strings.TrimPrefix(r.ID, projectPrefix)
	bad(!isName(id), "the id %q is no name; write small letters, digits, dots and dashes", shorten(r.ID))
	bad(slices.Contains(reserved, r.by()), "the id %s is taken by a built-in rule; choose another", r.ID)
	bad(r.Decision != tool.Allow && r.Decision != tool.Ask && r.Decision != tool.Refuse,
		"the decision %q is unknown; write allow, ask or deny", shorten(string(r.Decision)))
	bad(r.Tool == "", "it names no tool; write tool: and a name or a glob")
	bad(badPattern(r.Tool), "the tool %q is no glob; check its brackets and braces", shorten(r.Tool))
	bad(len(r.Reason) > maxTextBytes || !utf8.ValidString(r.Reason), "the reason is longer than %d bytes; shorten it", maxTextBytes)
	bad(len(r.Command) > 0 && len(r.Args) > 0, "it has both command and args; write two rules")
	if len(r.Command) > 0 {
		return append(list, r.commandProblems()...)
	}
	bad(len(r.Flags) > 0 || r.Operands != "", "flags and operands need a command; write command: [program]")
	bad(r.Tool == ShellTool && len(r.Args) > 0, "the arguments of %s are not compared as text; write command: [program]", ShellTool)
	bad(r.Tool == ShellTool && r.Decision == tool.Allow, "it would allow every shell command; write command: [program] and its flags")
	for _, name := range slices.Sorted(maps.Keys(r.Args)) {
		pattern := r.Args[name]
		bad(badPattern(pattern), "the pattern %q of %s is no glob; check its brackets and braces", shorten(pattern), shorten(name))
		bad(r.Decision == tool.Allow && isPathField(name) && leadsOut(pattern),
			"the pattern %q of %s leads out of the workspace; write one relative to its top", shorten(pattern), shorten(name))
		_, good := readAddressPattern(pattern)
		bad(r.Decision == tool.Allow && isAddressField(name) && !good,
			"the pattern %q of %s is no address; write https://host/path, with *.host for all hosts below one and globs in the path only", shorten(pattern), shorten(name))
	}
	return list
}

func (r Rule) commandProblems() []string {
	var list []string
	bad := func(is bool, format string, args ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	name := r.Command[0]
	bad(r.Tool != ShellTool, "a command is for the tool %s; leave tool out", ShellTool)
	bad(!slices.Contains([]string{"", OperandsNone, OperandsPaths, OperandsAny}, r.Operands),
		"operands %q is unknown; write none, paths or any", shorten(r.Operands))
	for _, w := range r.Command {
		bad(w == "" || len(w) > maxTextBytes || strange(w, bareByte) != "",
			"the word %q of the command is not a plain word; write each word of it by itself, without patterns", shorten(w))
	}
	for _, f := range r.Flags {
		bad(!goodFlag(f), "the flag %q is none; write it as -x, --long, -x= or --long= (with a value), -# or +=", shorten(f))
	}
	if r.Decision != tool.Allow {
		bad(r.Operands != "", "operands are for allow rules; leave them out")
		return list
	}
	base := path.Base(name)
	bad(!bareName(name) || shellWords[name], "%q is not a program, so it cannot run by itself; no rule may allow it", shorten(name))
	bad(startsOthers[base] || readsScripts[base], "%s runs any other command; write a rule for that command instead", shorten(name))
	bad(readsPrograms[base] && !slices.ContainsFunc(r.Command[1:], func(w string) bool { return !isFlag(w) }),
		"%s does whatever its first word says; write that word as well, as in [git, log]", shorten(name))
	return list
}

func goodFlag(f string) bool {
	if f == "+=" || f == "-" || f == "--" {
		return true
	}
	stem := strings.TrimSuffix(f, "=")
	return len(stem) > 1 && len(stem) <= maxTextBytes && stem[0] == '-' && stem != "--" && strange(strings.ReplaceAll(stem, "#", ""), bareByte) == "" &&
		(!strings.Contains(stem, "#") || f == "-#")
}

// badPattern reports a glob that cannot be read or takes too long to compare.
func badPattern(pattern string) bool {
	return len(pattern) > maxTextBytes || !utf8.ValidString(pattern) || !doublestar.ValidatePattern(pattern) ||
		strings.Count(pattern, "{") > maxBraces || strings.Count(pattern, "**") > maxDoubleStars
}

func leadsOut(pattern string) bool {
	return strings.HasPrefix(pattern, "/") || slices.Contains(strings.Split(pattern, "/"), "..")
}

// try holds a rule against its examples. An example is a shell command, or the
// arguments of a call.
func (l *loader) try(r Rule, examples []example) {
	for _, e := range examples {
		c := tool.Call{Tool: r.Tool}
		switch {
		case len(r.Command) > 0 || r.Tool == ShellTool:
			c.Tool = ShellTool
			c.Arguments = marshal(map[string]string{"command": l.text(e.at)})
		case e.at.Kind == yaml.MappingNode:
			c.Arguments = marshal(l.args(e.at))
		default:
			c.Tool, c.Arguments = l.text(e.at), []byte("{}")
		}
		covered := Rules{r}.judge(subjectOf("", c, Rules{r})).verdict.Answer == r.Decision
		switch {
		case e.match && !covered:
			l.fail(e.at, "the rule does not cover this example; change the rule or move the example to not_match")
		case !e.match && covered:
			l.fail(e.at, "the rule covers this example and should not; narrow the rule or move the example to match")
		}
	}
}

// marshal writes text fields as JSON; texts that are no UTF-8 leave nothing.
func marshal(fields map[string]string) []byte {
	b, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return b
}

func names(read map[string]func(*yaml.Node)) string {
	return strings.Join(slices.Sorted(maps.Keys(read)), ", ")
}

const maxQuoted = 80

// shorten keeps what is quoted in a message small.
func shorten(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
