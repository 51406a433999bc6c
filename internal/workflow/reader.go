package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep values in a file are nested.
const maxDepth = 64

// reader takes fields out of YAML nodes and remembers where each was.
type reader struct {
	file     string
	problems Problems
	lines    map[string]int
	astray   bool // text of a Markdown file belongs to no stage
}

// field is one key of a mapping.
type field struct {
	key   string
	value *yaml.Node
}

func (r *reader) failAt(line int, where, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: line, Where: where, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) fail(n *yaml.Node, where, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	r.failAt(line, where, format, args...)
}

// fields lists a mapping's keys, each known and there once.
func (r *reader) fields(n *yaml.Node, where string, known []string) []field {
	if n.Kind != yaml.MappingNode {
		r.fail(n, where, "this is %s; write fields: %s", describe(n), list(known))
		return nil
	}
	var all []field
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fail(key, where, "a field's name is %s; write text", describe(key))
		case seen[key.Value]:
			r.fail(key, where, "%s is there twice; keep one", key.Value)
		case known != nil && !slices.Contains(known, key.Value):
			r.fail(key, where, "there is no field %.80q; %s", key.Value, Instead(key.Value, known))
		default:
			all = append(all, field{key.Value, value})
		}
		seen[key.Value] = true
	}
	return all
}

// at remembers the line of a value. A block of text begins below its key.
func (r *reader) at(place string, n *yaml.Node) {
	line := n.Line
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		line++
	}
	r.lines[place] = line
}

func (r *reader) text(n *yaml.Node, where string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.fail(n, where, "this is %s; write text", describe(n))
		return ""
	}
	return n.Value
}

func (r *reader) integer(n *yaml.Node, where string) int64 {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || err != nil {
		r.fail(n, where, "this is %s; write a whole number", describe(n))
	}
	return v
}

func (r *reader) duration(n *yaml.Node, where string) time.Duration {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < 0 {
		r.fail(n, where, "this is %s; write a time such as 30s or 10m", describe(n))
	}
	return v
}

func (r *reader) texts(n *yaml.Node, where string) []string {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, where, "this is %s; write a list such as [a, b]", describe(n))
		return nil
	}
	all := make([]string, 0, len(n.Content))
	for _, item := range n.Content {
		all = append(all, r.text(item, where))
	}
	return all
}

// describe names what a node is for a person.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return fmt.Sprintf("the alias *%.40s, and aliases are not followed", n.Value)
	}
	if n.ShortTag() == "!!null" {
		return "empty"
	}
	return fmt.Sprintf("%.60q", n.Value)
}

// json turns a node into JSON with the fields in the order written.
func (r *reader) json(out []byte, n *yaml.Node, where string, depth int) []byte {
	if depth > maxDepth {
		r.fail(n, where, "this is nested more than %d deep; make it flatter", maxDepth)
		return out
	}
	switch n.Kind {
	case yaml.MappingNode:
		out = append(out, '{')
		for i, f := range r.fields(n, where, nil) {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(quote(out, f.key), ':')
			out = r.json(out, f.value, where, depth+1)
		}
		return append(out, '}')
	case yaml.SequenceNode:
		out = append(out, '[')
		for i, item := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			out = r.json(out, item, where, depth+1)
		}
		return append(out, ']')
	case yaml.ScalarNode:
		return r.scalar(out, n, where)
	}
	r.fail(n, where, "this is %s; write the value out", describe(n))
	return out
}

func (r *reader) scalar(out []byte, n *yaml.Node, where string) []byte {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return quote(out, n.Value)
	case "!!null":
		return append(out, "null"...)
	case "!!bool":
		if word := strings.ToLower(n.Value); word == "true" || word == "false" {
			return append(out, word...)
		}
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return append(out, n.Value...)
		}
	}
	r.fail(n, where, "%s is no JSON value; write true, false, a decimal number, or text in quotes", describe(n))
	return out
}

func quote(out []byte, text string) []byte {
	b, _ := json.Marshal(text) // text always has a JSON form
	return append(out, b...)
}
