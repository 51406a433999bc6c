package crash

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// TestDiskFull shows that a program whose files may not grow any more says so
// and ends, and that afterwards everything it showed is there and the
// conversation goes on. The limit grows until it limits nothing.
func TestDiskFull(t *testing.T) {
	c := newCampaign(t, "testdata/brief.yaml", 0)
	c.playWhole(t)
	var step, atOnce, later atomic.Int64
	err := inLanes(func(int) error {
		for {
			blocks := limit(int(step.Add(1)))
			v, err := c.conversation(fmt.Sprintf("full-%d", blocks), nil)
			if err != nil {
				return err
			}
			enough, err := v.starve(blocks)
			v.files.close()
			switch {
			case err != nil:
				return fmt.Errorf("with %d blocks: %w\n%s", blocks, err, v.history())
			case enough:
				return nil
			case len(v.runs[0].seen) == 0:
				atOnce.Add(1)
			default:
				later.Add(1)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d programs could not begin, %d conversations were cut off", atOnce.Load(), later.Load())
	if atOnce.Load() == 0 || later.Load() == 0 {
		t.Error("the limits did not reach both the start and the conversation")
	}
}

// limit is the n-th limit: 0, 1, 2, 3, 4, 6, 8, 11, …
func limit(n int) int {
	blocks := 0
	for range n - 1 {
		blocks += blocks/4 + 1
	}
	return blocks
}

// starve runs the conversation with files of at most so many blocks, and then
// without a limit. It reports whether they were enough.
func (v *victim) starve(blocks int) (enough bool, err error) {
	args := append([]string{"-c", `ulimit -f "$0" && exec "$@"`, fmt.Sprint(blocks), v.binary}, v.ask(alone...)...)
	r, err := start(exec.Command("sh", append(args, "--data", v.data)...), never)
	if v.note(r); err != nil {
		return false, err
	}
	if r.code == 0 {
		return true, v.judge()
	}
	if err := complains(r); err != nil {
		return false, err
	}
	next, err := v.next()
	if err == nil {
		err = v.live(next)
	}
	if err == nil {
		err = v.judge()
	}
	return false, err
}

// complains holds that a process which could not write said so in words and with
// its exit code.
func complains(r *run) error {
	text := r.stderr.String()
	switch {
	case r.code != 1 && r.code != 2:
		return fmt.Errorf("its exit code is %d", r.code)
	case !strings.HasPrefix(text, "stave: ") || !strings.Contains(text, "file too large"):
		return errors.New("it does not say what is wrong")
	case strings.Contains(text, "goroutine "):
		return errors.New("it panicked")
	}
	return nil
}
