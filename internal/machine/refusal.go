package machine

import (
	"fmt"
	"strings"
)

// Refusal is the answer to a command that may not be taken. It says enough to
// act on: which machine, where it stands, what is possible instead.
type Refusal struct {
	Machine  string
	Path     string   // which instance, set by the world
	State    State    // where it stands
	Command  string   // what was asked
	Reason   string   // why not, where the table alone does not say
	Possible []string // what a person may do now
	Last     []string // the newest runes of the log, set by the world
}

func (r *Refusal) Error() string {
	var b strings.Builder
	who := r.Machine
	if r.Path != "" && r.Path != r.Machine {
		who += " " + r.Path
	}
	fmt.Fprintf(&b, "%s cannot %s while it is %s", who, r.Command, show(r.State))
	if r.Reason != "" {
		fmt.Fprintf(&b, ": %s", r.Reason)
	}
	if len(r.Possible) > 0 {
		fmt.Fprintf(&b, " (possible: %s)", strings.Join(r.Possible, ", "))
	}
	if len(r.Last) > 0 {
		fmt.Fprintf(&b, " (last: %s)", strings.Join(r.Last, ", "))
	}
	return b.String()
}

func show(s State) string {
	if s == None {
		return "not there"
	}
	return string(s)
}
