package runelog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads the canonical bytes of one rune, which it keeps: the caller must
// not change them afterwards. Anything that Encode would write differently is
// refused with ErrCorrupt. A rune of a later version comes back with its raw
// bytes and hash, its version, and ErrVersion.
func Decode(raw []byte) (Rune, error) {
	return decode(raw, string(raw))
}

// DecodeBlock appends to runes those that lie one after the other in block, rune
// i ending at ends[i]. It keeps block. With an error come the runes before the
// fault. Whether they follow each other is for a Checker to say.
func DecodeBlock(runes []Rune, block []byte, ends []int) ([]Rune, error) {
	text := string(block) // at once for all of them
	start := 0
	for _, end := range ends {
		r, err := decode(block[start:end:end], text[start:end])
		if err != nil {
			return runes, err
		}
		runes = append(runes, r)
		start = end
	}
	return runes, nil
}

// decode takes the bytes twice so that a reader of many runes can convert a
// whole block to a string at once; text must equal raw.
func decode(raw []byte, text string) (Rune, error) {
	r := Rune{raw: raw, hash: sha256.Sum256(raw)}
	if len(raw) > MaxRaw {
		return r, fmt.Errorf("%w: rune of %d bytes, at most %d", ErrCorrupt, len(raw), MaxRaw)
	}
	p := parser{raw: raw, text: text}
	p.rune(&r)
	if !p.failed && p.i == len(raw) && r.V == Version {
		return r, nil
	}
	v, err := versionOf(raw)
	later := Rune{V: v, raw: raw, hash: r.hash}
	switch {
	case err != nil:
		return later, fmt.Errorf("%w: %w", ErrCorrupt, err)
	case v > Version:
		return later, fmt.Errorf("%w: version %d, this program knows %d", ErrVersion, v, Version)
	default:
		return later, fmt.Errorf("%w: rune is not in canonical form near byte %d", ErrCorrupt, p.i)
	}
}

// versionOf reads the member v of an object whose other members may be unknown.
func versionOf(raw []byte) (int, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	if open, err := d.ReadToken(); err != nil || open.Kind() != '{' {
		return 0, errors.New("rune is not a JSON object")
	}
	version := 0
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return 0, fmt.Errorf("read member name: %w", err)
		}
		isVersion := name.String() == "v"
		value, err := d.ReadValue()
		if err != nil {
			return 0, fmt.Errorf("read member: %w", err)
		}
		if isVersion && value.Kind() == '0' {
			version = smallInt(value)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return 0, fmt.Errorf("read end: %w", err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return 0, errors.New("bytes after the rune")
	}
	return version, nil
}

func smallInt(digits []byte) int {
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' || n > 1<<20 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// parser reads the one layout Encode writes. After a mismatch failed is set and
// every further step is a no-op.
type parser struct {
	raw    []byte
	text   string
	i      int
	failed bool
}

func (p *parser) rune(r *Rune) {
	r.By = p.member(`{"by":`)
	if p.peek(`,"cause":`) {
		r.Cause = p.number(`,"cause":`)
		p.failed = p.failed || r.Cause == 0
	}
	r.From = p.member(`,"from":`)
	r.ID = p.member(`,"id":`)
	if p.peek(`,"job":`) {
		r.Job = p.member(`,"job":`)
		p.failed = p.failed || r.Job == ""
	}
	r.Kind = p.member(`,"kind":`)
	r.Log = p.member(`,"log":`)
	r.Path = p.member(`,"path":`)
	r.Payload = p.value(`,"payload":`)
	r.Prev = p.member(`,"prev":`)
	r.Seq = p.number(`,"seq":`)
	if p.peek(`,"tags":`) {
		r.Tags = p.tags()
	}
	r.To = p.member(`,"to":`)
	p.expect(`,"ts_ms":`)
	negative := p.peek("-")
	if negative {
		p.i++
	}
	r.TSMs = int64(p.number(""))
	if negative {
		p.failed = p.failed || r.TSMs == 0
		r.TSMs = -r.TSMs
	}
	r.V = int(p.number(`,"v":`))
	r.Visibility = Visibility(p.member(`,"visibility":`))
	p.expect(`}`)
	p.failed = p.failed || r.V <= Version && checkFields(r) != nil
}

func (p *parser) peek(s string) bool {
	return !p.failed && strings.HasPrefix(p.text[p.i:], s)
}

func (p *parser) expect(s string) {
	if !p.peek(s) {
		p.failed = true
		return
	}
	p.i += len(s)
}

func (p *parser) number(key string) uint64 {
	p.expect(key)
	if p.failed {
		return 0
	}
	start, n := p.i, uint64(0)
	for p.i < len(p.raw) && '0' <= p.raw[p.i] && p.raw[p.i] <= '9' && n <= MaxNumber {
		n = n*10 + uint64(p.raw[p.i]-'0')
		p.i++
	}
	digits := p.i - start
	if digits == 0 || digits > 1 && p.raw[start] == '0' || n > MaxNumber {
		p.failed = true
	}
	return n
}

func (p *parser) member(key string) string {
	p.expect(key)
	return p.string()
}

func (p *parser) string() string {
	if p.failed {
		return ""
	}
	// Nearly every member is plain, and for those finding the quote is enough.
	start := p.i + 1
	if start > len(p.raw) || p.raw[p.i] != '"' {
		p.failed = true
		return ""
	}
	end := skipPlain(p.raw, start)
	if end == len(p.raw) || p.raw[end] != '"' {
		return p.escaped()
	}
	p.i = end + 1
	return p.text[start:end]
}

func (p *parser) escaped() string {
	end, _, ok := skipString(p.raw, p.i)
	if !ok {
		p.failed = true
		return ""
	}
	quoted := p.text[p.i:end]
	p.i = end
	if !strings.Contains(quoted, `\`) {
		return quoted[1 : len(quoted)-1]
	}
	s, err := jsontext.AppendUnquote(nil, quoted)
	p.failed = p.failed || err != nil
	return string(s)
}

func (p *parser) value(key string) jsontext.Value {
	p.expect(key)
	if p.failed {
		return nil
	}
	end, ok := skipCanonical(p.raw, p.i, 0)
	if !ok {
		end, ok = skipSlowly(p.raw, p.i)
	}
	if !ok {
		p.failed = true
		return nil
	}
	value := p.raw[p.i:end:end]
	p.i = end
	return value
}

// skipSlowly does the same as skipCanonical for the values that function gives
// up on.
func skipSlowly(raw []byte, i int) (int, bool) {
	d := jsontext.NewDecoder(bytes.NewReader(raw[i:]))
	value, err := d.ReadValue()
	if err != nil {
		return i, false
	}
	end := i + len(value)
	canonical, err := Canonicalize(value)
	return end, err == nil && bytes.Equal(canonical, raw[i:end])
}

func (p *parser) tags() []string {
	p.expect(`,"tags":[`)
	var tags []string
	for !p.failed {
		tags = append(tags, p.string())
		if p.peek("]") {
			p.i++
			break
		}
		p.expect(",")
	}
	return tags
}
