package toolbox

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"strings"
)

// maxLiterals bounds how many texts a prefilter looks for.
const maxLiterals = 16

// prefilter knows texts of which every match of an expression contains at least
// one. Text without any of them needs no regular expression. A prefilter that
// knows none lets everything pass.
type prefilter struct {
	literals [][]byte
	fold     bool // the literals are lower case and so must be what they are sought in
	lowered  []byte
}

func newPrefilter(re *syntax.Regexp) prefilter {
	p := prefilter{fold: foldsCase(re)}
	for _, text := range required(re, p.fold) {
		p.literals = append(p.literals, []byte(text))
	}
	return p
}

func (p *prefilter) pass(text []byte) bool {
	if len(p.literals) == 0 {
		return true
	}
	if p.fold {
		p.lowered = appendLower(p.lowered[:0], text)
		text = p.lowered
	}
	for _, literal := range p.literals {
		if bytes.Contains(text, literal) {
			return true
		}
	}
	return false
}

func foldsCase(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase != 0 || slices.ContainsFunc(re.Sub, foldsCase)
}

// required returns texts of which every match contains one, nil if it knows none.
func required(re *syntax.Regexp, fold bool) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return requiredLiteral(re, fold)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0], fold)
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0], fold)
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if texts := required(sub, fold); shortest(texts) > shortest(best) {
				best = texts
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			texts := required(sub, fold)
			if texts == nil || len(all)+len(texts) > maxLiterals {
				return nil
			}
			all = append(all, texts...)
		}
		return all
	}
	return nil
}

func requiredLiteral(re *syntax.Regexp, fold bool) []string {
	text := string(re.Rune)
	if !fold {
		return []string{text}
	}
	text = string(appendLower(nil, []byte(text)))
	if re.Flags&syntax.FoldCase == 0 {
		return []string{text}
	}
	// Letters beyond ASCII fold by tables, and so do k and s, which are also the
	// Kelvin sign and the long s: only the rest is compared byte by byte.
	best := ""
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r > '~' || r == 'k' || r == 's' }) {
		if len(run) > len(best) {
			best = run
		}
	}
	if best == "" {
		return nil
	}
	return []string{best}
}

// shortest is the length of the shortest text, 0 if there is none: the longer
// it is, the less passes.
func shortest(texts []string) int {
	n := 0
	for i, text := range texts {
		if i == 0 || len(text) < n {
			n = len(text)
		}
	}
	return n
}

func appendLower(to, text []byte) []byte {
	to = append(to, text...)
	for i, c := range to {
		if 'A' <= c && c <= 'Z' {
			to[i] = c + 'a' - 'A'
		}
	}
	return to
}
