package secret

import (
	"maps"
	"slices"
	"strings"
)

// maxWindow is how many bytes of each pattern the jump table looks at.
const maxWindow = 32

// finder looks for many patterns at once. It looks at two bytes at the end of a
// window as long as the shortest pattern: most pairs occur in no pattern, and
// then the whole window can be jumped over (Wu and Manber's method).
type finder struct {
	sorted  []string
	window  int
	longest int
	jump    []uint8             // by pair of bytes; 0: a pattern may begin here
	ending  map[uint16][]string // patterns by the pair at the end of their window, the longest first
	first   [256]bool           // what a pattern begins with
}

func newFinder(patterns map[string]bool) *finder {
	f := &finder{sorted: slices.Sorted(maps.Keys(patterns)), window: maxWindow, jump: make([]uint8, 1<<16), ending: map[uint16][]string{}}
	for _, p := range f.sorted {
		f.window = min(f.window, len(p))
		f.longest = max(f.longest, len(p))
		f.first[p[0]] = true
	}
	for i := range f.jump {
		f.jump[i] = uint8(f.window - 1)
	}
	for _, p := range f.sorted {
		for i := range f.window - 1 {
			at := pair(p, i)
			f.jump[at] = min(f.jump[at], uint8(f.window-2-i))
		}
		last := pair(p, f.window-2)
		f.ending[last] = append(f.ending[last], p)
	}
	for _, list := range f.ending {
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	}
	return f
}

func pair(s string, i int) uint16 { return uint16(s[i])<<8 | uint16(s[i+1]) }

// next finds the first place from i on where a pattern begins, and the end of the
// longest that does; len(text) if there is none.
func (f *finder) next(text string, i int) (start, end int) {
	if f.window == 0 {
		return len(text), len(text)
	}
	jump := f.jump[:1<<16]
	for last := i + f.window - 2; last+1 < len(text); {
		step := int(jump[uint16(text[last])<<8|uint16(text[last+1])])
		if step > 0 {
			last += step
			continue
		}
		at := last - (f.window - 2)
		for _, p := range f.ending[pair(text, last)] {
			if strings.HasPrefix(text[at:], p) {
				return at, at + len(p)
			}
		}
		last++
	}
	return len(text), len(text)
}

// pending finds the first place where the text ends within a pattern, so that
// more text could complete it; len(text) if there is none.
func (f *finder) pending(text string) int {
	for i := max(0, len(text)-f.longest+1); i < len(text); i++ {
		if f.first[text[i]] && f.begins(text[i:]) {
			return i
		}
	}
	return len(text)
}

// begins reports whether a pattern begins with the text and goes on.
func (f *finder) begins(text string) bool {
	i, exact := slices.BinarySearch(f.sorted, text)
	if exact {
		i++
	}
	return i < len(f.sorted) && strings.HasPrefix(f.sorted[i], text)
}
