package policy

import (
	"path"
	"slices"
	"strings"
)

// permits says whether an allow rule lets one program run with these words. A
// flag that is not listed is never let through.
func (r Rule) permits(argv []string, dir string) bool {
	if len(r.Command) == 0 || len(argv) < len(r.Command) {
		return false
	}
	for i, w := range r.Command {
		if argv[i] != w {
			return false
		}
	}
	operands := false // after "--" everything is an operand
	for _, w := range argv[len(r.Command):] {
		switch {
		case !operands && isFlag(w):
			if !r.lists(w) {
				return false
			}
			operands = w == "--"
		case !r.takes(w, dir):
			return false
		}
	}
	return true
}

func isFlag(w string) bool { return strings.HasPrefix(w, "-") || strings.HasPrefix(w, "+") }

// lists reports whether a flag is written in the rule.
func (r Rule) lists(flag string) bool {
	joined := true // whether -la may stand for -l -a
	for _, f := range r.Flags {
		stem, valued := strings.CutSuffix(f, "=")
		long := strings.HasPrefix(f, "--")
		switch {
		case flag == stem:
			return true
		case valued && long && strings.HasPrefix(flag, f):
			return true
		case valued && !long && strings.HasPrefix(flag, stem):
			return true
		case f == "-#" && number(flag[1:]) && flag[0] == '-':
			return true
		}
		// A program with flags such as -name does not join letters.
		joined = joined && (long || valued || len(f) == 2)
	}
	return joined && r.listsLetters(flag)
}

func (r Rule) listsLetters(flag string) bool {
	if len(flag) < 3 || flag[0] != '-' || flag[1] == '-' {
		return false
	}
	for _, letter := range flag[1:] {
		if !slices.Contains(r.Flags, "-"+string(letter)) {
			return false
		}
	}
	return true
}

func number(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// takes says whether a word that is no flag is welcome. A path may not hold what
// programs read as another machine, a setting or a list of further words.
func (r Rule) takes(operand, dir string) bool {
	switch r.Operands {
	case OperandsAny:
		return true
	case OperandsNone:
		return false
	}
	_, inside := within(dir, operand)
	return inside && !strings.ContainsAny(operand, ":=") && operand != "" && operand[0] != '@'
}

// coversScript looks for the command of an ask or deny rule in every command of
// a script. Allowing is for whole scripts: see allowScript.
func (r Rule) coversScript(s subject) certainty {
	if !s.shell {
		return no
	}
	if s.script.text == "" {
		return maybe // there is no command to look at
	}
	if !s.script.parsed {
		return r.mentioned(s.script.text)
	}
	best := no
	for _, c := range s.script.found {
		best = max(best, r.against(c))
	}
	return best
}

// mentioned is all that can be said of a text that is no shell command.
func (r Rule) mentioned(text string) certainty {
	text = strings.ToLower(text)
	for _, w := range r.Command {
		if !strings.Contains(text, strings.ToLower(w)) {
			return no
		}
	}
	return maybe
}

func (r Rule) against(c simple) certainty {
	best := r.heads(c)
	name := c.name()
	if startsOthers[name] {
		for i := range c[1:] {
			best = max(best, r.heads(c[i+1:]))
		}
	}
	if name == strings.ToLower(r.Command[0]) || !startsOthers[name] && !readsPrograms[name] && !runsByFlag[name] {
		return best
	}
	for _, w := range c[1:] {
		if mentions(w.text, r.Command[0]) {
			best = max(best, maybe)
		}
	}
	return best
}

// mentions reports whether a name stands in a text as a word of its own.
func mentions(text, name string) bool {
	text, name = strings.ToLower(text), strings.ToLower(name)
	for {
		before, after, found := strings.Cut(text, name)
		if !found {
			return false
		}
		if (before == "" || !letterOrDigit(before[len(before)-1])) && (after == "" || !letterOrDigit(after[0])) {
			return true
		}
		text = text[len(before)+1:]
	}
}

// heads compares a command from its first word on.
func (r Rule) heads(c simple) certainty {
	if !c[0].known {
		return maybe
	}
	if !strings.EqualFold(path.Base(c[0].text), path.Base(r.Command[0])) {
		return no
	}
	return min(subcommand(r.Command[1:], c[1:]), r.flagged(c[1:]))
}

// subcommand looks for the words that follow the program's name. Flags may stand
// before them, and whether a flag has a value only its program knows.
func subcommand(want []string, have simple) certainty {
	sure := yes
	for _, w := range have {
		switch {
		case len(want) == 0:
			return sure
		case !w.known:
			return maybe
		case w.text == want[0]:
			want = want[1:]
		case isFlag(w.text):
		default:
			sure = maybe
		}
		if sure == maybe && !isFlag(have[0].text) {
			return no // its own first word is another subcommand
		}
	}
	if len(want) > 0 {
		return no
	}
	return sure
}

// flagged reports whether one of the rule's flags is among the words.
func (r Rule) flagged(have simple) certainty {
	if len(r.Flags) == 0 {
		return yes
	}
	sure := no
	for _, w := range have {
		if !w.known {
			sure = maybe
			continue
		}
		for _, f := range r.Flags {
			if meansFlag(w.text, strings.TrimSuffix(f, "=")) {
				return yes
			}
		}
	}
	return sure
}

// meansFlag takes short flags apart and long ones by their beginning, as many
// programs do.
func meansFlag(w, flag string) bool {
	if strings.HasPrefix(flag, "--") {
		name, _, _ := strings.Cut(w, "=")
		return len(name) > 2 && strings.HasPrefix(flag, name)
	}
	return w == flag || len(flag) == 2 && flag[0] == '-' && len(w) > 2 && w[0] == '-' && w[1] != '-' && strings.Contains(w[1:], flag[1:])
}
