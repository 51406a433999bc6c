package runelog

import (
	"bytes"
	"slices"
)

// member is where a member of an object, name and value, was written.
type member struct {
	name     []byte
	from, to int
}

// appendOrdered writes the value that starts at i with the members of its objects
// in order. Most of what is not canonical lacks nothing else: it was a struct. It
// says false where skipCanonical would for another reason, and for a name that
// comes twice; what was written then is to be thrown away.
func appendOrdered(dst, b []byte, i, depth int) (out []byte, end int, ok bool) {
	if i < len(b) && depth <= quickDepth {
		switch b[i] {
		case '{':
			return appendObject(dst, b, i, depth)
		case '[':
			return appendArray(dst, b, i, depth)
		}
	}
	end, ok = skipCanonical(b, i, depth)
	return append(dst, b[i:end]...), end, ok
}

func appendArray(dst, b []byte, i, depth int) (out []byte, end int, ok bool) {
	dst = append(dst, '[')
	i++
	if i < len(b) && b[i] == ']' {
		return append(dst, ']'), i + 1, true
	}
	for {
		if dst, i, ok = appendOrdered(dst, b, i, depth+1); !ok || i >= len(b) {
			return dst, i, false
		}
		dst = append(dst, b[i])
		i++
		switch b[i-1] {
		case ',':
		case ']':
			return dst, i, true
		default:
			return dst, i, false
		}
	}
}

func appendObject(dst, b []byte, i, depth int) (out []byte, end int, ok bool) {
	dst = append(dst, '{')
	start := len(dst)
	i++
	if i < len(b) && b[i] == '}' {
		return append(dst, '}'), i + 1, true
	}
	var room [16]member // enough for most, without the heap
	members := room[:0]
	for {
		if i >= len(b) || b[i] != '"' {
			return dst, i, false
		}
		end, plain, ok := skipString(b, i)
		if !ok || !plain || end >= len(b) || b[end] != ':' {
			return dst, i, false
		}
		m := member{name: b[i+1 : end-1], from: len(dst)}
		dst = append(dst, b[i:end+1]...)
		if dst, i, ok = appendOrdered(dst, b, end+1, depth+1); !ok || i >= len(b) {
			return dst, i, false
		}
		m.to = len(dst)
		members = append(members, m)
		dst = append(dst, b[i])
		i++
		switch b[i-1] {
		case ',':
		case '}':
			return sortMembers(dst, start, members), i, distinct(members)
		default:
			return dst, i, false
		}
	}
}

// sortMembers rewrites the members of an object that begin at start.
func sortMembers(dst []byte, start int, members []member) []byte {
	byName := func(a, b member) int { return bytes.Compare(a.name, b.name) }
	if slices.IsSortedFunc(members, byName) {
		return dst
	}
	slices.SortFunc(members, byName)
	old := bytes.Clone(dst[start:])
	dst = dst[:start]
	for k, m := range members {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, old[m.from-start:m.to-start]...)
	}
	return append(dst, '}')
}

// distinct says that no two neighbours of sorted members have the same name.
func distinct(members []member) bool {
	for k := 1; k < len(members); k++ {
		if bytes.Equal(members[k-1].name, members[k].name) {
			return false
		}
	}
	return true
}
