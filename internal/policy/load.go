package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// MaxFileBytes is the largest policy file that is read.
	MaxFileBytes = 1 << 20

	maxRules    = 1000
	maxItems    = 200
	maxProblems = 10
)

// Problem is one mistake in a policy file.
type Problem struct {
	File         string
	Line, Column int
	Rule         string // the id of the rule it is in, if it has one
	Text         string // what is wrong and what to write instead
}

func (p *Problem) Error() string {
	where := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Rule != "" {
		where += "rule " + p.Rule + ": "
	}
	return where + p.Text
}

// Load reads the rules of a policy file and tries them on their own examples.
// The error holds a Problem for every mistake, up to a limit.
//
//	rules:
//	  - id: git-log
//	    decision: allow
//	    command: [git, log]
//	    flags: [--oneline, -n=]
//	    match: [git log --oneline]
//	    not_match: [git log --output=x]
//	  - id: secrets
//	    tool: "*"
//	    decision: deny
//	    reason: secrets stay where they are
//	    args: {path: "**/.env"}
//	  - id: manual
//	    tool: Fetch
//	    decision: allow
//	    args: {url: "https://example.org/manual/**"}
func Load(file string, b []byte) (Rules, error) { return readRules(file, b, true) }

func readRules(file string, b []byte, try bool) (Rules, error) {
	l := &loader{file: file, untried: !try}
	top := &yaml.Node{Line: 1, Column: 1}
	if len(b) > MaxFileBytes {
		l.fail(top, "the file has more than %d bytes; write fewer rules", MaxFileBytes)
		return nil, errors.Join(l.problems...)
	}
	reader := yaml.NewDecoder(bytes.NewReader(b))
	var document, second yaml.Node
	err := reader.Decode(&document)
	switch {
	case errors.Is(err, io.EOF):
		return Rules{}, nil
	case err != nil:
		l.syntax(err)
	default:
		if err := reader.Decode(&second); !errors.Is(err, io.EOF) {
			l.fail(top, "there is more than one YAML document; keep one")
		}
		l.document(document.Content[0])
	}
	if len(l.problems) > 0 {
		return nil, errors.Join(l.problems...)
	}
	return l.rules, nil
}

// loader reads YAML nodes strictly and remembers where each mistake is.
type loader struct {
	file     string
	untried  bool // examples are not looked at
	rule     string
	problems []error
	rules    Rules
}

func (l *loader) fail(n *yaml.Node, format string, args ...any) {
	if len(l.problems) < maxProblems {
		l.problems = append(l.problems, &Problem{l.file, n.Line, n.Column, l.rule, fmt.Sprintf(format, args...)})
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax reports an error of the YAML reader, which knows only the line.
func (l *loader) syntax(err error) {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text + " ")
	line := 1
	if m != nil {
		text = strings.TrimPrefix(text, m[0])
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	l.fail(&yaml.Node{Line: line, Column: 1}, "not YAML: %s", text)
}

func (l *loader) document(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	l.fields(n, "a policy file", map[string]func(*yaml.Node){"rules": func(list *yaml.Node) {
		l.each(list, "rules", maxRules, func(item *yaml.Node) {
			l.rule = ""
			l.readRule(item)
			l.rule = ""
		})
	}})
}

// example is a call a rule must or must not cover.
type example struct {
	at    *yaml.Node
	match bool
}

func (l *loader) readRule(n *yaml.Node) {
	var r Rule
	var examples []example
	before := len(l.problems)
	l.rule = idOf(n)
	text := func(to *string) func(*yaml.Node) { return func(n *yaml.Node) { *to = l.text(n) } }
	list := func(to *[]string, what string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			l.each(n, what, maxItems, func(item *yaml.Node) { *to = append(*to, l.text(item)) })
		}
	}
	cases := func(match bool, what string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			l.each(n, what, maxItems, func(item *yaml.Node) { examples = append(examples, example{at: item, match: match}) })
		}
	}
	l.fields(n, "a rule", map[string]func(*yaml.Node){
		"id": text(&r.ID), "tool": text(&r.Tool), "decision": text((*string)(&r.Decision)), "reason": text(&r.Reason),
		"command": list(&r.Command, "command"), "flags": list(&r.Flags, "flags"), "operands": text(&r.Operands),
		"args": func(n *yaml.Node) { r.Args = l.args(n) }, "match": cases(true, "match"), "not_match": cases(false, "not_match"),
	})
	if r.Tool == "" && len(r.Command) > 0 {
		r.Tool = ShellTool
	}
	if len(l.problems) > before {
		return
	}
	for _, why := range r.problems() {
		l.fail(n, "%s", why)
	}
	for _, other := range l.rules {
		if other.ID == r.ID {
			l.fail(n, "another rule has the same id; give each its own")
		}
	}
	if len(l.problems) == before && !l.untried {
		l.try(r, examples)
	}
	l.rules = append(l.rules, r)
}

// idOf finds the id of a rule before anything else is read, for the messages.
func idOf(n *yaml.Node) string {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "id" {
			return shorten(n.Content[i+1].Value)
		}
	}
	return ""
}

// fields reads a mapping that has only the fields named, each at most once.
func (l *loader) fields(n *yaml.Node, what string, read map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		l.fail(n, "%s is a mapping; write some of: %s", what, names(read))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		set, known := read[key.Value]
		switch {
		case !known || key.Kind != yaml.ScalarNode:
			l.fail(key, "%s has no field %q; write some of: %s", what, shorten(key.Value), names(read))
		case seen[key.Value]:
			l.fail(key, "%s has the field %s twice; remove one", what, key.Value)
		default:
			seen[key.Value] = true
			set(value)
		}
	}
}

// each reads a list. Aliases are neither lists nor texts here, so a small file
// cannot stand for a large one.
func (l *loader) each(n *yaml.Node, what string, most int, read func(*yaml.Node)) {
	switch {
	case n.Kind != yaml.SequenceNode:
		l.fail(n, "%s is a list; write it as [a, b] or begin each item with `- `", what)
	case len(n.Content) > most:
		l.fail(n, "%s has %d items; write at most %d", what, len(n.Content), most)
	default:
		for _, item := range n.Content {
			read(item)
		}
	}
}

func (l *loader) text(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		l.fail(n, "this is no text; write a string, in quotes if need be")
	}
	return n.Value
}

// args reads a mapping of fields to patterns.
func (l *loader) args(n *yaml.Node) map[string]string {
	if n.Kind != yaml.MappingNode || len(n.Content) > 2*maxItems {
		l.fail(n, "args is a mapping of at most %d fields; write {field: pattern}", maxItems)
		return nil
	}
	args := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := l.text(n.Content[i])
		if _, twice := args[name]; twice {
			l.fail(n.Content[i], "args has the field %s twice; remove one", shorten(name))
		}
		args[name] = l.text(n.Content[i+1])
	}
	return args
}
