package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// tree is a schema with its references found.
type tree struct {
	root    *jsonschema.Schema
	library *jsonschema.Resolved // says what is valid
	weight  int                  // of the checks of one value

	all     []*jsonschema.Schema
	places  map[*jsonschema.Schema]string             // JSON pointers
	targets map[*jsonschema.Schema]*jsonschema.Schema // of references
}

// plant finds the places and the references of a schema. The library would follow
// a reference to nothing and fall, and it does not show what it has found.
func plant(root *jsonschema.Schema) (*tree, error) {
	t := &tree{root: root, places: map[*jsonschema.Schema]string{}, targets: map[*jsonschema.Schema]*jsonschema.Schema{}}
	named := map[string]*jsonschema.Schema{}
	var twice string
	var visit func(at string, s *jsonschema.Schema)
	visit = func(at string, s *jsonschema.Schema) {
		t.all = append(t.all, s)
		t.places[s] = at
		named["#"+at] = s
		if s.Anchor != "" {
			if named["#"+s.Anchor] != nil {
				twice = s.Anchor
			}
			named["#"+s.Anchor] = s
		}
		children(s, func(below string, child *jsonschema.Schema) { visit(at+below, child) })
	}
	visit("", root)
	if twice != "" {
		return nil, fmt.Errorf("$anchor %.80q is there twice; write another name", twice)
	}
	for _, s := range t.all {
		switch {
		case s.Ref == "":
		case !strings.HasPrefix(s.Ref, "#"):
			return nil, fmt.Errorf("$ref to %.200s leads out of the schema, which is not followed; copy that schema under $defs and write #/$defs/name", s.Ref)
		case named[s.Ref] == nil || strings.Contains(s.Ref, "%"): // an escape would be read in two ways
			return nil, fmt.Errorf("%s/$ref: %.200s is not found; write #/$defs/name and that name under $defs", t.places[s], s.Ref)
		default:
			t.targets[s] = named[s.Ref]
		}
	}
	for _, s := range t.all {
		if s.ID != "" && s != root {
			return nil, fmt.Errorf("%s/$id: it is %.80q, but only the whole schema may have one; leave it out", t.places[s], s.ID)
		}
	}
	return t, nil
}

// children visits the schemas written inside a schema.
func children(s *jsonschema.Schema, visit func(at string, child *jsonschema.Schema)) {
	for _, one := range []struct {
		at    string
		child *jsonschema.Schema
	}{
		{"/additionalProperties", s.AdditionalProperties},
		{"/propertyNames", s.PropertyNames},
		{"/unevaluatedProperties", s.UnevaluatedProperties},
		{"/items", s.Items},
		{"/contains", s.Contains},
		{"/unevaluatedItems", s.UnevaluatedItems},
		{"/not", s.Not},
		{"/if", s.If},
		{"/then", s.Then},
		{"/else", s.Else},
		{"/contentSchema", s.ContentSchema},
	} {
		if one.child != nil {
			visit(one.at, one.child)
		}
	}
	for _, some := range []struct {
		at       string
		children []*jsonschema.Schema
	}{{"/allOf", s.AllOf}, {"/anyOf", s.AnyOf}, {"/oneOf", s.OneOf}, {"/prefixItems", s.PrefixItems}} {
		for i, child := range some.children {
			visit(some.at+"/"+strconv.Itoa(i), child)
		}
	}
	for _, some := range []struct {
		at       string
		children map[string]*jsonschema.Schema
	}{
		{"/properties", s.Properties},
		{"/patternProperties", s.PatternProperties},
		{"/dependentSchemas", s.DependentSchemas},
		{"/$defs", s.Defs},
		{"/definitions", s.Definitions},
	} {
		for _, name := range slices.Sorted(maps.Keys(some.children)) {
			visit(some.at+pointerTo(name), some.children[name])
		}
	}
}

// inPlace are the schemas that the same value is checked against too.
func (t *tree) inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{t.targets[s], s.Not, s.If, s.Then, s.Else}
	all = slices.Concat(all, s.AllOf, s.AnyOf, s.OneOf)
	for _, d := range s.DependentSchemas {
		all = append(all, d)
	}
	return all
}

// effort is how many checks a payload can need. Long texts count too, as they are
// looked at again in each.
func (t *tree) effort(payload []byte) int {
	_, values := measure(payload)
	return t.weight * (values + len(payload)/8)
}
