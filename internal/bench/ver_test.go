package bench

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"stave/internal/engine"
)

func BenchmarkVer(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	store := openStore(b, dir)
	history(b, store, "conv_long", 300_000)
	check(b, store.Close())
	s := openStore(b, dir)
	b.ResetTimer()
	for b.Loop() {
		began := time.Now()
		proof, err := engine.Verify(context.Background(), s, "conv_long")
		check(b, err)
		b.ReportMetric(float64(proof.Runes)/time.Since(began).Seconds(), "runes/s")
		began = time.Now()
		for _, err := range s.Read(context.Background(), "conv_long", 0) {
			check(b, err)
		}
		b.ReportMetric(float64(proof.Runes)/time.Since(began).Seconds(), "read-runes/s")
	}
	check(b, s.Close())
}
