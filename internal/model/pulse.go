package model

import (
	"context"
	"io"
)

type pulseKey struct{}

// WithPulse lets whoever waits for a call hear that it is alive although it has
// nothing to say yet: it waits for its turn, or a long tool call is on its way.
func WithPulse(ctx context.Context, beat func()) context.Context {
	return context.WithValue(ctx, pulseKey{}, beat)
}

// Pulse tells whoever waits for a call that it is alive.
func Pulse(ctx context.Context) {
	if beat, ok := ctx.Value(pulseKey{}).(func()); ok {
		beat()
	}
}

// Pulsing reads an answer and tells with each piece that the call is alive.
func Pulsing(ctx context.Context, r io.Reader) io.Reader {
	if _, heard := ctx.Value(pulseKey{}).(func()); !heard {
		return r
	}
	return pulsing{ctx, r}
}

type pulsing struct {
	ctx context.Context
	r   io.Reader
}

func (p pulsing) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		Pulse(p.ctx)
	}
	return n, err
}
