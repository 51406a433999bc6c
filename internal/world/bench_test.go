package world

import (
	"fmt"
	"testing"
	"time"

	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/runelog"
)

// converse runs whole turns until the log has at least so many runes: a
// message, a few fragments, two calls, an answer.
func (t *tape) converse(tb testing.TB, until uint64, keep bool) {
	tb.Helper()
	if t.seq == 0 {
		t.must(tb, SessionPath, session.Create{Created: session.Created{ConversationID: testLog, RootAgentID: "agt_1", Config: session.Config{Mode: "yolo"}}})
		t.must(tb, RootPath, done(t.Jobs()[0].Work))
	}
	for t.seq < until {
		t.turn(tb)
		if !keep {
			t.raw, t.ends = nil, nil
		}
	}
}

// turn is one whole turn of 33 runes.
func (t *tape) turn(tb testing.TB) {
	tb.Helper()
	n := t.Session().Stats.Turns + 1
	at := RootPath.turn(n)
	t.must(tb, SessionPath, session.Say{Text: "please do one more thing"})
	for range 10 {
		t.must(tb, at, turn.Delta{Text: "some words of the answer "})
	}
	a, b := proposal(fmt.Sprintf("a%d:read", n)), proposal(fmt.Sprintf("b%d:bash", n))
	t.must(tb, at, turn.ReceiveToolCalls{Output: []model.Part{{Text: "I will."}}, Calls: []turn.Proposal{a, b}})
	t.must(tb, at.tool(a.CallID), tool.Succeed{Output: tool.Output{Text: "what was read"}})
	t.must(tb, at.tool(b.CallID), tool.Succeed{Output: tool.Output{Text: "what was done"}})
	t.must(tb, at, turn.Finish{Output: []model.Part{{Text: "Done."}}, Stop: model.StopEnd})
}

// BenchmarkStep measures a turn's steps early and late in one long log; the
// ratio is what the length of a log costs, and should be 1.
func BenchmarkStep(b *testing.B) {
	const early, late = 100, 1_000_000
	perRune := map[uint64]float64{}
	for _, from := range []uint64{early, late} {
		t := newTape()
		t.converse(b, from, false)
		b.Run(fmt.Sprintf("at rune %d", from), func(b *testing.B) {
			b.ReportAllocs()
			begin, seq := time.Now(), t.seq
			for b.Loop() {
				t.turn(b)
				t.raw, t.ends = nil, nil
			}
			perRune[from] = float64(time.Since(begin).Nanoseconds()) / float64(t.seq-seq)
			b.ReportMetric(perRune[from], "ns/rune")
			if from == late {
				b.ReportMetric(perRune[late]/perRune[early], "late/early")
			}
		})
	}
}

// BenchmarkFold measures replay: from the stored bytes of a log to its world.
func BenchmarkFold(b *testing.B) {
	t := newTape()
	t.converse(b, 20_000, true)
	runes := t.runes()
	b.Run("with envelope", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w := New(testLog)
			for _, raw := range t.raw {
				r, err := runelog.Decode(raw)
				if err == nil {
					err = w.Fold(r)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(len(t.raw)*b.N)/b.Elapsed().Seconds(), "runes/s")
	})
	b.Run("decoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := replay(New(testLog), runes); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(runes)*b.N)/b.Elapsed().Seconds(), "runes/s")
	})
	b.Run("deltas", func(b *testing.B) {
		deltas := newTape()
		deltas.must(b, SessionPath, session.Create{Created: session.Created{ConversationID: testLog, RootAgentID: "agt_1"}})
		deltas.must(b, RootPath, done(deltas.Jobs()[0].Work))
		deltas.must(b, SessionPath, session.Say{Text: "x"})
		for range 10_000 {
			deltas.must(b, RootPath.turn(1), turn.Delta{Text: "some words of the answer "})
		}
		b.ReportAllocs()
		for b.Loop() {
			w := New(testLog)
			for _, raw := range deltas.raw {
				r, err := runelog.Decode(raw)
				if err == nil {
					err = w.Fold(r)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(len(deltas.raw)*b.N)/b.Elapsed().Seconds(), "runes/s")
	})
}

// TestStepCostIsFlat shows that a turn late in a log makes exactly the garbage
// that an early one makes, and that the world and its snapshot do not grow.
func TestStepCostIsFlat(t *testing.T) {
	cost := func(runes uint64) (allocs float64, saved, live int) {
		c := newTape()
		c.converse(t, runes, false)
		allocs = testing.AllocsPerRun(20, func() { c.turn(t); c.raw, c.ends = nil, nil })
		return allocs, len(save(t, c.World)), len(c.live)
	}
	early, savedEarly, liveEarly := cost(5_000)
	late, savedLate, liveLate := cost(20_000)
	if late > early*1.02 { // the encoder's pools come and go
		t.Errorf("a turn allocates %v times at rune 5,000 and %v times at rune 20,000", early, late)
	}
	if savedLate > savedEarly+100 || liveLate != liveEarly {
		t.Errorf("the world grew from %d to %d machines, its snapshot from %d to %d bytes", liveEarly, liveLate, savedEarly, savedLate)
	}
}
