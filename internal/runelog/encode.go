package runelog

import (
	"errors"
	"fmt"
	"strconv"
)

// Bounds of one rune. Sequence numbers and times stay exact in every JSON
// reader.
const (
	MaxRaw    = 128 << 10 // canonical bytes of one rune
	MaxNumber = 1 << 53   // seq, cause and the magnitude of ts_ms
)

// What the codec refuses.
var (
	ErrVersion  = errors.New("the rune was written by a later version")
	ErrTooLarge = errors.New("larger than the limit")
	ErrInvalid  = errors.New("not a valid rune")
)

// Encode returns the canonical bytes (RFC 8785, see Canonicalize) of r.
func Encode(r Rune) ([]byte, error) {
	payload, err := canonicalPayload(r.Payload)
	if err != nil {
		return nil, err
	}
	r.Payload = payload
	return appendRune(make([]byte, 0, sizeHint(&r)), &r)
}

// sizeHint is an upper bound for runes whose strings need no escapes.
func sizeHint(r *Rune) int {
	const keysAndNumbers = 256
	n := keysAndNumbers + len(r.ID) + len(r.Log) + len(r.Path) + len(r.Kind) + len(r.From) + len(r.To) +
		len(r.Visibility) + len(r.By) + len(r.Job) + len(r.Payload) + len(r.Prev)
	for _, tag := range r.Tags {
		n += len(tag) + 3
	}
	return n
}

func canonicalPayload(payload []byte) ([]byte, error) {
	if payload == nil {
		return []byte("{}"), nil
	}
	c, err := Canonicalize(payload)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return c, nil
}

// appendRune writes the envelope in canonical key order around a payload that
// is canonical already.
func appendRune(dst []byte, r *Rune) ([]byte, error) {
	if err := checkFields(r); err != nil {
		return nil, err
	}
	w := writer{dst: dst}
	w.text(`{"by":`, r.By)
	if r.Cause != 0 {
		w.number(`,"cause":`, r.Cause)
	}
	w.text(`,"from":`, r.From)
	w.text(`,"id":`, r.ID)
	if r.Job != "" {
		w.text(`,"job":`, r.Job)
	}
	w.text(`,"kind":`, r.Kind)
	w.text(`,"log":`, r.Log)
	w.text(`,"path":`, r.Path)
	w.raw(`,"payload":`)
	w.dst = append(w.dst, r.Payload...)
	w.text(`,"prev":`, r.Prev)
	w.number(`,"seq":`, r.Seq)
	if len(r.Tags) > 0 {
		w.tags(r.Tags)
	}
	w.text(`,"to":`, r.To)
	w.raw(`,"ts_ms":`)
	w.dst = strconv.AppendInt(w.dst, r.TSMs, 10)
	w.number(`,"v":`, uint64(r.V))
	w.text(`,"visibility":`, string(r.Visibility))
	w.raw(`}`)
	if w.bad != "" {
		return nil, fmt.Errorf("%w: member %s is not UTF-8", ErrInvalid, w.bad)
	}
	if n := len(w.dst) - len(dst); n > MaxRaw {
		return nil, fmt.Errorf("%w: rune of %d bytes, at most %d", ErrTooLarge, n, MaxRaw)
	}
	return w.dst, nil
}

func checkFields(r *Rune) error {
	switch {
	case r.V < 1 || r.V > Version:
		return fmt.Errorf("%w: version %d", ErrInvalid, r.V)
	case r.Kind == "":
		return fmt.Errorf("%w: no kind", ErrInvalid)
	case r.Log == "":
		return fmt.Errorf("%w: no log", ErrInvalid)
	case r.Visibility != Public && r.Visibility != Internal && r.Visibility != Secret:
		return fmt.Errorf("%w: visibility %q", ErrInvalid, r.Visibility)
	case r.Seq > MaxNumber || r.Cause > MaxNumber || r.TSMs > MaxNumber || r.TSMs < -MaxNumber:
		return fmt.Errorf("%w: a number exceeds 2^53", ErrInvalid)
	}
	return nil
}

// writer appends members and remembers the first that was not text.
type writer struct {
	dst []byte
	bad string
}

func (w *writer) raw(s string) { w.dst = append(w.dst, s...) }

func (w *writer) number(key string, n uint64) {
	w.dst = strconv.AppendUint(append(w.dst, key...), n, 10)
}

func (w *writer) text(key, s string) {
	var ok bool
	if w.dst, ok = appendString(append(w.dst, key...), s); !ok && w.bad == "" {
		w.bad = key[1 : len(key)-1]
	}
}

func (w *writer) tags(tags []string) {
	key := `,"tags":[`
	for _, tag := range tags {
		var ok bool
		if w.dst, ok = appendString(append(w.dst, key...), tag); !ok && w.bad == "" {
			w.bad = `"tags"`
		}
		key = ","
	}
	w.raw("]")
}
