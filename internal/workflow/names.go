package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// body checks a stage's prompt and the names in it.
func (c *checker) body(i int, s Stage) {
	switch {
	case strings.TrimSpace(s.Body) == "":
		c.failIn(i, "body", "it is missing; write what the model has to do in this stage")
	case len(s.Body) > MaxBody:
		c.failIn(i, "body", "it has %d bytes, at most %d are allowed; shorten it", len(s.Body), MaxBody)
		return // looking for names takes the longer the larger it is
	}
	line := c.lineOf(i, "body")
	fail := func(offset int, text string) {
		if line > 0 {
			offset += line
		}
		c.failAt(offset, c.where(i, "body"), "%s", text)
	}
	pieces, wrong := split(s.Body)
	for _, f := range wrong {
		fail(f.line, f.text)
	}
	for _, p := range pieces {
		if p.path == nil {
			continue
		}
		if text := c.name(i, s.gateScope(), p.path); text != "" {
			fail(p.line, fmt.Sprintf("{{%s}}: %s", strings.Join(p.path, "."), text))
		}
	}
}

// rules checks a stage's expressions and its own names.
func (c *checker) rules(i int, s Stage) {
	if len(s.Context) > MaxInputs || len(s.Next) > MaxChoices {
		c.failIn(i, "", "it has %d names in context and %d choices in next, at most %d and %d are allowed; remove some",
			len(s.Context), len(s.Next), MaxInputs, MaxChoices)
		return
	}
	for n, in := range s.Context {
		field := "context." + in.Name
		if err := CheckID(in.Name); err != nil {
			c.failIn(i, field, "%v", err)
			continue
		}
		if slices.Contains(contextNames, in.Name) || slices.Index(s.inputNames(), in.Name) != n {
			c.failIn(i, field, "ctx.%s is there already; write another name", in.Name)
		}
		if in.Value == "" {
			c.failIn(i, field, "the rule is empty; write an expression")
			continue
		}
		c.rule(i, field, in.Value, s.inputScope())
	}
	if s.Gate != "" {
		c.rule(i, "gate", s.Gate, s.gateScope())
	}
	if s.Assert != "" {
		c.rule(i, "assert", s.Assert, s.assertScope())
	}
	for n, choice := range s.Next {
		if choice.When != "" {
			c.rule(i, fmt.Sprintf("next[%d].when", n), choice.When, s.nextScope())
		}
	}
}

// rule checks one expression. What we can say about its names is clearer than
// what the type checker says, so it is said first.
func (c *checker) rule(i int, field, text string, sc scope) {
	r, wrong := compile(text, sc)
	var named []string
	for _, p := range r.paths {
		if problem := c.name(i, sc, p); problem != "" {
			named = append(named, fmt.Sprintf("%s: %s", strings.Join(p, "."), problem))
		}
	}
	slices.Sort(named)
	for _, problem := range slices.Compact(named) {
		c.failIn(i, field, "%s", problem)
	}
	if len(named) > 0 {
		return
	}
	for _, f := range wrong {
		line := c.lineOf(i, field)
		if line > 0 {
			line += f.line
		}
		c.failAt(line, c.where(i, field), "%s, in %s", f.text, text)
	}
}

// name says what is wrong with a name a stage's rule or body reads, "" if nothing.
func (c *checker) name(i int, sc scope, p []string) string {
	switch p[0] {
	case "result":
		if !sc.result {
			return "the stage has no result yet; write about ctx"
		}
		return c.resultName(i, "result", p[1:])
	case "ctx":
		if !sc.ctx {
			return "next sees the result of its stage and nothing else; write about result"
		}
		known := append(slices.Clone(contextNames), sc.inputs...)
		if len(p) == 1 || !slices.Contains(known, p[1]) {
			return "there is no such name; " + Instead(strings.Join(p[1:], "."), known)
		}
		if p[1] == "upstream" && len(p) > 2 {
			return c.upstreamName(i, p[2:])
		}
	}
	return ""
}

func (c *checker) upstreamName(i int, p []string) string {
	var ids []string
	for from, can := range c.earlier[i] {
		if can {
			ids = append(ids, c.d.Stages[from].ID)
		}
	}
	from := c.d.index(p[0])
	switch {
	case from < 0:
		return fmt.Sprintf("there is no stage %s; stages before this one: %s", p[0], list(ids))
	case !c.earlier[i][from] && !c.unsure:
		return fmt.Sprintf("%s never runs before this stage; stages before it: %s", p[0], list(ids))
	case len(p) == 1:
		return ""
	}
	return c.resultName(from, "ctx.upstream."+p[0], p[1:])
}

// resultName checks a field of a stage's result, and those of its output by the
// stage's schema.
func (c *checker) resultName(i int, before string, p []string) string {
	if len(p) == 0 {
		return "name one of its fields; known: " + list(resultNames)
	}
	if !slices.Contains(resultNames, p[0]) {
		return fmt.Sprintf("%s has no field %s; %s", before, p[0], Instead(p[0], resultNames))
	}
	if p[0] != "output" {
		return ""
	}
	before += ".output"
	var schema map[string]any
	if json.Unmarshal(c.d.Stages[i].CompletionSchema, &schema) != nil {
		return "" // told where it is checked
	}
	for _, name := range p[1:] {
		properties, whole := closedObject(schema)
		if !whole {
			return ""
		}
		next, ok := properties[name]
		if !ok {
			known := make([]string, 0, len(properties))
			for k := range properties {
				known = append(known, k)
			}
			slices.Sort(known)
			return fmt.Sprintf("the completionSchema of %s knows no %s in %s; %s", c.d.Stages[i].ID, name, before, Instead(name, known))
		}
		schema, _ = next.(map[string]any)
		before += "." + name
	}
	return ""
}

// closedObject returns an object's properties if they are all that a reader can
// count on: nothing else in the schema speaks of other names.
func closedObject(schema map[string]any) (map[string]any, bool) {
	for _, k := range []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas", "unevaluatedProperties"} {
		if _, ok := schema[k]; ok {
			return nil, false
		}
	}
	if more, ok := schema["additionalProperties"]; ok && more != false {
		return nil, false
	}
	properties, ok := schema["properties"].(map[string]any)
	return properties, ok
}
