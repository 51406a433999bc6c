package policy

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"stave/internal/machine/tool"
)

// snapshotVersion is the form that Snapshot writes.
const snapshotVersion = 1

type snapshot struct {
	Version int   `json:"v"`
	Rules   Rules `json:"rules"`
}

// Snapshot returns the rules as canonical JSON. A conversation records it when it
// begins, so that editing the file later changes nothing about it.
func (r Rules) Snapshot() []byte {
	if r == nil {
		r = Rules{}
	}
	b, err := json.Marshal(snapshot{snapshotVersion, r})
	v := jsontext.Value(b)
	if err := errors.Join(err, v.Canonicalize()); err != nil {
		return nil // rules that were checked are valid text, so this is never reached
	}
	return v
}

// ParseSnapshot reads what Snapshot wrote and checks every rule again. With an
// error come rules that have a person asked about everything: who goes on with a
// spoiled snapshot loses the denials in it otherwise.
func ParseSnapshot(b []byte) (Rules, error) {
	var s snapshot
	err := json.Unmarshal(b, &s, json.RejectUnknownMembers(true))
	if err == nil && s.Version != snapshotVersion {
		err = fmt.Errorf("version %d is not %d; use the program that wrote it", s.Version, snapshotVersion)
	}
	if err == nil {
		err = s.Rules.check()
	}
	if err != nil {
		const reason = "the rules of this conversation cannot be read"
		return Rules{{ID: unreadableID, Tool: "*", Decision: tool.Ask, Reason: reason}}, fmt.Errorf("reading a snapshot of rules: %w", err)
	}
	return s.Rules, nil
}

// unreadableID names the rule that stands for rules nobody can read.
const unreadableID = "unreadable"

// check finds the first mistake of a list of rules.
func (r Rules) check() error {
	if len(r) > 2*maxRules {
		return fmt.Errorf("there are %d rules; at most %d are allowed", len(r), 2*maxRules)
	}
	seen := map[string]bool{}
	for _, rule := range r {
		if why := rule.problems(); len(why) > 0 {
			return fmt.Errorf("rule %s: %s", shorten(rule.ID), why[0])
		}
		if seen[rule.ID] {
			return fmt.Errorf("rule %s: another rule has the same id; give each its own", rule.ID)
		}
		seen[rule.ID] = true
	}
	return nil
}

// Tighten adds the rules of a project to those of its user. A project can hold
// its user back but never let more happen, so it may not bring an allow rule.
// Its rules carry the prefix project/ so that a refusal shows where it is from.
func Tighten(user, project Rules) (Rules, error) {
	all := append(make(Rules, 0, len(user)+len(project)), user...)
	for _, rule := range project {
		if rule.Decision == tool.Allow {
			return nil, fmt.Errorf("project rule %s: a project may not allow anything, only ask or deny; put the rule into your own policy file", shorten(rule.ID))
		}
		rule.ID = projectPrefix + rule.ID
		all = append(all, rule)
	}
	if err := all.check(); err != nil {
		return nil, fmt.Errorf("adding the project's rules: %w", err)
	}
	return all, nil
}

// Join puts lists of the user's own scopes together, such as the default rules
// and those of a file. A rule of a later list replaces one of the same id.
func Join(lists ...Rules) Rules {
	var all Rules
	place := map[string]int{}
	for _, list := range lists {
		for _, rule := range list {
			if i, known := place[rule.ID]; known {
				all[i] = rule
				continue
			}
			place[rule.ID] = len(all)
			all = append(all, rule)
		}
	}
	return all
}
