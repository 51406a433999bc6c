package main

import (
	"fmt"
	"slices"
	"strings"
)

const (
	diffContext = 3 // lines around a change
	// maxDiffCells bounds the work of comparing: what is larger is shown as taken
	// out whole and put in whole, which is true as well.
	maxDiffCells = 1 << 20
)

// edit is one line of a comparison: kept (' '), taken out ('-') or put in ('+').
type edit struct {
	op   byte
	line string // with its newline, if it has one
}

// unified compares two texts as diff -u does, without the lines that name the
// files; nothing if they are the same.
func unified(old, now string) []string {
	edits := compare(splitLines(old), splitLines(now))
	var out []string
	oldLine, newLine := 1, 1
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' {
			i, oldLine, newLine = i+1, oldLine+1, newLine+1
			continue
		}
		begin := max(i-diffContext, 0)
		end := hunkEnd(edits, i)
		lead := i - begin
		hunk := edits[begin:end]
		removed, added := countOps(hunk)
		out = append(out, fmt.Sprintf("@@ -%s +%s @@", span(oldLine-lead, removed), span(newLine-lead, added)))
		for _, e := range hunk {
			out = append(out, string(e.op)+strings.TrimSuffix(e.line, "\n"))
			if !strings.HasSuffix(e.line, "\n") {
				out = append(out, `\ No newline at end of file`)
			}
		}
		oldLine, newLine = oldLine-lead+removed, newLine-lead+added
		i = end
	}
	return out
}

// hunkEnd is where the change at i ends with its context; changes that are near
// each other are told together.
func hunkEnd(edits []edit, i int) int {
	last := i
	for j := i; j < len(edits) && j-last <= 2*diffContext; j++ {
		if edits[j].op != ' ' {
			last = j
		}
	}
	return min(last+1+diffContext, len(edits))
}

// countOps counts the lines of a hunk in the old and in the new text.
func countOps(hunk []edit) (old, now int) {
	for _, e := range hunk {
		if e.op != '+' {
			old++
		}
		if e.op != '-' {
			now++
		}
	}
	return old, now
}

func span(first, count int) string {
	if count == 0 {
		first-- // diff names the line before
	}
	return fmt.Sprintf("%d,%d", first, count)
}

// splitLines keeps the newlines, so that a missing one at the end is a change.
func splitLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func compare(a, b []string) []edit {
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	edits := all(' ', a[:head])
	edits = append(edits, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	return append(edits, all(' ', a[len(a)-tail:])...)
}

// middle finds the longest common lines of two texts.
func middle(a, b []string) []edit {
	if len(a) == 0 || len(b) == 0 || len(a) > maxDiffCells/len(b) {
		return append(all('-', a), all('+', b)...)
	}
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width) // of what is left from a[i] and b[j] on
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	var edits []edit
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			edits = append(edits, edit{' ', a[i]})
			i, j = i+1, j+1
		case common[(i+1)*width+j] >= common[i*width+j+1]:
			edits = append(edits, edit{'-', a[i]})
			i++
		default:
			edits = append(edits, edit{'+', b[j]})
			j++
		}
	}
	return slices.Concat(edits, all('-', a[i:]), all('+', b[j:]))
}

func all(op byte, lines []string) []edit {
	edits := make([]edit, len(lines))
	for i, l := range lines {
		edits[i] = edit{op, l}
	}
	return edits
}
