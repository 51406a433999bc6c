package engine

import (
	"io"
	"iter"

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
