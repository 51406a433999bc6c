package toolbox

import (
	"fmt"
	"strings"
)

const (
	// maxHintFile and maxHintWant bound the search for what comes nearest.
	maxHintFile  = 1 << 20
	maxHintWant  = 200
	maxHintLines = 8
	maxHintBytes = 160
)

// hint says what comes nearest to a text that was not found: the usual reasons
// are line ends, indentation, and a line remembered wrongly.
func hint(file, text string) string {
	if strings.Contains(file, "\r\n") && strings.Contains(strings.ReplaceAll(file, "\r\n", "\n"), text) {
		return `; its lines end in CRLF, so write \r\n in old_string and new_string`
	}
	if len(file) > maxHintFile {
		return "; read the file again"
	}
	have, want := strings.Split(file, "\n"), strings.Split(strings.Trim(text, "\n"), "\n")
	if len(want) > maxHintWant {
		want = want[:maxHintWant]
	}
	start, same := nearest(have, want)
	switch {
	case same == 0:
		return "; read the file again"
	case same == len(want):
		return fmt.Sprintf("; at line %d it differs only in white space:\n%s", start+1, quoteLines(have[start:start+same]))
	}
	wrong := start + same
	if wrong >= len(have) || wrong == len(have)-1 && have[wrong] == "" {
		return fmt.Sprintf("; it fits from line %d on, but the file ends after line %d", start+1, wrong)
	}
	return fmt.Sprintf("; it fits from line %d on, but line %d is:\n%s", start+1, wrong+1, quoteLines(have[wrong:wrong+1]))
}

// nearest finds where most lines in a row are alike apart from white space.
func nearest(have, want []string) (start, same int) {
	squeezed := make([]string, len(want))
	for i, line := range want {
		squeezed[i] = squeeze(line)
	}
	alike := make([]string, len(have))
	for i, line := range have {
		alike[i] = squeeze(line)
	}
	for i := range alike {
		n := 0
		for n < len(squeezed) && i+n < len(alike) && alike[i+n] == squeezed[n] {
			n++
		}
		if n > same && strings.Join(squeezed[:n], "") != "" {
			start, same = i, n
		}
	}
	return start, same
}

func squeeze(line string) string { return strings.Join(strings.Fields(line), " ") }

// quoteLines shows lines exactly, with white space visible as Go writes it.
func quoteLines(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		if i == maxHintLines {
			fmt.Fprintf(&b, "(and %d more lines)\n", len(lines)-i)
			break
		}
		if len(line) > maxHintBytes {
			line = line[:maxHintBytes] + "…"
		}
		fmt.Fprintf(&b, "%q\n", line)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
