package policy

import (
	"strings"

	"stave/internal/machine/tool"
)

// ShellTool is the tool whose calls are read as shell commands.
const ShellTool = "Bash"

// What the words of a command that are no flags may be.
const (
	OperandsNone  = "none"  // there may be none
	OperandsPaths = "paths" // names of files inside the workspace
	OperandsAny   = "any"
)

// Rule is one line of a person's policy: which calls, and what becomes of them.
type Rule struct {
	ID       string      `json:"id"`
	Tool     string      `json:"tool"` // a name or a glob of names
	Decision tool.Answer `json:"decision"`
	Reason   string      `json:"reason,omitzero"`
	// Command is the program and its subcommands, for shell commands.
	Command []string `json:"command,omitzero"`
	// Flags are all an allowed command may have; of a command that is asked about
	// or denied, one of them is enough. "-n=" stands for -n with a value, "-#" for
	// a number such as -20, "+=" for any word that starts with a plus.
	Flags    []string `json:"flags,omitzero"`
	Operands string   `json:"operands,omitzero"` // of an allowed command; paths unless told otherwise
	// Args are fields of the arguments and what they must be: the value itself or
	// a glob. Fields that hold paths are compared after cleaning, those that hold
	// URLs by scheme, host and path.
	Args map[string]string `json:"args,omitzero"`
}

// Rules are all rules of a conversation. Deny beats ask beats allow; their order
// means nothing.
type Rules []Rule

// certainty is how sure a rule is that it covers a call.
type certainty int

const (
	no certainty = iota
	maybe
	yes
)

// finding is what the rules say of one call together.
type finding struct {
	verdict tool.Verdict // an empty answer: nothing, for the reason given
	// exact says that a rule allows the call by its tool's own name. A glob may
	// cover tools its author never heard of.
	exact bool
}

// judge asks every rule. A rule that may or may not cover the call cannot refuse
// it, but it can see to it that a person looks.
func (r Rules) judge(s subject) finding {
	var ask *tool.Verdict
	for _, rule := range r {
		if rule.Decision == tool.Allow {
			continue
		}
		switch c := rule.covers(s); {
		case c == yes && rule.Decision == tool.Refuse:
			return finding{verdict: tool.Verdict{Answer: tool.Refuse, By: rule.by(), Reason: rule.because("the rule " + rule.ID + " refuses it")}}
		case c == yes && ask == nil:
			ask = &tool.Verdict{Answer: tool.Ask, Reason: rule.because("the rule " + rule.ID + " wants a person to decide")}
		case c == maybe && ask == nil:
			ask = &tool.Verdict{Answer: tool.Ask, Reason: "the rule " + rule.ID + " (" + string(rule.Decision) + ") may cover it: what it will do is not certain"}
		}
	}
	if ask != nil {
		return finding{verdict: *ask}
	}
	if s.shell {
		return r.allowScript(s) // no rule allows a shell command without naming it
	}
	for _, rule := range r {
		if rule.Decision == tool.Allow && rule.covers(s) == yes {
			return finding{tool.Verdict{Answer: tool.Allow, By: rule.by()}, rule.Tool == s.call.Tool}
		}
	}
	return finding{}
}

// allowScript lets a shell command run when it is plain and every program in it
// is allowed by some rule.
func (r Rules) allowScript(s subject) finding {
	if !s.script.Plain {
		return silent("no rule can allow it: " + or(s.script.Reason, "there is no command"))
	}
	if s.extra {
		return silent("no rule can allow it: it has arguments besides the command")
	}
	var by []string
	for _, p := range s.script.Pipelines {
		for _, argv := range p.Commands {
			id, ok := r.permit(argv, s.dir)
			if !ok {
				return silent("no rule allows " + shorten(strings.Join(argv, " ")))
			}
			if len(by) == 0 || by[len(by)-1] != id {
				by = append(by, id)
			}
		}
	}
	if len(by) > maxNamed {
		by = append(by[:maxNamed], "…")
	}
	return finding{tool.Verdict{Answer: tool.Allow, By: "rule:" + strings.Join(by, "+"), Plain: true}, true}
}

// silent answers nothing and says why, for whoever wants to know.
func silent(why string) finding { return finding{verdict: tool.Verdict{Reason: why}} }

// maxNamed is how many rules one verdict names.
const maxNamed = 4

func (r Rules) permit(argv []string, dir string) (string, bool) {
	for _, rule := range r {
		if rule.Decision == tool.Allow && rule.permits(argv, dir) {
			return rule.ID, true
		}
	}
	return "", false
}

// covers says whether a rule is about a call.
func (r Rule) covers(s subject) certainty {
	switch {
	case !globMatch(r.Tool, s.call.Tool):
		return no
	case len(r.Command) > 0:
		return r.coversScript(s)
	default:
		return r.coversArgs(s)
	}
}

func (r Rule) by() string { return "rule:" + r.ID }

func (r Rule) because(otherwise string) string {
	if r.Reason != "" {
		return r.Reason + " (rule " + r.ID + ")"
	}
	return otherwise
}
