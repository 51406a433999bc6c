package pebble

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json/jsontext"

	"stave/internal/conformance"
	"stave/internal/runelog"
)

func benchDraft() runelog.Rune {
	return runelog.Rune{
		Path: "agent:agt_1/turn:1", Kind: "turn.assistant_delta", From: "streaming", To: "streaming",
		Visibility: runelog.Public, By: "engine", Cause: 12, Payload: jsontext.Value(`{"text":"` + strings.Repeat("word ", 8) + `"}`),
	}
}

// BenchmarkAppend compares synced appends of one rune, from drafts to disk, with
// bare Pebble commits of the same bytes under the same options, and with a plain
// file synced after each record. The three take turns within one run, since a
// disk's speed changes from minute to minute.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			whole, bare, file := newWhole(b, writers), newBare(b, writers), newPlainFile(b)
			var took [3]time.Duration
			done := 0
			const rounds = 8
			perRound := max(16*writers, b.N/rounds)
			b.ResetTimer()
			for done < b.N {
				for i, step := range []func(writer int){whole, bare, file} {
					start := time.Now()
					if i == 2 && writers > 1 {
						continue // one file has one writer
					}
					inParallel(writers, perRound/writers, step)
					took[i] += time.Since(start)
				}
				done += perRound / writers * writers
			}
			rate := func(i int) float64 { return float64(done) / took[i].Seconds() }
			b.ReportMetric(rate(0), "whole/s")
			b.ReportMetric(rate(1), "pebble/s")
			b.ReportMetric(100*rate(0)/rate(1), "%ofPebble")
			if writers == 1 {
				b.ReportMetric(rate(2), "fdatasync/s")
			}
		})
	}
}

func inParallel(writers, times int, step func(writer int)) {
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for range times {
				step(w)
			}
		})
	}
	group.Wait()
}

func newWhole(b *testing.B, writers int) func(int) {
	s := mustOpen(b, b.TempDir())
	b.Cleanup(func() { s.Close() })
	chains := make([]*runelog.Chain, writers)
	for i := range chains {
		chains[i] = conformance.NewWriter(b, s, fmt.Sprintf("conv_%d", i)).Chain
	}
	drafts := []runelog.Rune{benchDraft()}
	return func(w int) {
		if err := appendOnce(s, chains[w], fmt.Sprintf("conv_%d", w), drafts, true); err != nil {
			b.Error(err)
		}
	}
}

func appendOnce(s *Store, c *runelog.Chain, log string, drafts []runelog.Rune, sync bool) error {
	ready, err := runelog.Offload(context.Background(), s, drafts)
	if err != nil {
		return err
	}
	head := c.Head()
	runes, err := c.Stamp(ready, 1_700_000_000_000)
	if err != nil {
		return err
	}
	err = s.Append(context.Background(), runelog.Batch{
		Log: log, After: head.Seq, Epoch: head.Epoch, Runes: runes, Sync: sync,
		Meta: runelog.Meta{Log: log, Kind: "session", State: "active", Title: "a title", UpdatedMs: 1_700_000_000_000},
	})
	if err != nil {
		return err
	}
	c.Advance(runes)
	return nil
}

func newBare(b *testing.B, writers int) func(int) {
	db, err := pebble.Open(b.TempDir(), pebbleOptions(vfs.Default, newBreaker()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	runes, err := runelog.NewChain("conv_1", runelog.Head{}).Stamp([]runelog.Rune{benchDraft()}, 1_700_000_000_000)
	if err != nil {
		b.Fatal(err)
	}
	e := entry{meta: runelog.Meta{Log: "conv_1", Kind: "session", State: "active", Title: "a title", UpdatedMs: 1_700_000_000_000}}
	record, err := e.append(nil)
	if err != nil {
		b.Fatal(err)
	}
	seqs := make([]uint64, writers)
	return func(w int) {
		log := fmt.Sprintf("conv_%d", w)
		seqs[w]++
		batch := db.NewBatch()
		defer batch.Close()
		_ = batch.Set(seqKey(runeTable, log, seqs[w]), runes[0].Raw(), nil)
		_ = batch.Set(headKey(log), record, nil)
		if err := batch.Commit(pebble.Sync); err != nil {
			b.Error(err)
		}
	}
}

func newPlainFile(b *testing.B) func(int) {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	record := make([]byte, 600)
	return func(int) {
		if _, err := f.Write(record); err != nil {
			b.Error(err)
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkReplay reads a log of 100,000 runes, checked, from a reopened store.
func BenchmarkReplay(b *testing.B) {
	const total, perBatch = 100_000, 100
	dir := b.TempDir()
	s := mustOpen(b, dir)
	c := conformance.NewWriter(b, s, "conv_1").Chain
	drafts := make([]runelog.Rune, perBatch)
	for i := range drafts {
		drafts[i] = benchDraft()
	}
	for range total / perBatch {
		if err := appendOnce(s, c, "conv_1", drafts, false); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	s = mustOpen(b, dir)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if n := len(conformance.ReadAll(b, s, "conv_1", total-10)); n != 10 {
			b.Fatalf("%d runes", n)
		}
		n := 0
		for _, err := range s.Read(context.Background(), "conv_1", 0) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != total {
			b.Fatalf("%d runes", n)
		}
	}
	b.ReportMetric(float64(total*b.N)/b.Elapsed().Seconds(), "runes/s")
}

// BenchmarkOpen opens a store, and closes it after some use.
func BenchmarkOpen(b *testing.B) {
	for _, runes := range []int{100, 8000} {
		b.Run(fmt.Sprintf("runes=%d", runes), func(b *testing.B) {
			dir := b.TempDir()
			var opening time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				s := mustOpen(b, dir)
				opening += time.Since(start)
				conformance.NewWriter(b, s, fmt.Sprintf("conv_%d", i)).Append(b, conformance.Drafts(runes)...)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(opening.Microseconds())/float64(b.N)/1000, "ms/open")
		})
	}
}

// BenchmarkList lists 100,000 logs.
func BenchmarkList(b *testing.B) {
	const logs = 100_000
	s := mustOpen(b, b.TempDir())
	defer s.Close()
	for i := range logs {
		log := fmt.Sprintf("conv_%032x", i)
		e := entry{
			head: runelog.Head{Seq: 9, Epoch: 1},
			meta: runelog.Meta{Log: log, Kind: "session", State: "active", Title: "a title of some words", UpdatedMs: int64(i * 7919 % logs), Seq: 9},
		}
		batch, err := s.encodeBatch(log, nil, &e)
		if err == nil {
			err = s.commits.commit(batch, false, anchorRecord{})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range s.List(context.Background()) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != logs {
			b.Fatalf("%d logs", n)
		}
	}
}
