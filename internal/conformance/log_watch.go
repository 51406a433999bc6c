package conformance

import (
	"context"
	"sync"
	"testing"

	"stave/internal/runelog"
)

// Watchers that start anywhere, at any time, see every rune once and in order.
func testWatch(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	all := w.Append(t, Drafts(5)...)
	const total = 205
	var group sync.WaitGroup
	got := make([][]runelog.Rune, 8)
	for i := range got {
		group.Go(func() {
			for r, err := range l.Watch(t.Context(), "conv_1", uint64(i)) {
				if err != nil {
					t.Errorf("watch: %v", err)
					return
				}
				got[i] = append(got[i], r)
			}
		})
	}
	for len(all) < total-1 {
		b := w.Batch(t, Drafts(len(all)%3 + 1)[:min(len(all)%3+1, total-1-len(all))]...)
		b.Sync = len(all)%2 == 0
		all = append(all, w.Commit(t, b)...)
	}
	w.Seal(t)
	group.Wait()
	all = ReadAll(t, l, "conv_1", 0)
	for i := range got {
		wantSame(t, "watched", got[i], all[i:])
	}
}

// A watch ends with its context, its reader, or the log.
func testWatchEnds(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	w.Append(t, Drafts(3)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for r, err := range l.Watch(ctx, "conv_1", 0) {
		if err != nil {
			t.Errorf("a cancelled watch ends without an error, got %v", err)
		}
		if seen++; r.Seq == 3 {
			cancel()
		}
	}
	if seen != 3 {
		t.Errorf("%d runes before the cancel, want 3", seen)
	}
	for range l.Watch(t.Context(), "conv_1", 0) {
		break
	}
	w.Seal(t)
	seen = 0
	for _, err := range l.Watch(t.Context(), "conv_1", 2) {
		if err != nil {
			t.Errorf("watch of a sealed log: %v", err)
		}
		seen++
	}
	if seen != 2 {
		t.Errorf("%d runes of a sealed log, want 2", seen)
	}
}

// A watcher that stands still does not hold up the writer, nor Close.
func testSlowWatcher(t *testing.T, s suite) {
	l := s.new(t)
	w := NewWriter(t, l, "conv_1")
	w.Append(t, Draft(1))
	stopped, resume, done := make(chan struct{}), make(chan struct{}), make(chan uint64, 1)
	go func() {
		last := uint64(0)
		for r, err := range l.Watch(t.Context(), "conv_1", 0) {
			if err != nil {
				t.Errorf("watch: %v", err)
				break
			}
			if r.Seq != last+1 {
				t.Errorf("seq %d after %d", r.Seq, last)
			}
			if last = r.Seq; last == 1 {
				close(stopped)
				<-resume
			}
		}
		done <- last
	}()
	<-stopped
	for range 10 {
		w.Append(t, Drafts(100)...)
	}
	w.Seal(t)
	close(resume)
	if last := <-done; last != 1002 {
		t.Errorf("the slow watcher ended at %d, want 1002", last)
	}

	w = NewWriter(t, l, "conv_2")
	w.Append(t, Draft(1))
	stopped, resume = make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range l.Watch(t.Context(), "conv_2", 0) {
			close(stopped)
			<-resume
			break
		}
	}()
	<-stopped
	if err := l.Close(); err != nil {
		t.Errorf("close beside a slow watcher: %v", err)
	}
	close(resume)
	<-ended
}
