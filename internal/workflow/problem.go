package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems is how many mistakes one check reports.
const maxProblems = 20

// Problem is one mistake in a definition.
type Problem struct {
	File  string
	Line  int    // 0 where a definition was not read from a file
	Where string // "stage Plan, turnCap"
	Text  string // what is wrong and what to write instead

	absent bool // it is about a field that is not in the file
}

func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		b.WriteByte(':')
		if p.Line > 0 {
			fmt.Fprintf(&b, "%d:", p.Line)
		}
		b.WriteByte(' ')
	}
	if p.Where != "" {
		b.WriteString(p.Where + ": ")
	}
	return b.String() + p.Text
}

// Problems are the mistakes of one definition in the order of its lines.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// orNil sorts and bounds the problems; none are no error.
func (ps Problems) orNil() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if more := len(ps) - maxProblems; more > 0 {
		ps = append(slices.Clip(ps[:maxProblems]), Problem{File: ps[0].File, Text: fmt.Sprintf("and %d more problems", more)})
	}
	return ps
}

// list writes names as people read them.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// closest is the known name a mistyped one most likely means, "" if none is near.
func closest(name string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least && d < len(k) {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to add, drop or change between two short words.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// Instead says what to write for an unknown name.
func Instead(name string, known []string) string {
	if near := closest(name, known); near != "" {
		return fmt.Sprintf("did you mean %s? known: %s", near, list(known))
	}
	return "known: " + list(known)
}
