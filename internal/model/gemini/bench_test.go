package gemini_test

import (
	"context"
	"iter"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"stave/internal/model"
	"stave/internal/model/gemini"
	"stave/internal/model/wire"
)

// twenty says twenty pieces of text and ends.
type twenty struct{}

func (twenty) Stream(context.Context, model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		for range 20 {
			if !yield(model.Event{Text: "a few words "}, nil) {
				return
			}
		}
		_ = yield(model.Event{Usage: &model.Usage{InputTokens: 1}}, nil) && yield(model.Event{Done: model.StopEnd}, nil)
	}
}

// BenchmarkThousand is one call among a thousand side by side, server included.
func BenchmarkThousand(b *testing.B) {
	server := httptest.NewServer(wire.Handler(twenty{}))
	defer server.Close()
	p, err := gemini.New(gemini.Options{APIKey: "k", BaseURL: server.URL})
	if err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range 1000 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := ask(b.Context(), p); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
