package crash

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestDiskFull shows that a program whose files may not grow any more says so
// and ends, and that afterwards everything it showed is there and the
// conversation goes on. The limit grows until it limits nothing.
func TestDiskFull(t *testing.T) {
	const maxBlocks = 1 << 16
	c := newCampaign(t, "testdata/story.yaml", 0)
	c.playWhole(t)
	began, cutOff := 0, 0
	for blocks := 0; ; blocks += blocks/4 + 1 {
		if blocks > maxBlocks {
			t.Fatalf("a limit of %d blocks is still too small", blocks)
		}
		v, err := c.conversation(fmt.Sprintf("full-%d", blocks), nil)
		if err != nil {
			t.Fatal(err)
		}
		enough, err := v.starve(blocks)
		v.files.close()
		if err != nil {
			t.Fatalf("with %d blocks: %v\n%s", blocks, err, v.history())
		}
		if enough {
			break
		}
		cutOff++
		if len(v.runs[0].seen) > 0 {
			began++
		}
	}
	t.Logf("%d conversations were cut off, %d of them after they had shown something", cutOff, began)
	if began == 0 || began == cutOff {
		t.Error("the limits did not reach both the start and the conversation")
	}
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
