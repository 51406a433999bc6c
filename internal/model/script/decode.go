package script

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxProblems is how many mistakes one Parse reports.
const maxProblems = 10

// decoder reads YAML nodes strictly and remembers where each mistake is.
type decoder struct {
	file     string
	problems []error
}

// Problem is one mistake in a script.
type Problem struct {
	File         string
	Line, Column int
	Text         string // what is wrong and what to write instead
}

func (p *Problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, &Problem{d.file, n.Line, n.Column, fmt.Sprintf(format, args...)})
	}
}

// document returns the one value of a file.
func (d *decoder) document(data []byte) (*yaml.Node, error) {
	top := &yaml.Node{Line: 1, Column: 1}
	if len(data) > MaxBytes {
		d.fail(top, "the script has more than %d bytes; split it", MaxBytes)
		return nil, d.problems[0]
	}
	var doc, second yaml.Node
	reader := yaml.NewDecoder(bytes.NewReader(data))
	err := reader.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		d.fail(top, "the script is empty; write `replies:` and a list")
	case err != nil:
		d.syntax(err)
	default:
		if err := reader.Decode(&second); err == nil {
			d.fail(&second, "a script is one YAML document; remove the second")
		} else if !errors.Is(err, io.EOF) {
			d.syntax(err)
		}
	}
	if len(d.problems) > 0 {
		return nil, d.problems[0]
	}
	return doc.Content[0], nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax reports an error of the YAML reader, which knows only the line.
func (d *decoder) syntax(err error) {
	at := &yaml.Node{Line: 1, Column: 1}
	text := err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if line, err := strconv.Atoi(m[1]); err == nil {
			at.Line = line
		}
	}
	d.fail(at, "not YAML: %s", text)
}

type fields map[string]func(*yaml.Node)

// fields reads a mapping and returns which fields it has, nil if it is none.
func (d *decoder) fields(n *yaml.Node, what string, read fields) map[string]bool {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "%s is a mapping, not %s; write some of: %s", what, describe(n), names(read))
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		set, known := read[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || !known:
			d.fail(key, "%s has no field %s; write some of: %s", what, describe(key), names(read))
		case seen[key.Value]:
			d.fail(key, "%s has the field %s twice; remove one", what, describe(key))
		default:
			seen[key.Value] = true
			set(value)
		}
	}
	return seen
}

func names(f fields) string { return strings.Join(slices.Sorted(maps.Keys(f)), ", ") }

// each reads a list that is not empty.
func (d *decoder) each(n *yaml.Node, what string, most int, read func(*yaml.Node)) {
	switch {
	case n.Kind != yaml.SequenceNode:
		d.fail(n, "%s is a list, not %s; begin each of its items with `- `", what, describe(n))
	case len(n.Content) == 0:
		d.fail(n, "%s is empty; leave it out or write an item", what)
	case len(n.Content) > most:
		d.fail(n, "%s has %d items; write at most %d", what, len(n.Content), most)
	default:
		for _, item := range n.Content {
			read(item)
		}
	}
}

// text reads a string. With the tag !!binary it may hold bytes that are no text.
func (d *decoder) text(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		return n.Value
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!binary":
		value, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			d.fail(n, "not base64 (%v); write base64 after !!binary", err)
		}
		return string(value)
	}
	d.fail(n, "this is %s; write a string, in quotes if need be", describe(n))
	return ""
}

func (d *decoder) someText(n *yaml.Node) string {
	before := len(d.problems)
	s := d.text(n)
	if s == "" && len(d.problems) == before {
		d.fail(n, "this is empty; write some text or leave it out")
	}
	return s
}

func (d *decoder) integer(n *yaml.Node) int64 {
	value, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil {
		d.fail(n, "this is %s; write a whole number", describe(n))
		return 0
	}
	return value
}

func (d *decoder) number(n *yaml.Node, least, most int) int {
	before := len(d.problems)
	value := d.integer(n)
	if len(d.problems) == before && (value < int64(least) || value > int64(most)) {
		d.fail(n, "%d is out of range; write a number from %d to %d", value, least, most)
		return least
	}
	return int(value)
}

func (d *decoder) flag(n *yaml.Node) bool {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
		switch n.Value {
		case "true":
			return true
		case "false":
			return false
		}
	}
	d.fail(n, "this is %s; write true or false", describe(n))
	return false
}

func (d *decoder) duration(n *yaml.Node, most time.Duration) time.Duration {
	value, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil:
		d.fail(n, "this is %s; write a duration with its unit, such as 10ms or 2s", describe(n))
		return 0
	case value < 0 || value > most:
		d.fail(n, "%v is out of range; write a duration from 0s to %v", value, most)
		return 0
	}
	return value
}

func (d *decoder) pattern(n *yaml.Node) *regexp.Regexp {
	source := d.someText(n)
	pattern, err := regexp.Compile(source)
	if err != nil {
		d.fail(n, "%v; write a pattern of RE2 syntax", err)
		// A reply without its pattern would be another reply.
		return regexp.MustCompile(`\z.`)
	}
	return pattern
}

// describe says what a node is, for a message about what it should be.
func describe(n *yaml.Node) string {
	const longest = 40
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias (aliases are not read: write the value out)"
	}
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	value := n.Value
	if len(value) > longest {
		value = strings.ToValidUTF8(value[:longest], "") + "…"
	}
	return strconv.Quote(value)
}
