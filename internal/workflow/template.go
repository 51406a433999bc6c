package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// none stands where a name has no value, so that the text around it still reads.
const none = "(none)"

// piece is a part of a body: text, or a name such as ctx.upstream.Plan.output.
type piece struct {
	text string
	path []string
	line int // of the body, from 0
}

// isPlaceholder reports whether a text is ctx and then names, each after a point.
func isPlaceholder(text string) bool {
	names := strings.Split(text, ".")
	if names[0] != "ctx" || len(names) == 1 {
		return false
	}
	for _, name := range names[1:] {
		if name == "" || digit(name[0]) || !consists(name, "_") {
			return false
		}
	}
	return true
}

// split cuts a body at its placeholders. \{{ stands for the braces themselves.
func split(body string) ([]piece, []fault) {
	var pieces []piece
	var wrong []fault
	for at := 0; ; {
		open := strings.Index(body[at:], "{{")
		if open < 0 || len(wrong) > maxProblems {
			return append(pieces, piece{text: body[at:]}), wrong
		}
		open += at
		if open > at && body[open-1] == '\\' {
			pieces = append(pieces, piece{text: body[at:open-1] + "{{"})
			at = open + 2
			continue
		}
		line := strings.Count(body[:open], "\n")
		inner, _, closed := strings.Cut(body[open+2:], "}}")
		name := strings.TrimSpace(inner)
		switch {
		case !closed || strings.Contains(inner, "\n"):
			wrong = append(wrong, fault{line, `{{ is not closed on its line; write {{ctx.name}}, or \{{ for the braces themselves`})
			at = open + 2
			continue
		case !isPlaceholder(name):
			wrong = append(wrong, fault{line, fmt.Sprintf(`{{%.60s}} is no placeholder; write {{ctx.name}}, or \{{ for the braces themselves`, name)})
		default:
			pieces = append(pieces, piece{text: body[at:open]}, piece{path: strings.Split(name, "."), line: line})
		}
		at = open + 2 + len(inner) + 2
	}
}

// Prompt is the body with the context's values in it. Values are text: a
// placeholder inside of one stays as it is.
func (s Stage) Prompt(c Context) (string, error) {
	pieces, wrong := split(s.Body)
	if len(wrong) > 0 {
		return "", fmt.Errorf("stage %s, body: %s", s.ID, wrong[0].text)
	}
	fields, err := c.fields(s)
	if err != nil {
		return "", fmt.Errorf("stage %s, body: %w", s.ID, err)
	}
	for _, in := range s.Context {
		if _, ok := fields[in.Name]; !ok {
			return "", fmt.Errorf("stage %s, body: ctx.%s has no value yet; Setup comes first", s.ID, in.Name)
		}
	}
	var b strings.Builder
	for _, p := range pieces {
		text := p.text
		if p.path != nil {
			if text, err = lookUp(fields, c.Upstream, p.path[1:]); err != nil {
				return "", fmt.Errorf("stage %s, body, {{%s}}: %w", s.ID, strings.Join(p.path, "."), err)
			}
		}
		if b.Len()+len(text) > MaxPrompt {
			return "", fmt.Errorf("stage %s, body: with its values it has more than %d bytes", s.ID, MaxPrompt)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func lookUp(fields map[string]any, upstream []StageResult, names []string) (string, error) {
	if _, ok := fields[names[0]]; !ok {
		return "", errors.New("it is not known")
	}
	if len(names) == 1 && names[0] == "upstream" {
		return inOrder(upstream)
	}
	var v any = fields
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name] // what is not there has no value
	}
	return show(v)
}

// inOrder writes the results as one object in their own order, which a map has not.
func inOrder(upstream []StageResult) (string, error) {
	if len(upstream) == 0 {
		return none, nil
	}
	out := []byte("{")
	for i, r := range upstream {
		if i > 0 {
			out = append(out, ',')
		}
		b, err := json.Marshal(r)
		if err != nil {
			return "", err
		}
		out = append(append(quote(out, r.Stage), ':'), b...)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, append(out, '}'), "", "  "); err != nil {
		return "", err
	}
	return b.String(), nil
}

// show writes a value for a model: text as it is, all else as JSON.
func show(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return none, nil
	case string:
		if v == "" {
			return none, nil
		}
		return v, nil
	case map[string]any:
		if len(v) == 0 {
			return none, nil
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimRight(b.String(), "\n"), nil
}
