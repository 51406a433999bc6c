package toolbox

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemaFor describes A and adds what our own tags say.
func schemaFor[A any]() (*jsonschema.Schema, error) {
	schema, err := jsonschema.For[A](nil)
	if err != nil {
		return nil, err
	}
	t := reflect.TypeFor[A]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	return schema, refine(schema, t)
}

// refine drops null, which optional fields do not need because they can be left
// out, and applies the min, max and enum tags below s.
func refine(s *jsonschema.Schema, t reflect.Type) error {
	if s == nil {
		return nil
	}
	if i := slices.Index(s.Types, "null"); i >= 0 && len(s.Types) == 2 {
		s.Type, s.Types = s.Types[1-i], nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return refine(s.Items, t.Elem())
	case reflect.Map:
		return refine(s.AdditionalProperties, t.Elem())
	case reflect.Struct:
		return refineFields(s, t)
	}
	return nil
}

func refineFields(s *jsonschema.Schema, t reflect.Type) error {
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		property := s.Properties[name]
		if property == nil {
			continue
		}
		if err := refine(property, field.Type); err != nil {
			return err
		}
		if err := applyTags(property, field.Tag); err != nil {
			return fmt.Errorf("tags of field %s: %w", field.Name, err)
		}
	}
	return nil
}

func applyTags(s *jsonschema.Schema, tag reflect.StructTag) error {
	if list, ok := tag.Lookup("enum"); ok {
		for _, value := range strings.Split(list, ",") {
			s.Enum = append(s.Enum, value)
		}
	}
	for _, bound := range []struct {
		tag    string
		number **float64
		length **int
		items  **int
	}{
		{"min", &s.Minimum, &s.MinLength, &s.MinItems},
		{"max", &s.Maximum, &s.MaxLength, &s.MaxItems},
	} {
		text, ok := tag.Lookup(bound.tag)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("reading %s: %w", bound.tag, err)
		}
		switch s.Type {
		case "string":
			*bound.length = &n
		case "array":
			*bound.items = &n
		default:
			*bound.number = jsonschema.Ptr(float64(n))
		}
	}
	return nil
}
