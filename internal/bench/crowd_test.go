package bench

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/model"
	"stave/internal/model/anthropic"
	"stave/internal/model/catalog"
	"stave/internal/model/queue"
	"stave/internal/toolbox"
)

const (
	crowd      = 1000
	crowdDelay = 200 * time.Millisecond // of the model, so that all wait at the same time
)

// BenchmarkCrowd runs 1,000 conversations at once in one process, with a real
// provider's code against a local model server, and says how much longer than the
// model itself a conversation takes.
func BenchmarkCrowd(b *testing.B) {
	server := localModel(b, "replies:\n  - {calls: [{tool: Read, args: {path: a.txt}}], usage: {input_tokens: 100, output_tokens: 10}, delay: 200ms}\n"+
		"  - {text: done, usage: {input_tokens: 120, output_tokens: 5}, delay: 200ms}\n")
	set, err := toolbox.NewSet(toolbox.All()...)
	check(b, err)
	dir := b.TempDir()
	check(b, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a file\n"), 0o600))
	calls := queue.New(queue.Options{})
	provider := calls.Provider("anthropic", anthropic.New(anthropic.Options{APIKey: "a-key-of-the-bench", BaseURL: server.URL}))
	for b.Loop() {
		store := openStore(b, filepath.Join(b.TempDir(), "data"))
		e := engine.New(engine.Options{
			Log: store, Tools: set, TempDir: b.TempDir(), MaxLive: 2 * crowd, Tokens: catalog.Tokens,
			Provider: func(context.Context, string) (model.Provider, error) { return provider, nil },
		})
		added := make([]time.Duration, crowd)
		var all sync.WaitGroup
		began := time.Now()
		for i := range crowd {
			all.Go(func() {
				start := time.Now()
				log, err := e.Begin(context.Background(), engine.Begin{Text: "go", By: "user:bench", Headless: true, Config: session.Config{
					Mode: "yolo", Dir: dir, Model: "local", Budget: model.Amount{Tokens: 1_000_000},
				}})
				if err == nil {
					_, err = e.Settle(context.Background(), log)
				}
				if err != nil {
					b.Error(err)
				}
				added[i] = time.Since(start) - 2*crowdDelay
			})
		}
		all.Wait()
		b.ReportMetric(float64(crowd)/time.Since(began).Seconds(), "conversations/s")
		slices.Sort(added)
		b.ReportMetric(ms(added[crowd/2]), "added-p50-ms")
		b.ReportMetric(ms(added[crowd*99/100]), "added-p99-ms")
		b.ReportMetric(residentMB(b), "peak-MB")
		check(b, e.Close(context.Background()))
		check(b, store.Close())
	}
}

// residentMB is the most memory this process has had, server and bench included.
func residentMB(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	check(b, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			check(b, err)
			return kb / 1024
		}
	}
	return 0
}
