package toolbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxProblems bounds what one bad call is told at once.
const maxProblems = 8

// checkSchema checks strict JSON against a schema derived from a Go type and
// names every field that is wrong with what was expected there.
func checkSchema(schema *jsonschema.Schema, raw json.RawMessage) error {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return fmt.Errorf("reading arguments: %w", err)
	}
	var c checker
	c.value(schema, "", value)
	if len(c.problems) == 0 {
		return nil
	}
	if extra := len(c.problems) - maxProblems; extra > 0 {
		c.problems = append(c.problems[:maxProblems], fmt.Sprintf("and %d more", extra))
	}
	return errors.New("wrong arguments: " + strings.Join(c.problems, "; "))
}

type checker struct{ problems []string }

func (c *checker) report(field, format string, args ...any) {
	where := "the arguments"
	if field != "" {
		where = strconv.Quote(shorten(field))
	}
	c.problems = append(c.problems, where+" "+fmt.Sprintf(format, args...))
}

func (c *checker) value(s *jsonschema.Schema, field string, value any) {
	if !hasType(s, value) {
		c.report(field, "must be %s, not %s", expected(s), describe(value))
		return
	}
	switch v := value.(type) {
	case map[string]any:
		c.object(s, field, v)
	case []any:
		c.array(s, field, v)
	case string:
		c.text(s, field, v)
	case float64:
		if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
			c.report(field, "must be %s, not %s", expected(s), describe(value))
		}
	}
}

func (c *checker) object(s *jsonschema.Schema, field string, object map[string]any) {
	for _, name := range s.Required {
		if _, ok := object[name]; !ok {
			c.report(join(field, name), "is missing; it must be %s", expected(s.Properties[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch property := s.Properties[name]; {
		case property != nil:
			c.value(property, join(field, name), object[name])
		case s.AdditionalProperties == nil:
		case s.AdditionalProperties.Not == nil:
			c.value(s.AdditionalProperties, join(field, name), object[name])
		default:
			c.report(join(field, name), "is not a field here; %s", suggest(s, name))
		}
	}
}

func (c *checker) array(s *jsonschema.Schema, field string, array []any) {
	switch {
	case s.MinItems != nil && len(array) < *s.MinItems:
		c.report(field, "must have at least %d items, not %d", *s.MinItems, len(array))
	case s.MaxItems != nil && len(array) > *s.MaxItems:
		c.report(field, "must have at most %d items, not %d", *s.MaxItems, len(array))
	}
	if s.Items == nil {
		return
	}
	for i, item := range array {
		c.value(s.Items, fmt.Sprintf("%s[%d]", field, i), item)
	}
}

func (c *checker) text(s *jsonschema.Schema, field, text string) {
	n := utf8.RuneCountInString(text)
	switch {
	case s.MinLength != nil && n < *s.MinLength:
		c.report(field, "must not be shorter than %d characters", *s.MinLength)
	case s.MaxLength != nil && n > *s.MaxLength:
		c.report(field, "must not be longer than %d characters", *s.MaxLength)
	case s.Enum != nil && !slices.Contains(s.Enum, any(text)):
		c.report(field, "must be %s, not %s", expected(s), describe(text))
	}
}

func hasType(s *jsonschema.Schema, value any) bool {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if len(types) == 0 {
		return true
	}
	return slices.ContainsFunc(types, func(t string) bool {
		if f, ok := value.(float64); ok && t == "integer" {
			return f == math.Trunc(f)
		}
		return t == typeOf(value)
	})
}

func typeOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	}
	return "null"
}

// expected says in words what a schema wants.
func expected(s *jsonschema.Schema) string {
	if s.Enum != nil {
		words := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			words[i] = fmt.Sprintf("%q", v)
		}
		return "one of " + strings.Join(words, ", ")
	}
	what := s.Type
	if what == "" {
		what = strings.Join(s.Types, " or ")
	}
	switch what {
	case "":
		return "any JSON value"
	case "integer", "array", "object":
		what = "an " + what
	default:
		what = "a " + what
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%s from %v to %v", what, *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("%s of at least %v", what, *s.Minimum)
	case s.Maximum != nil:
		return fmt.Sprintf("%s of at most %v", what, *s.Maximum)
	}
	return what
}

func describe(value any) string {
	switch v := value.(type) {
	case string:
		return "the string " + strconv.Quote(shorten(v))
	case float64:
		return "the number " + strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	case nil:
		return "null (leave an optional field out)"
	}
	what := typeOf(value)
	return "an " + what
}

// suggest names the field that was probably meant, or all there are.
func suggest(s *jsonschema.Schema, name string) string {
	for _, known := range s.PropertyOrder {
		if strings.EqualFold(known, name) {
			return fmt.Sprintf("write %q exactly so", known)
		}
	}
	if len(s.PropertyOrder) == 0 {
		return "no fields are allowed"
	}
	return "the fields are " + strings.Join(s.PropertyOrder, ", ")
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}
