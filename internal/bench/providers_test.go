package bench

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"stave/internal/model/script"
	"stave/internal/model/wire"
)

// dialect is one way to speak to a model: how stave is pointed at the local
// server, and where the floor speaks it.
type dialect struct {
	name, model string
	key, base   string // variables
	suffix      string // of the base URL
	path        string // of the floor
}

var dialects = []dialect{
	{"anthropic", "anthropic/local", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "", "/v1/messages"},
	{"responses", "openai/local", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1", "/v1/responses"},
	{"chat", "openai-chat/local", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1", "/v1/chat/completions"},
	{"gemini", "gemini/local", "GEMINI_API_KEY", "GEMINI_BASE_URL", "", "/v1beta/models/local:streamGenerateContent?alt=sse"},
}

// localModel serves a scripted model over TCP in every dialect.
func localModel(b *testing.B, text string) *httptest.Server {
	b.Helper()
	s, err := script.Parse("bench.yaml", []byte(text))
	check(b, err)
	server := httptest.NewServer(wire.Handler(s))
	b.Cleanup(server.Close)
	return server
}

// BenchmarkProviderRounds runs 100 shell rounds with each provider's real code
// against a local model server, and the floor against the same server.
func BenchmarkProviderRounds(b *testing.B) {
	stave, floor := build(b, "stave/cmd/stave"), build(b, "stave/internal/bench/floor")
	data := usedData(b, stave)
	server := localModel(b, shellRounds(rounds))
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) {
			check(b, os.Setenv(d.key, "a-key-of-the-bench"))
			check(b, os.Setenv(d.base, server.URL+d.suffix))
			for b.Loop() {
				contest{stave: stave, floor: floor, data: data, tail: []string{server.URL + d.path, d.name}}.run(b, d.model)
			}
		})
	}
}

// BenchmarkProviderDeltas reads an answer of 10,000 fragments over TCP, net of a
// short one, with stave and with the floor.
func BenchmarkProviderDeltas(b *testing.B) {
	stave, floor := build(b, "stave/cmd/stave"), build(b, "stave/internal/bench/floor")
	data := usedData(b, stave)
	const fragments = 10_000
	many := localModel(b, fmt.Sprintf("replies:\n  - {times: 9, text: %q, chunk: 4}\n", string(slices.Repeat([]byte("abc "), fragments))))
	one := localModel(b, "replies:\n  - {times: 9, text: hello}\n")
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) {
			check(b, os.Setenv(d.key, "a-key-of-the-bench"))
			ask := func(server *httptest.Server) time.Duration {
				check(b, os.Setenv(d.base, server.URL+d.suffix))
				took, _ := clock(b, stave, "ask", "--data", data, "--cwd", b.TempDir(), "--headless", "--model", d.model, "go")
				return took
			}
			bare := func(server *httptest.Server) time.Duration {
				took, _ := clock(b, floor, filepath.Join(b.TempDir(), "events"), "0", "1", server.URL+d.path, d.name)
				return took
			}
			for b.Loop() {
				var with, without, floorWith, floorWithout []time.Duration
				for range repeats {
					with, without = append(with, ask(many)), append(without, ask(one))
					floorWith, floorWithout = append(floorWith, bare(many)), append(floorWithout, bare(one))
				}
				net, least := median(with)-median(without), median(floorWith)-median(floorWithout)
				b.ReportMetric(ms(net), "net-ms")
				b.ReportMetric(ms(least), "floor-net-ms")
				b.ReportMetric(ms(net)/max(ms(least), 1), "x-floor")
			}
		})
	}
}
