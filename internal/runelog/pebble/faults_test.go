package pebble

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"stave/internal/conformance"
	"stave/internal/runelog"
)

var errInjected = syscall.EIO

// failAt fails the n-th operation of the given kinds, once.
func failAt(n int64, fired *atomic.Bool, kinds ...errorfs.OpKind) errorfs.Injector {
	var count atomic.Int64
	return errorfs.InjectorFunc(func(op errorfs.Op) error {
		for _, kind := range kinds {
			if op.Kind == kind && count.Add(1) == n {
				fired.Store(true)
				return errInjected
			}
		}
		return nil
	})
}

// Each write, sync, rename and create of a session fails once. Whatever was
// acknowledged before is there after a power cut, in whole batches, and after the
// failure nothing hangs.
func TestFailureAtEveryOperation(t *testing.T) {
	for name, kinds := range map[string][]errorfs.OpKind{
		"write":  {errorfs.OpFileWrite, errorfs.OpFileWriteAt},
		"sync":   {errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo},
		"rename": {errorfs.OpRename},
		"create": {errorfs.OpCreate, errorfs.OpReuseForWrite, errorfs.OpOpenDir, errorfs.OpMkdirAll},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := int64(1); ; n++ {
				if !failOnce(t, n, kinds) {
					if n < 3 {
						t.Fatalf("only %d operations", n)
					}
					t.Logf("%d operations", n-1)
					return
				}
			}
		})
	}
}

func failOnce(t *testing.T, n int64, kinds []errorfs.OpKind) (fired bool) {
	disk := vfs.NewCrashableMem()
	var hit atomic.Bool
	h := newHistory()
	within(t, 20*time.Second, fmt.Sprintf("operation %d", n), func() {
		s, err := openMem(errorfs.Wrap(disk, failAt(n, &hit, kinds...)))
		if err != nil {
			return // the failure came early, and there is nothing to lose
		}
		w, err := newSession(s, "conv_1", h)
		if err == nil {
			err = w.run()
		}
		if err == nil && hit.Load() {
			// It hit something harmless, or in the background.
			_ = w.append(true, false, conformance.Drafts(1)...)
		}
		if s.breaker.check() != nil {
			if _, err := s.Lease(context.Background(), "conv_2"); !errors.Is(err, runelog.ErrReadOnly) {
				t.Errorf("operation %d: a broken store took a lease: %v", n, err)
			}
			h.copy().checkReadable(t, s)
		}
		_ = s.Close()
	})
	random := rand.New(rand.NewPCG(uint64(n), 1))
	for _, percent := range []int{0, 50} {
		after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random})
		s, err := openMem(after)
		if err != nil {
			t.Fatalf("operation %d, %d %% of unsynced data kept: reopen: %v", n, percent, err)
		}
		h.check(t, s)
		again, err := newSession(s, "conv_2", h.copy())
		if err == nil && percent == 0 {
			err = again.run()
		}
		if err != nil {
			t.Fatalf("operation %d: a new session after reopening: %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("operation %d: close: %v", n, err)
		}
	}
	return hit.Load()
}

// Many writers meet a failing disk at the same time: all of them hear of it.
func TestFailureUnderLoad(t *testing.T) {
	for n := int64(1); n <= 40; n++ {
		disk := vfs.NewCrashableMem()
		var hit atomic.Bool
		h := newHistory()
		s, err := openMem(disk)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		within(t, 20*time.Second, fmt.Sprintf("write or sync %d", n), func() {
			s, err := openMem(errorfs.Wrap(disk, failAt(8+n, &hit, errorfs.OpFileWrite, errorfs.OpFileSyncData)))
			if err != nil {
				return
			}
			var group sync.WaitGroup
			for i := range 16 {
				group.Go(func() {
					w, err := newSession(s, fmt.Sprintf("conv_%d", i), h)
					for range 10 {
						if err == nil {
							err = w.append(true, false, conformance.Drafts(2)...)
						}
					}
					if err != nil && !errors.Is(err, runelog.ErrReadOnly) {
						t.Errorf("writer: %v, want ErrReadOnly", err)
					}
				})
			}
			group.Wait()
			_ = s.Close()
		})
		if s, err = openMem(disk.CrashClone(vfs.CrashCloneCfg{})); err != nil {
			t.Fatal(err)
		}
		h.check(t, s)
		s.Close()
	}
}

// A full disk is named, with the file and what happened.
func TestDiskFull(t *testing.T) {
	disk := vfs.NewMem()
	var full atomic.Bool
	s, err := openMem(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpFileWrite {
			return syscall.ENOSPC
		}
		return nil
	})))
	if err != nil {
		t.Fatal(err)
	}
	w, err := newSession(s, "conv_1", newHistory())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.append(true, false, conformance.Drafts(1)...); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	err = w.append(true, false, conformance.Drafts(1)...)
	if !errors.Is(err, runelog.ErrReadOnly) || !errors.Is(err, syscall.ENOSPC) ||
		!strings.Contains(err.Error(), "conv_1") || !strings.Contains(err.Error(), memDir+"/store/") {
		t.Errorf("append to a full disk: %v; want the log, the file and the reason", err)
	}
	if _, err := s.PutBlob(context.Background(), strings.NewReader("x")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("blob on a full disk: %v", err)
	}
	full.Store(false)
	if err := w.append(true, false, conformance.Drafts(1)...); !errors.Is(err, runelog.ErrReadOnly) {
		t.Errorf("a failed store took another write: %v", err)
	}
	if n := len(conformance.ReadAll(t, s, "conv_1", 0)); n != 1 {
		t.Errorf("%d runes readable, want the 1 acknowledged", n)
	}
	s.Close()
	if s, err = openMem(disk); err != nil {
		t.Fatalf("reopen: %v", err)
	}
	defer s.Close()
	if w, err = newSession(s, "conv_1", newHistory()); err == nil {
		err = w.append(true, false, conformance.Drafts(1)...)
	}
	if err != nil {
		t.Errorf("append after space came back: %v", err)
	}
}

// Power cuts at any moment of a busy store lose nothing that was acknowledged.
func TestPowerCut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 30 {
		disk := vfs.NewCrashableMem()
		s, err := openMem(disk)
		if err != nil {
			t.Fatal(err)
		}
		h := newHistory()
		stop := make(chan struct{})
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				w, err := newSession(s, fmt.Sprintf("conv_%d", i), h)
				for n := 0; err == nil; n++ {
					select {
					case <-stop:
						return
					default:
					}
					if err = w.append(n%3 != 0, false, conformance.Drafts(n%4+1)...); n%20 == 19 && err == nil {
						err = w.flush()
					}
				}
				t.Errorf("writer: %v", err)
			})
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		acknowledged := h.copy() // before the cut, so it must survive
		after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: round % 3 * 50, RNG: random})
		close(stop)
		group.Wait()
		acknowledged.sent = h.copy().sent
		s.Close()
		if s, err = openMem(after); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		acknowledged.check(t, s)
		s.Close()
	}
}

// A process that is killed loses no more than the last moments of unsynced runes.
func TestLazySync(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s, err := openMem(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := newHistory()
	w, err := newSession(s, "conv_1", h)
	if err == nil {
		err = w.append(false, false, conformance.Drafts(2)...)
	}
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(50 * lazySync); ; {
		after, err := openMem(disk.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatal(err)
		}
		head, err := after.Head(context.Background(), "conv_1")
		after.Close()
		if err == nil && head.Seq == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still not durable: %v", err)
		}
		time.Sleep(lazySync / 10)
	}
}
