package workflow

import "github.com/google/jsonschema-go/jsonschema"

// maxWork is how many schemas one value of a payload may be checked against.
const maxWork = 10_000

// maxEffort is how many such checks a whole payload may need: some seconds.
const maxEffort = 4_000_000

// weigher bounds the work a schema asks for. References can multiply it: twenty
// definitions that each use the next twice are a million checks of one value.
type weigher struct {
	tree  *tree
	known map[weighed]int
}

type weighed struct {
	schema *jsonschema.Schema
	depth  int
	array  bool // the value is an array, else an object: it is never both
}

// weigh is the number of checks for one value and the deepest row of values in
// it, or more than maxWork.
func (w weigher) weigh(s *jsonschema.Schema, depth int) int {
	return max(w.value(s, depth, false), w.value(s, depth, true))
}

func (w weigher) value(s *jsonschema.Schema, depth int, array bool) int {
	if s == nil || depth < 0 {
		return 0
	}
	at := weighed{s, depth, array}
	if known, ok := w.known[at]; ok {
		return known
	}
	w.known[at] = maxWork + 1 // whoever comes back before the sum is known goes in a circle
	sum := own(s)
	for _, same := range w.tree.inPlace(s) {
		sum = min(sum+w.value(same, depth, array), maxWork+1)
	}
	groups := members(s)
	if array {
		groups = items(s)
	}
	for _, group := range groups {
		heaviest := 0 // a child meets one of a group
		for _, child := range group {
			heaviest = max(heaviest, w.weigh(child, depth-1))
		}
		sum = min(sum+heaviest, maxWork+1)
	}
	w.known[at] = sum
	return sum
}

// own is the work of a schema itself: every name and value it lists is gone through,
// and four of them take about as long as a check.
func own(s *jsonschema.Schema) int {
	listed := len(s.Enum) + len(s.Required) + len(s.Properties)
	for _, names := range s.DependentRequired {
		listed += 1 + len(names)
	}
	return 1 + listed/4
}

// members are the schemas that the members of an object are checked against.
func members(s *jsonschema.Schema) [][]*jsonschema.Schema {
	named := []*jsonschema.Schema{s.UnevaluatedProperties, s.AdditionalProperties}
	for _, p := range s.Properties {
		named = append(named, p)
	}
	groups := [][]*jsonschema.Schema{named, {s.PropertyNames}}
	for _, p := range s.PatternProperties {
		groups = append(groups, []*jsonschema.Schema{p})
	}
	return groups
}

// items are the schemas that the items of an array are checked against.
func items(s *jsonschema.Schema) [][]*jsonschema.Schema {
	listed := append([]*jsonschema.Schema{s.Items, s.UnevaluatedItems}, s.PrefixItems...)
	return [][]*jsonschema.Schema{listed, {s.Contains}}
}
