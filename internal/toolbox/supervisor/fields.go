package supervisor

import (
	"encoding/binary"
	"time"
)

// A command travels as its fields one after the other, each text and each list
// behind its length: it is read for every command, while somebody waits.

// Bits of a Spec's flags.
const (
	flagSession = 1 << iota
	flagWrapped
)

func (s Spec) append(b []byte) []byte {
	var flags, deadline uint64
	if s.Session {
		flags |= flagSession
	}
	if s.Wrapped {
		flags |= flagWrapped
	}
	if !s.Deadline.IsZero() {
		deadline = uint64(s.Deadline.UnixNano())
	}
	b = binary.AppendUvarint(b, flags)
	b = binary.AppendUvarint(b, deadline)
	b = appendText(b, s.ID)
	b = appendText(b, s.Dir)
	b = appendText(b, s.Walls)
	for _, list := range [][]string{s.Argv, s.Env, s.Hold, s.Inner, s.Collect} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, v := range list {
			b = appendText(b, v)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s.Files)))
	for _, f := range s.Files {
		b = appendText(appendText(b, f.Path), f.Data)
	}
	return b
}

func appendText[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// readSpec reads what append wrote.
func readSpec(body []byte) (Spec, error) {
	r := fields{rest: string(body)} // which all texts are parts of
	flags, deadline := r.number(), r.number()
	s := Spec{Session: flags&flagSession != 0, Wrapped: flags&flagWrapped != 0, ID: r.text(), Dir: r.text(), Walls: r.bytes()}
	if deadline != 0 {
		s.Deadline = time.Unix(0, int64(deadline))
	}
	for _, list := range []*[]string{&s.Argv, &s.Env, &s.Hold, &s.Inner, &s.Collect} {
		n := r.count()
		if n > 0 {
			*list = make([]string, n)
		}
		for i := range n {
			(*list)[i] = r.text()
		}
	}
	for range r.count() {
		s.Files = append(s.Files, File{Path: r.text(), Data: r.bytes()})
	}
	if r.broken || r.rest != "" {
		return Spec{}, errFrame
	}
	return s, nil
}

// fields reads one field after the other. Behind one that is broken, all are empty.
type fields struct {
	rest   string
	broken bool
}

func (r *fields) number() (n uint64) {
	for shift := 0; shift < 64 && len(r.rest) > 0; shift += 7 {
		c := r.rest[0]
		r.rest = r.rest[1:]
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	r.rest, r.broken = "", true
	return 0
}

// count is a number of things that are still to come, each at least a byte long.
func (r *fields) count() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.rest, r.broken = "", true
		return 0
	}
	return int(n)
}

func (r *fields) text() (v string) {
	n := r.count()
	v, r.rest = r.rest[:n], r.rest[n:]
	return v
}

func (r *fields) bytes() []byte {
	if v := r.text(); v != "" {
		return []byte(v)
	}
	return nil
}
