package policy

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command as far as it is known before it runs.
type word struct {
	text  string
	known bool
}

// simple is one command with its words, found anywhere in a script.
type simple []word

// unknownCommand stands for a command that only shows when the script runs.
var unknownCommand = simple{{}}

// name is what the command is called, without the directory it is taken from.
func (s simple) name() string { return strings.ToLower(path.Base(s[0].text)) }

// findCommands lists every simple command of a tree: in substitutions, branches
// and functions, and in the texts that a command hands to another shell.
func findCommands(root syntax.Node, depth int) []simple {
	var found []simple
	syntax.Walk(root, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				found = append(found, words(n.Args))
			}
		case *syntax.DeclClause:
			found = append(found, simple{{n.Variant.Value, true}})
		case *syntax.Stmt:
			found = append(found, fedToShell(n, depth)...)
		}
		return true
	})
	for _, s := range found {
		found = append(found, handedToShell(s, depth)...)
	}
	return found
}

func words(list []*syntax.Word) simple {
	s := make(simple, len(list))
	for i, w := range list {
		s[i] = valueOf(w.Parts, false)
	}
	return s
}

// valueOf works out a word as bash would. What depends on variables, files or
// output stays unknown.
func valueOf(parts []syntax.WordPart, quoted bool) word {
	var value strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if !quoted && strings.ContainsAny(p.Value, "*?[{~") {
				return word{}
			}
			value.WriteString(unescape(p.Value, quoted))
		case *syntax.SglQuoted:
			if p.Dollar {
				return word{}
			}
			value.WriteString(p.Value)
		case *syntax.DblQuoted:
			inner := valueOf(p.Parts, true)
			if !inner.known {
				return word{}
			}
			value.WriteString(inner.text)
		default:
			return word{}
		}
	}
	return word{value.String(), true}
}

// unescape removes the backslashes that bash removes.
func unescape(text string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		last := i+1 == len(text)
		if text[i] == '\\' && !last && (!quoted || strings.IndexByte("$`\"\\", text[i+1]) >= 0) {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// handedToShell reads the words of a command that takes scripts as words, such
// as eval or sh -c.
func handedToShell(s simple, depth int) []simple {
	name := s.name()
	if !readsScripts[name] && !hasShell(s) {
		return nil
	}
	var found []simple
	var whole []string
	for _, w := range s[1:] {
		if !w.known {
			return []simple{unknownCommand}
		}
		whole = append(whole, w.text)
		found = append(found, nested(w.text, depth)...)
	}
	if len(whole) == 0 && name != "eval" {
		return []simple{unknownCommand} // its script comes by standard input
	}
	return append(found, nested(strings.Join(whole, " "), depth)...)
}

// hasShell reports whether a command starts another that starts a shell.
func hasShell(s simple) bool {
	if !startsOthers[s.name()] {
		return false
	}
	for _, w := range s[1:] {
		if readsScripts[path.Base(w.text)] {
			return true
		}
	}
	return false
}

// fedToShell reads the here-documents and here-strings of a shell.
func fedToShell(s *syntax.Stmt, depth int) []simple {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || !readsScripts[words(call.Args[:1]).name()] {
		return nil
	}
	var found []simple
	for _, r := range s.Redirs {
		text := r.Word
		if r.Hdoc != nil {
			text = r.Hdoc
		}
		if value := valueOf(text.Parts, true); value.known {
			found = append(found, nested(value.text, depth)...)
		} else {
			found = append(found, unknownCommand)
		}
	}
	return found
}

func nested(text string, depth int) []simple {
	if depth >= maxNested {
		return []simple{unknownCommand}
	}
	inner := readScript(text, depth+1)
	if !inner.parsed && strings.TrimSpace(text) != "" {
		return []simple{unknownCommand}
	}
	return inner.found
}
