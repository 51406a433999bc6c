package policy

import (
	"fmt"
	"slices"
	"strings"

	"stave/internal/machine/tool"
)

// How far an answer reaches beyond the call it was given for.
const (
	ScopeOnce = "once" // not at all
	ScopeCall = "call" // the same call with the same arguments, while the session lasts
	ScopeTool = "tool" // every call of the tool, while the session lasts
)

// Memory is an answer a person chose to give once and for all.
type Memory struct {
	Tool   string `json:"tool"`
	Scope  string `json:"scope"`
	Digest string `json:"args_digest,omitzero"` // of the call, for ScopeCall
}

// Scopes lists what a person may choose for a call, the narrowest first.
func Scopes(c tool.Call) []string {
	scopes := []string{ScopeOnce}
	if c.Digest != "" {
		scopes = append(scopes, ScopeCall)
	}
	if blanket(c) == "" {
		scopes = append(scopes, ScopeTool)
	}
	return scopes
}

// Remember makes the memory of an answer. ScopeOnce leaves none: then ok is false.
func Remember(scope string, c tool.Call) (m Memory, ok bool, err error) {
	switch scope {
	case ScopeOnce, "":
		return Memory{}, false, nil
	case ScopeCall:
		if c.Digest == "" {
			return Memory{}, false, fmt.Errorf("remembering %s: the call has no digest; answer it once", c.Tool)
		}
		return Memory{c.Tool, ScopeCall, c.Digest}, true, nil
	case ScopeTool:
		if why := blanket(c); why != "" {
			return Memory{}, false, fmt.Errorf("remembering %s: %s; choose one of: %s", c.Tool, why, strings.Join(Scopes(c), ", "))
		}
		return Memory{Tool: c.Tool, Scope: ScopeTool}, true, nil
	default:
		return Memory{}, false, fmt.Errorf("remembering %s: there is no scope %q; choose one of: %s", c.Tool, shorten(scope), strings.Join(Scopes(c), ", "))
	}
}

// blanket says why a tool may not be allowed whatever its arguments are.
func blanket(c tool.Call) string {
	switch {
	case c.Tool == ShellTool:
		return "a shell command can do anything, so only the exact command can be remembered"
	case strings.Contains(c.Tool, "__"):
		return "the tool belongs to another program, so only the exact call can be remembered"
	case slices.Contains(c.Traits, tool.External):
		return "the tool can send data out, so only the exact call can be remembered"
	case slices.Contains(c.Traits, tool.Destructive):
		return "what the tool does cannot be undone, so only the exact call can be remembered"
	case slices.Contains(c.Traits, tool.Protected):
		return "the call changes what makes other programs run something later, so only the exact call can be remembered"
	}
	return ""
}

// covers is checked anew for each call: a memory never reaches further than a
// person could have chosen for this very call.
func (m Memory) covers(c tool.Call) bool {
	return m.names(c) || m.Tool == c.Tool && m.Scope == ScopeTool && blanket(c) == ""
}

// names reports whether the answer was given for this very call.
func (m Memory) names(c tool.Call) bool {
	return m.Tool == c.Tool && m.Scope == ScopeCall && m.Digest != "" && m.Digest == c.Digest
}
