package mcp

import (
	"context"
	"net/http"
	"sync/atomic"
)

// fate is what the transport knows about one call: without it nobody could tell
// a call that never left from one whose answer was lost.
type fate struct {
	sent   atomic.Bool  // some of it may have reached the server
	status atomic.Int32 // of the HTTP response, 0 if there was none
}

type fateKey struct{}

func withFate(ctx context.Context, f *fate) context.Context {
	return context.WithValue(ctx, fateKey{}, f)
}

func fateOf(ctx context.Context) *fate {
	f, _ := ctx.Value(fateKey{}).(*fate)
	return f
}

// markSent notes that the call of this context is leaving.
func markSent(ctx context.Context) {
	if f := fateOf(ctx); f != nil {
		f.sent.Store(true)
	}
}

// refused says that the server turned the call away before doing it.
func (f *fate) refused() bool {
	s := int(f.status.Load())
	return s >= 400 && s < 500 && s != http.StatusRequestTimeout
}
