package engine

import (
	"encoding/json"
	"io"
	"iter"
	"reflect"

	"stave/internal/machine"
	"stave/internal/model"
	"stave/internal/secret"
)

// clean takes what must not be seen out of a text before it reaches the log.
func (e *Engine) clean(text string) string {
	if e.opt.Secrets == nil {
		return text
	}
	return e.opt.Secrets.Redact(text)
}

// cleaned does the same with an answer as it comes: what may be the beginning of
// a secret is held back until it is known to be none.
func (e *Engine) cleaned(events iter.Seq2[model.Event, error]) iter.Seq2[model.Event, error] {
	if e.opt.Secrets == nil {
		return events
	}
	return func(yield func(model.Event, error) bool) {
		text, thought := e.opt.Secrets.Stream(), e.opt.Secrets.Stream()
		flush := func(s *secret.Stream, wrap func(string) model.Event) bool {
			rest := s.Close()
			return rest == "" || yield(wrap(rest), nil)
		}
		flushThought := func() bool {
			return flush(thought, func(s string) model.Event { return model.Event{Reasoning: &model.Reasoning{Text: s}} })
		}
		flushText := func() bool { return flush(text, func(s string) model.Event { return model.Event{Text: s} }) }
		for ev, err := range events {
			switch {
			case err != nil:
			case ev.Text != "":
				if ev.Text = text.Write(ev.Text); !flushThought() {
					return
				}
				if ev.Text == "" {
					continue
				}
			case ev.Reasoning != nil && ev.Reasoning.Text != "":
				r := *ev.Reasoning
				r.Text = thought.Write(r.Text)
				ev.Reasoning = &r
				if !flushText() {
					return
				}
			case !flushThought() || !flushText():
				return
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// cleanReader takes secrets out of what is read.
type cleanReader struct {
	from   io.Reader
	stream *secret.Stream
	buf    []byte
	ready  string
	ended  error
}

const cleanChunk = 32 << 10

func (e *Engine) cleanReader(r io.Reader) io.Reader {
	if e.opt.Secrets == nil {
		return r
	}
	return &cleanReader{from: r, stream: e.opt.Secrets.Stream(), buf: make([]byte, cleanChunk)}
}

// Read implements io.Reader.
func (c *cleanReader) Read(p []byte) (int, error) {
	for c.ready == "" && c.ended == nil {
		n, err := c.from.Read(c.buf)
		c.ready = c.stream.Write(string(c.buf[:n]))
		if err != nil {
			c.ready += c.stream.Close()
			c.ended = err
		}
	}
	if c.ready == "" {
		return 0, c.ended
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// scrub takes secrets out of whatever a command carries. It is the last door
// before the log: all that is recorded comes in by a command.
func (e *Engine) scrub(c machine.Command) machine.Command {
	if e.opt.Secrets == nil || !e.holdsSecret(reflect.ValueOf(c)) {
		return c
	}
	return e.scrubbed(reflect.ValueOf(c)).Interface()
}

var rawJSON = reflect.TypeFor[json.RawMessage]()

func (e *Engine) holdsSecret(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return e.opt.Secrets.Contains(v.String())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Type() == rawJSON && e.opt.Secrets.Contains(string(v.Bytes()))
		}
		for i := range v.Len() {
			if e.holdsSecret(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && e.holdsSecret(v.Field(i)) {
				return true
			}
		}
	case reflect.Pointer:
		return !v.IsNil() && e.holdsSecret(v.Elem())
	}
	return false
}

// scrubbed returns a copy without secrets; what the value shares with others is
// not touched.
func (e *Engine) scrubbed(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(e.clean(v.String()))
	case reflect.Slice:
		if v.Type() == rawJSON && v.Len() > 0 { // empty is no JSON, absent must stay absent
			out.SetBytes([]byte(e.clean(string(v.Bytes()))))
		} else if v.Type().Elem().Kind() != reflect.Uint8 && !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(e.scrubbed(v.Index(i)))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(e.scrubbed(v.Field(i)))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(e.scrubbed(v.Elem()))
		}
	}
	return out
}
