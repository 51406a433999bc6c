package workflow

import "github.com/santhosh-tekuri/jsonschema/v6"

// maxWork is how many schemas one value of a payload may be checked against.
const maxWork = 10_000

// weigher bounds the work a schema asks for. References can multiply it: twenty
// definitions that each use the next twice are a million checks of one value.
type weigher map[weighed]int

type weighed struct {
	schema *jsonschema.Schema
	depth  int
}

// weigh is the number of checks for one value and the deepest row of values in
// it, or more than maxWork. A circle without a step into the value has no end.
func (w weigher) weigh(s *jsonschema.Schema, depth int) int {
	if s == nil || depth < 0 {
		return 0
	}
	at := weighed{s, depth}
	if known, ok := w[at]; ok {
		return known
	}
	w[at] = maxWork + 1 // whoever comes back here before the sum is known is in a circle
	sum := 1
	for _, same := range inPlace(s) {
		sum = min(sum+w.weigh(same, depth), maxWork+1)
	}
	for _, group := range inside(s) {
		heaviest := 0 // a child meets one of a group
		for _, child := range group {
			heaviest = max(heaviest, w.weigh(child, depth-1))
		}
		sum = min(sum+heaviest, maxWork+1)
	}
	w[at] = sum
	return sum
}

// inPlace are the schemas that the same value is checked against too.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	all = append(append(append(all, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, d := range s.DependentSchemas {
		all = append(all, d)
	}
	return all
}

// inside are the schemas that a value's children are checked against.
func inside(s *jsonschema.Schema) [][]*jsonschema.Schema {
	var named []*jsonschema.Schema
	for _, p := range s.Properties {
		named = append(named, p)
	}
	groups := [][]*jsonschema.Schema{
		named, s.PrefixItems, {s.Items2020}, {s.Contains}, {s.PropertyNames}, {s.UnevaluatedItems}, {s.UnevaluatedProperties},
	}
	if more, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		groups = append(groups, []*jsonschema.Schema{more})
	}
	for _, p := range s.PatternProperties {
		groups = append(groups, []*jsonschema.Schema{p})
	}
	return groups
}
