package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"stave/internal/engine"
	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/runelog"
	"stave/internal/runelog/pebble"
	"stave/internal/toolbox"
	"stave/internal/world"
)

// shippedGC is what the program sets for itself.
const shippedGC = 400

const (
	longLog       = 1_000_000
	deltasPerTurn = 24
)

// writer makes a long history quickly: real steps of the world, many to a batch.
type writer struct {
	store runelog.Log
	world *world.World
	chain *runelog.Chain
	held  []runelog.Rune
	meta  runelog.Meta
}

func (w *writer) tell(p world.Path, c machine.Command) error {
	change, err := w.world.Step(world.Message{Path: p, Command: c, By: "user:bench", AtMs: 1})
	if err != nil {
		return err
	}
	w.meta = change.Meta(1, 1)
	w.held = append(w.held, change.Runes...)
	w.world.Commit(change)
	if len(w.held) >= 4096 {
		return w.flush(false)
	}
	return nil
}

func (w *writer) flush(sync bool) error {
	stamped, err := w.chain.Stamp(w.held, 1)
	if err != nil {
		return err
	}
	head := w.chain.Head()
	err = w.store.Append(context.Background(), runelog.Batch{
		Log: w.world.Log(), After: head.Seq, Epoch: head.Epoch, Runes: stamped, Meta: w.meta, Sync: sync,
	})
	w.chain.Advance(stamped)
	w.held = w.held[:0]
	return err
}

// history writes a conversation of at least n runes and a snapshot at its end.
func history(b *testing.B, store runelog.Log, log string, n uint64) {
	b.Helper()
	ctx := context.Background()
	head, err := store.Lease(ctx, log)
	check(b, err)
	w := &writer{store: store, world: world.New(log), chain: runelog.NewChain(log, head)}
	check(b, w.tell(world.SessionPath, session.Create{Created: session.Created{ConversationID: log, RootAgentID: "agt_1", Title: "long", Config: session.Config{Mode: "yolo"}}}))
	check(b, w.tell(world.RootPath, agent.BecomeReady{}))
	for i := 1; w.world.Seq() < n; i++ {
		check(b, w.turn(i))
	}
	check(b, w.flush(true))
	data, err := w.world.Save()
	check(b, err)
	end := w.chain.Head()
	check(b, store.SaveSnapshot(ctx, log, runelog.Snapshot{Seq: end.Seq, Hash: end.Hash, Data: data}))
}

func (w *writer) turn(i int) error {
	at := world.Path(fmt.Sprintf("%s/turn:%d", world.RootPath, i))
	call := fmt.Sprintf("call_%d", i)
	steps := []struct {
		path world.Path
		cmd  machine.Command
	}{
		{world.SessionPath, session.Say{Text: "what is in the next file?"}},
		{at, turn.ReceiveToolCalls{
			Output: []model.Part{{Text: "Let me look."}},
			Calls:  []turn.Proposal{{CallID: call, Tool: "Read", Args: []byte(`{"path":"a.go"}`), Safety: "read_only", Parallel: true, Digest: "d"}},
		}},
		{at + world.Path("/tool:"+call), tool.Succeed{Output: tool.Output{Text: "package a\n\nfunc A() int { return 1 }\n"}}},
		{at, turn.Finish{Output: []model.Part{{Text: "It holds one function, A, which returns 1."}}, Stop: model.StopEnd}},
	}
	for n, s := range steps {
		if n == 1 || n == 3 {
			for range deltasPerTurn / 2 {
				if err := w.tell(at, turn.Delta{Text: "a fragment of the answer "}); err != nil {
					return err
				}
			}
		}
		if err := w.tell(s.path, s.cmd); err != nil {
			return fmt.Errorf("turn %d step %d: %w", i, n, err)
		}
	}
	return nil
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func openStore(b *testing.B, dir string) runelog.Log {
	b.Helper()
	s, err := pebble.Open(dir)
	check(b, err)
	return s
}

func newEngine(b *testing.B, store runelog.Log) *engine.Engine {
	b.Helper()
	set, err := toolbox.NewSet(toolbox.All()...)
	check(b, err)
	return engine.New(engine.Options{
		Log: store, Tools: set, TempDir: b.TempDir(),
		Provider: func(context.Context, string) (model.Provider, error) { return nil, fmt.Errorf("no model") },
	})
}

// BenchmarkLongLog opens, replays and goes on with a log of a million runes.
func BenchmarkLongLog(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	store := openStore(b, dir)
	history(b, store, "conv_long", longLog)
	history(b, store, "conv_short", 100)
	check(b, store.Close())
	ctx := context.Background()
	defer debug.SetGCPercent(debug.SetGCPercent(shippedGC))
	for b.Loop() {
		var opened []time.Duration
		for range repeats {
			began := time.Now()
			s := openStore(b, dir)
			e := newEngine(b, s)
			v, err := e.Look(ctx, "conv_long")
			check(b, err)
			opened = append(opened, time.Since(began))
			if v.Seq < longLog {
				b.Fatalf("it ends at %d", v.Seq)
			}
			check(b, e.Close(ctx))
			check(b, s.Close())
		}
		b.ReportMetric(ms(median(opened)), "open-ms")

		s := openStore(b, dir)
		began := time.Now()
		proof, err := engine.Verify(ctx, s, "conv_long")
		check(b, err)
		b.ReportMetric(float64(proof.Runes)/time.Since(began).Seconds(), "replayed-runes/s")
		e := newEngine(b, s)
		short, long := stepCost(b, e, "conv_short"), stepCost(b, e, "conv_long")
		b.ReportMetric(float64(short.Nanoseconds())/1000, "step-at-100-µs")
		b.ReportMetric(float64(long.Nanoseconds())/1000, "step-at-1M-µs")
		b.ReportMetric(float64(long)/float64(short), "x-step-1M/100")
		check(b, e.Close(ctx))
		check(b, s.Close())
	}
}

// stepCost is the median of a whole durable step: decide, append with fsync, fold.
func stepCost(b *testing.B, e *engine.Engine, log string) time.Duration {
	b.Helper()
	var took []time.Duration
	for i := range 400 {
		var cmd machine.Command = session.Pause{}
		if i%2 == 1 {
			cmd = session.Resume{}
		}
		began := time.Now()
		_, err := e.Tell(context.Background(), world.Message{Log: log, Path: world.SessionPath, Command: cmd, By: "user:bench"})
		check(b, err)
		took = append(took, time.Since(began))
	}
	return median(took)
}

// BenchmarkIdle holds 10,000 conversations at rest.
func BenchmarkIdle(b *testing.B) {
	const conversations = 10_000
	store := openStore(b, filepath.Join(b.TempDir(), "data"))
	ctx := context.Background()
	e := newEngine(b, store)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		goroutines := runtime.NumGoroutine()
		for range conversations {
			_, err := e.Begin(ctx, engine.Begin{By: "user:bench", Config: session.Config{Mode: "ask", Dir: os.TempDir(), Model: "none"}})
			check(b, err)
		}
		for e.Live() > engine.DefaultMaxLive {
			time.Sleep(time.Millisecond)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(e.Live()), "in-memory")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "more-goroutines")
		b.ReportMetric(float64(int64(after.HeapInuse)-int64(before.HeapInuse))/(1<<20), "more-heap-MB")
		began := time.Now()
		listed := 0
		for _, err := range store.List(ctx) {
			check(b, err)
			listed++
		}
		b.ReportMetric(ms(time.Since(began)), "list-ms")
		if listed < conversations {
			b.Fatalf("%d listed", listed)
		}
	}
	check(b, e.Close(ctx))
	check(b, store.Close())
}

// BenchmarkSteps measures durable steps per second with 1 and 64 conversations.
func BenchmarkSteps(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { steps(b, n) })
	}
}

func steps(b *testing.B, conversations int) {
	store := openStore(b, filepath.Join(b.TempDir(), "data"))
	e := newEngine(b, store)
	ctx := context.Background()
	const each = 200
	for b.Loop() {
		done := make(chan error, conversations)
		began := time.Now()
		for i := range conversations {
			go func() { done <- flip(ctx, e, store, fmt.Sprintf("conv_%d_%d", b.N, i), each) }()
		}
		for range conversations {
			check(b, <-done)
		}
		b.ReportMetric(float64(conversations*each)/time.Since(began).Seconds(), "steps/s")
	}
	check(b, e.Close(ctx))
	check(b, store.Close())
}

// flip pauses and resumes a conversation: each is one durable step.
func flip(ctx context.Context, e *engine.Engine, store runelog.Log, log string, times int) error {
	head, err := store.Lease(ctx, log)
	if err != nil {
		return err
	}
	if head.Seq == 0 {
		w := &writer{store: store, world: world.New(log), chain: runelog.NewChain(log, head)}
		if err := w.tell(world.SessionPath, session.Create{Created: session.Created{ConversationID: log, RootAgentID: "agt_1"}}); err != nil {
			return err
		}
		if err := w.tell(world.RootPath, agent.BecomeReady{}); err != nil {
			return err
		}
		if err := w.flush(true); err != nil {
			return err
		}
	}
	for i := range times {
		var cmd machine.Command = session.Pause{}
		if i%2 == 1 {
			cmd = session.Resume{}
		}
		if _, err := e.Tell(ctx, world.Message{Log: log, Path: world.SessionPath, Command: cmd, By: "user:bench"}); err != nil {
			return err
		}
	}
	return nil
}
