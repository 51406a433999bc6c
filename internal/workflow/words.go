package workflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// wrongType says that a value is not of its schema's type, "" if it is.
func (f *finder) wrongType(s *jsonschema.Schema, v any) string {
	if s.Type == "" && s.Types == nil || f.keeps(s, keywordFault{"type", jsonschema.Schema{Type: s.Type, Types: s.Types}, ""}, v) == nil {
		return ""
	}
	want := s.Types
	if s.Type != "" {
		want = []string{s.Type}
	}
	text := fmt.Sprintf("it is %s, but has to be %s", kindOf(v), strings.Join(want, " or "))
	if kindOf(v) == "string" && (slices.Contains(want, "array") || slices.Contains(want, "object")) {
		text += " (the value itself, not JSON inside a string)"
	}
	return text
}

// keywordFault is a keyword alone and what is said if a value does not keep it.
// Where the text is empty the library's is as good.
type keywordFault struct {
	name string
	only jsonschema.Schema
	text string
}

// single is one keyword of a schema.
type single struct {
	schema *jsonschema.Schema
	name   string
}

// keeps is what the library says of a value and one keyword that holds no schema.
func (f *finder) keeps(s *jsonschema.Schema, k keywordFault, v any) error {
	at := single{s, k.name}
	if f.alone[at] == nil {
		r, err := k.only.Resolve(nil)
		if err != nil {
			return nil // the whole was resolved before
		}
		f.alone[at] = r
	}
	return f.alone[at].Validate(v)
}

// wrongHere says which keywords a value does not keep, of those that look at the
// value alone.
func (f *finder) wrongHere(s *jsonschema.Schema, v any) []string {
	var all []keywordFault
	switch v := v.(type) {
	case string:
		all = textFaults(s, v)
	case jsonArray:
		all = arrayFaults(s, v)
	case jsonObject:
		all = objectFaults(s, v)
	case int64, uint64, float64:
		all = numberFaults(s, v)
	}
	if s.Enum != nil {
		want := make([]string, 0, len(s.Enum))
		for _, one := range s.Enum {
			want = append(want, written(one))
		}
		all = append(all, keywordFault{"enum", jsonschema.Schema{Enum: s.Enum}, "value must be one of " + strings.Join(want, ", ")})
	}
	if s.Const != nil {
		all = append(all, keywordFault{"const", jsonschema.Schema{Const: s.Const}, "value must be " + written(*s.Const)})
	}
	var texts []string
	for _, one := range all {
		if no := f.keeps(s, one, v); no != nil {
			texts = append(texts, cmp.Or(one.text, innermost(no)))
		}
	}
	return texts
}

func textFaults(s *jsonschema.Schema, v string) (all []keywordFault) {
	n := utf8.RuneCountInString(v)
	if s.MinLength != nil {
		all = append(all, keywordFault{"minLength", jsonschema.Schema{MinLength: s.MinLength}, fmt.Sprintf("minLength: got %d, want %d", n, *s.MinLength)})
	}
	if s.MaxLength != nil {
		all = append(all, keywordFault{"maxLength", jsonschema.Schema{MaxLength: s.MaxLength}, fmt.Sprintf("maxLength: got %d, want %d", n, *s.MaxLength)})
	}
	if s.Pattern != "" {
		// the value is cut so that the pattern is still told
		all = append(all, keywordFault{"pattern", jsonschema.Schema{Pattern: s.Pattern}, fmt.Sprintf("%s does not match pattern %s", quoted(cut(v, 80)), quoted(s.Pattern))})
	}
	return all
}

func arrayFaults(s *jsonschema.Schema, v jsonArray) (all []keywordFault) {
	if s.MinItems != nil {
		all = append(all, keywordFault{"minItems", jsonschema.Schema{MinItems: s.MinItems}, fmt.Sprintf("minItems: got %d, want %d", len(v), *s.MinItems)})
	}
	if s.MaxItems != nil {
		all = append(all, keywordFault{"maxItems", jsonschema.Schema{MaxItems: s.MaxItems}, fmt.Sprintf("maxItems: got %d, want %d", len(v), *s.MaxItems)})
	}
	if s.UniqueItems {
		all = append(all, keywordFault{"uniqueItems", jsonschema.Schema{UniqueItems: true}, ""})
	}
	return all
}

func objectFaults(s *jsonschema.Schema, v jsonObject) (all []keywordFault) {
	if missing := without(v, s.Required); len(missing) == 1 {
		all = append(all, keywordFault{"required", jsonschema.Schema{Required: s.Required}, "missing property " + quoted(missing[0])})
	} else if len(missing) > 1 {
		all = append(all, keywordFault{"required", jsonschema.Schema{Required: s.Required}, "missing properties " + quotedAll(missing)})
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentRequired)) {
		if missing := without(v, s.DependentRequired[name]); len(missing) > 0 {
			only := jsonschema.Schema{DependentRequired: map[string][]string{name: s.DependentRequired[name]}}
			all = append(all, keywordFault{"dependentRequired/" + name, only, fmt.Sprintf("properties %s required, if %s exists", quotedAll(missing), quoted(name))})
		}
	}
	if s.MinProperties != nil {
		all = append(all, keywordFault{"minProperties", jsonschema.Schema{MinProperties: s.MinProperties}, fmt.Sprintf("minProperties: got %d, want %d", len(v), *s.MinProperties)})
	}
	if s.MaxProperties != nil {
		all = append(all, keywordFault{"maxProperties", jsonschema.Schema{MaxProperties: s.MaxProperties}, fmt.Sprintf("maxProperties: got %d, want %d", len(v), *s.MaxProperties)})
	}
	return all
}

func numberFaults(s *jsonschema.Schema, v any) (all []keywordFault) {
	add := func(name string, bound *float64, only jsonschema.Schema) {
		if bound != nil {
			all = append(all, keywordFault{name, only, fmt.Sprintf("%s: got %s, want %s", name, written(v), written(*bound))})
		}
	}
	add("minimum", s.Minimum, jsonschema.Schema{Minimum: s.Minimum})
	add("maximum", s.Maximum, jsonschema.Schema{Maximum: s.Maximum})
	add("exclusiveMinimum", s.ExclusiveMinimum, jsonschema.Schema{ExclusiveMinimum: s.ExclusiveMinimum})
	add("exclusiveMaximum", s.ExclusiveMaximum, jsonschema.Schema{ExclusiveMaximum: s.ExclusiveMaximum})
	add("multipleOf", s.MultipleOf, jsonschema.Schema{MultipleOf: s.MultipleOf})
	return all
}

// without are the names that an object does not have.
func without(v jsonObject, names []string) []string {
	var missing []string
	for _, name := range names {
		if _, ok := v[name]; !ok {
			missing = append(missing, name)
		}
	}
	return missing
}

// nothing reports whether a schema takes no value, as false does.
func nothing(s *jsonschema.Schema) bool { return s.Not != nil && reflect.ValueOf(*s.Not).IsZero() }

// written is a value in a sentence: text as it is elsewhere there, all else as JSON.
func written(v any) string {
	if text, ok := v.(string); ok {
		return quoted(text)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return kindOf(v)
	}
	return string(b)
}

func quoted(text string) string {
	return "'" + strings.NewReplacer("\n", `\n`, "'", `\'`).Replace(text) + "'"
}

func quotedAll(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = quoted(name)
	}
	return strings.Join(all, ", ")
}

// innermost are the words of a refusal without the way to it through the schema.
func innermost(no error) string {
	for inner := no; inner != nil; inner = errors.Unwrap(inner) {
		no = inner
	}
	return clean(no.Error())
}

// clean takes out of the library's words what only means something to a programmer.
func clean(text string) string {
	text = strings.ReplaceAll(text, schemaURL, "")
	text = strings.ReplaceAll(text, "jsonschema.Schema: ", "")
	return shorten(strings.ReplaceAll(text, "<anonymous schema>", "the schema"))
}
