package toolbox

import (
	"errors"
	"fmt"
	"slices"
)

// Set is an ordered list of tools with unique names. The zero Set is empty.
type Set struct {
	tools  []Tool
	byName map[string]int
}

// NewSet keeps the order of the list. A tool without a name or with the name of
// another is refused, so that a later tool can never stand in for an earlier one.
func NewSet(tools ...Tool) (Set, error) {
	s := Set{tools: slices.Clone(tools), byName: make(map[string]int, len(tools))}
	for i, t := range s.tools {
		if t.Name == "" {
			return Set{}, errors.New("building tool set: a tool has no name")
		}
		if _, taken := s.byName[t.Name]; taken {
			return Set{}, fmt.Errorf("building tool set: two tools are called %s", t.Name)
		}
		s.byName[t.Name] = i
	}
	return s, nil
}

// Lookup finds a tool by its exact name.
func (s Set) Lookup(name string) (Tool, bool) {
	i, ok := s.byName[name]
	if !ok {
		return Tool{}, false
	}
	return s.tools[i], true
}

// List returns the tools in order; the slice is the caller's.
func (s Set) List() []Tool { return slices.Clone(s.tools) }

// All returns the bundled tools, a fresh list each time.
func All() []Tool { return AllOn(direct{}) }

// AllOn returns the same, with commands run by a runner.
func AllOn(r Runner) []Tool {
	return []Tool{Read(), Glob(), Grep(), Write(), Edit(), MultiEdit(), BashOn(r), Fetch(), Todo()}
}
