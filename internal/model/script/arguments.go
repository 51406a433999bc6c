package script

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// arguments turns a mapping into JSON, its fields in the order written.
func (d *decoder) arguments(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "args is a mapping, not %s; use `raw` for text that is sent as it is", describe(n))
		return ""
	}
	return string(d.json(nil, n, 0))
}

func (d *decoder) json(out []byte, n *yaml.Node, depth int) []byte {
	if depth > MaxDepth {
		d.fail(n, "the arguments are nested more than %d deep; use `raw`", MaxDepth)
		return out
	}
	switch n.Kind {
	case yaml.MappingNode:
		return d.jsonObject(out, n, depth)
	case yaml.SequenceNode:
		out = append(out, '[')
		for i, item := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			out = d.json(out, item, depth+1)
		}
		return append(out, ']')
	case yaml.ScalarNode:
		return d.jsonScalar(out, n)
	}
	d.fail(n, "this is %s; write plain JSON values, or use `raw`", describe(n))
	return out
}

func (d *decoder) jsonObject(out []byte, n *yaml.Node, depth int) []byte {
	seen := map[string]bool{}
	out = append(out, '{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			d.fail(key, "this is %s; write a string as the name, in quotes if need be", describe(key))
			continue
		case seen[key.Value]:
			d.fail(key, "the name %s is there twice; remove one, or use `raw`", describe(key))
			continue
		}
		seen[key.Value] = true
		if i > 0 {
			out = append(out, ',')
		}
		out = append(d.jsonString(out, key), ':')
		out = d.json(out, n.Content[i+1], depth+1)
	}
	return append(out, '}')
}

func (d *decoder) jsonScalar(out []byte, n *yaml.Node) []byte {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return d.jsonString(out, n)
	case "!!null":
		return append(out, "null"...)
	case "!!bool":
		if word := strings.ToLower(n.Value); word == "true" || word == "false" {
			return append(out, word...)
		}
		d.fail(n, "this is %s; write true or false", describe(n))
		return out
	case "!!int", "!!float":
		number := jsontext.Value(n.Value)
		if number.IsValid() && number.Kind() == '0' {
			return append(out, n.Value...)
		}
		d.fail(n, "this is %s; write the number as JSON does, or use `raw`", describe(n))
		return out
	}
	d.fail(n, "this is %s with the tag %s; write plain JSON values, or use `raw`", describe(n), n.ShortTag())
	return out
}

func (d *decoder) jsonString(out []byte, n *yaml.Node) []byte {
	quoted, err := jsontext.AppendQuote(out, n.Value)
	if err != nil {
		d.fail(n, "this is %s: %v; use `raw`", describe(n), err)
	}
	return quoted
}
