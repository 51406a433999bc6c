package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxToolName is what model providers accept.
const maxToolName = 64

var toolName = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

// definition is a tool as its server describes it.
type definition struct {
	tool    string // the server's name for it
	name    string // ours: server__tool
	text    json.RawMessage
	digest  string
	doc     string
	schema  json.RawMessage
	shape   shape
	harmful bool   // the server itself says that it destroys
	refusal string // why it can never be offered
}

// shape is the part of a schema that is checked before a call is sent.
type shape struct {
	Type                 any            `json:"type"`
	Properties           map[string]any `json:"properties"`
	Required             []string       `json:"required"`
	AdditionalProperties any            `json:"additionalProperties"`
}

// described is all of a definition that a person approves. The digest covers the
// server's own words, not what is left of them after cleaning.
type described struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitzero"`
	Description  string          `json:"description,omitzero"`
	InputSchema  any             `json:"inputSchema"`
	OutputSchema any             `json:"outputSchema,omitzero"`
	Annotations  json.RawMessage `json:"annotations,omitzero"`
}

// exposedName is the name a model knows a tool by. Providers accept neither dots
// nor slashes; where that makes two tools one, both are refused.
func exposedName(server, tool string) string {
	return server + "__" + strings.NewReplacer(".", "_", "/", "_").Replace(tool)
}

// define reads one tool of a list.
func define(server string, t *sdk.Tool, l Limits) definition {
	d := definition{tool: t.Name, name: exposedName(server, t.Name)}
	if !toolName.MatchString(t.Name) || len(d.name) > maxToolName {
		d.tool = cleanLine(t.Name, maxToolName)
		d.name = cleanLine(d.name, maxToolName)
		d.refusal = fmt.Sprintf("its name must be made of letters, digits, _ - . / and be at most %d long with the server's", maxToolName)
		return d
	}
	if err := d.read(t, l); err != nil {
		d.refusal = err.Error()
	}
	return d
}

func (d *definition) read(t *sdk.Tool, l Limits) error {
	var err error
	about := described{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema}
	if t.Annotations != nil {
		if about.Annotations, err = json.Marshal(t.Annotations); err != nil {
			return errors.New("its annotations cannot be written")
		}
		d.harmful = t.Annotations.DestructiveHint != nil && *t.Annotations.DestructiveHint && !t.Annotations.ReadOnlyHint
	}
	if d.text, err = canonicalText(about); err != nil {
		return errors.New("its definition is not strict JSON")
	}
	if len(d.text) > 2*l.SchemaBytes {
		size := len(d.text)
		d.text = nil
		return fmt.Errorf("its definition is %d bytes long, at most %d are allowed", size, 2*l.SchemaBytes)
	}
	d.digest = digestOf(d.text)
	if d.schema, err = canonicalText(cleanSchema(t.InputSchema, l.DescriptionRunes)); err != nil || len(d.schema) > l.SchemaBytes {
		return fmt.Errorf("its schema is too long, at most %d bytes are allowed", l.SchemaBytes)
	}
	if err := jsonv2.Unmarshal(d.schema, &d.shape); err != nil || d.shape.Type != "object" {
		return errors.New("its schema does not describe an object")
	}
	d.doc = clean(t.Description, l.DescriptionRunes)
	if d.doc == "" {
		d.doc = clean(t.Title, l.DescriptionRunes)
	}
	return nil
}

// refuseShadows refuses every tool whose name another tool of the server has, in
// whatever case: a person and a model must never take one for the other.
func refuseShadows(list []definition) {
	count := make(map[string]int, len(list))
	for _, d := range list {
		count[strings.ToLower(d.name)]++
	}
	for i, d := range list {
		if n := count[strings.ToLower(d.name)]; n > 1 && d.refusal == "" {
			list[i].refusal = fmt.Sprintf("%d tools of the server have this name", n)
		}
	}
}

// check finds mistakes a model can mend without asking the server.
func (s shape) check(args json.RawMessage) error {
	var given map[string]json.RawMessage
	if err := jsonv2.Unmarshal(args, &given); err != nil {
		return fmt.Errorf("reading arguments: %w", err)
	}
	var wrong []string
	for _, name := range s.Required {
		if _, ok := given[name]; !ok {
			wrong = append(wrong, fmt.Sprintf("%q is missing", cleanLine(name, 80)))
		}
	}
	if s.AdditionalProperties == false {
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if _, ok := s.Properties[name]; !ok {
				wrong = append(wrong, fmt.Sprintf("%q is not a field here", cleanLine(name, 80)))
			}
		}
	}
	const most = 8
	if len(wrong) > most {
		wrong = append(wrong[:most], fmt.Sprintf("and %d more", len(wrong)-most))
	}
	if len(wrong) > 0 {
		return errors.New("wrong arguments: " + strings.Join(wrong, "; "))
	}
	return nil
}
