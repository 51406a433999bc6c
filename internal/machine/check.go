package machine

import (
	"errors"
	"fmt"
	"slices"
)

// Check says everything that is wrong with a table before it ever runs: twin
// boxes, arrows into nowhere, unreachable states, dead ends, work without a job,
// questions without a choice, ends that lead on, ambiguous rows.
func (m *Machine[D]) Check() error {
	var errs []error
	complain := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{m.Name}, args...)...))
	}
	seen := map[State]bool{}
	for _, b := range m.Boxes {
		if seen[b.State] {
			complain("two boxes for %q", b.State)
		}
		seen[b.State] = true
	}
	for _, b := range m.Boxes {
		checkBox(b, seen, complain)
	}
	switch {
	case m.Initial == None && !seen[None]:
		complain("it can never be born")
	case !seen[m.Initial]:
		complain("it begins in %q, which has no box", m.Initial)
	}
	reached := m.reachable()
	for _, b := range m.Boxes {
		if !reached[b.State] {
			complain("%q cannot be reached", b.State)
		}
	}
	return errors.Join(errs...)
}

func checkBox(b Box, known map[State]bool, complain func(string, ...any)) {
	leaves, choices := false, 0
	var keys []string
	for _, r := range b.Rows {
		if !known[r.To] {
			complain("%q leads to %q, which has no box", b.State, r.To)
		}
		if r.Past {
			continue
		}
		leaves = leaves || r.To != b.State
		if r.Person {
			choices++
		}
		key := fmt.Sprint(r.Command, r.Events)
		if slices.Contains(keys, key) {
			complain("%q has two rows for %s that record the same", b.State, r.Command)
		}
		keys = append(keys, key)
	}
	switch {
	case b.Mode == ModeEnd && len(b.Rows) > 0:
		complain("%q is an end and has rows", b.State)
	case b.Mode != ModeEnd && !leaves:
		complain("%q is a dead end", b.State)
	case b.Mode == ModeWork && b.Needs == nil:
		complain("%q works without a job", b.State)
	case b.Mode == ModeAsk && (b.Needs == nil || choices == 0):
		complain("%q asks without a question a person can answer", b.State)
	}
}

func (m *Machine[D]) reachable() map[State]bool {
	reached := map[State]bool{m.Initial: true}
	for grew := true; grew; {
		grew = false
		for _, b := range m.Boxes {
			for _, r := range b.Rows {
				if reached[b.State] && !reached[r.To] {
					reached[r.To], grew = true, true
				}
			}
		}
	}
	return reached
}
