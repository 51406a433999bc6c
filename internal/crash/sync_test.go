package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"stave/internal/runelog/pebble"
)

// TestKillAtEverySync shows the same as TestKill where chance decides nothing:
// the process dies right before and right behind each single write of a
// conversation, be it a lease, a batch, a blob or a snapshot.
func TestKillAtEverySync(t *testing.T) {
	e, err := newEnumeration(scratch(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := inLanes(func(int) error { return e.lane() }); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"append", "lease", "blob", "snapshot"} {
		n, ok := e.deaths.Load(op)
		if !ok {
			t.Errorf("no process died at a write of the kind %q", op)
			continue
		}
		t.Logf("%6d  kills before and behind a write of the kind %q", n.(*atomic.Int64).Load(), op)
	}
}

// enumeration goes through the writes of one conversation.
type enumeration struct {
	root, script string
	whole        *record
	wholeFiles   *workspace
	op           atomic.Int64 // the last write given to a lane
	deaths       sync.Map     // kind of write → *atomic.Int64
}

func newEnumeration(root string) (*enumeration, error) {
	script, err := filepath.Abs("testdata/brief.yaml")
	if err != nil {
		return nil, err
	}
	e := &enumeration{root: root, script: script}
	s, err := e.setUp("whole", 0, false)
	if err != nil {
		return nil, err
	}
	r, err := s.run(s.order)
	if err != nil || r.code != 0 {
		return nil, fmt.Errorf("without a kill: %w", errors.Join(err, fmt.Errorf("%v", r)))
	}
	e.wholeFiles = s.files
	e.whole, err = readRecord(s.order.Data, logOf(r.seen[0].raw))
	return e, err
}

// lane takes one write after the other until the conversation has no more.
func (e *enumeration) lane() error {
	for {
		op := e.op.Add(1)
		for _, after := range []bool{false, true} {
			s, err := e.setUp(fmt.Sprintf("%d-%t", op, after), op, after)
			if err != nil {
				return err
			}
			died, err := s.play()
			s.files.close()
			if err != nil {
				return fmt.Errorf("write %d, behind it: %t:\n%w", op, after, err)
			}
			if !died {
				return nil
			}
		}
	}
}

// trial is one conversation that dies at one write.
type trial struct {
	*enumeration
	order order
	files *workspace
}

func (e *enumeration) setUp(name string, op int64, after bool) (*trial, error) {
	dir := filepath.Join(e.root, name)
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	files, err := makeWorkspace(work)
	return &trial{e, order{filepath.Join(dir, "data"), work, e.script, op, after}, files}, err
}

func (s *trial) run(o order) (*run, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVar+"="+string(text))
	return start(cmd, never)
}

// play lets the conversation die, looks at what is left, lets it go on and holds
// it against the rules. It reports whether there was such a write.
func (s *trial) play() (died bool, err error) {
	first, err := s.run(s.order)
	if err != nil || (!first.killed && first.code != 0) {
		return false, errors.Join(err, fmt.Errorf("%v", first))
	}
	if !first.killed {
		return false, nil
	}
	var words lastWords
	if err := json.Unmarshal(first.stderr.Bytes(), &words); err != nil {
		return false, fmt.Errorf("%v: %w", first, err)
	}
	n, _ := s.deaths.LoadOrStore(words.Op, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	if err := s.left(words); err != nil {
		return true, fmt.Errorf("after the kill at %+v: %w", words, err)
	}
	second, err := s.run(s.again())
	if err != nil || (!second.killed && second.code != 0) {
		return true, errors.Join(err, fmt.Errorf("%v", second))
	}
	alive := s.order
	alive.Op = 0
	third, err := s.run(alive)
	if err != nil || third.code != 0 {
		return true, errors.Join(err, fmt.Errorf("%v", third))
	}
	return true, s.judge(first, second, third)
}

// again lets the process that recovers die as well, early, at a write that
// depends on where the first one died.
func (s *trial) again() order {
	const early = 6
	o := s.order
	o.Op = 1 + s.order.Op%early
	o.After = s.order.Op/early%2 == 0
	return o
}

// left holds that a write is there if the process died behind it, and is not if
// it died before.
func (s *trial) left(words lastWords) error {
	return inStore(s.order.Data, func(store *pebble.Store) error {
		var last, epoch uint64
		for m, err := range store.List(context.Background()) {
			if err != nil {
				return err
			}
			head, err := store.Head(context.Background(), m.Log)
			if err != nil {
				return err
			}
			last, epoch = head.Seq, head.Epoch
		}
		switch {
		case words.Op == "append" && !s.order.After && last >= words.First:
			return fmt.Errorf("the log ends at %d", last)
		case words.Op == "append" && s.order.After && words.Sync && last != words.Last:
			return fmt.Errorf("the log ends at %d", last)
		case words.Op == "lease" && s.order.After && last > 0 && epoch != words.Epoch:
			return fmt.Errorf("the epoch is %d", epoch)
		case words.Op == "blob" && s.order.After:
			blob, err := store.OpenBlob(context.Background(), words.Blob)
			if err != nil {
				return err
			}
			return blob.Close()
		}
		return nil
	})
}

func (s *trial) judge(runs ...*run) error {
	if err := s.files.awaitEffects(); err != nil {
		return err
	}
	log := ""
	for _, r := range runs {
		if len(r.seen) > 0 {
			log = logOf(r.seen[0].raw)
		}
	}
	rec, err := readRecord(s.order.Data, log)
	if err != nil {
		return err
	}
	errs := []error{
		endedOnce(rec), doneOnce(rec, s.files, cuts(runs)), sameStory(rec, s.whole), sameFiles(rec, s.files, s.wholeFiles),
	}
	for _, r := range runs {
		errs = append(errs, keptWhatWasShown(rec, r))
	}
	return errors.Join(errs...)
}
