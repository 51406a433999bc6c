package toolbox

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxHead = maxText / 2
	maxTail = maxText / 2
	// maxKept bounds the copy of an output that is too long to show.
	maxKept = 64 << 20
	// maxProgress bounds what people see while a command runs.
	maxProgress   = 256 << 10
	progressChunk = 8 << 10
	progressDelay = 50 * time.Millisecond
)

// capture takes a command's output as it comes: its head and tail for the
// model, a stream for people, and a copy on disk once it is too long to show.
// Its memory is bounded whatever the command writes.
type capture struct {
	env   Env
	total int64

	head []byte
	tail []byte // a ring once it is full
	next int    // where the ring is written next

	pending  []byte    // not streamed yet
	flushAt  time.Time // when pending must be streamed; zero when nothing waits
	streamed int

	spill    TempFile
	spillErr error
}

func (c *capture) write(b []byte) {
	if len(b) == 0 {
		return
	}
	c.stream(b)
	if c.total <= maxText && c.total+int64(len(b)) > maxText {
		c.startSpill()
	}
	c.spillMore(b)
	c.total += int64(len(b))
	n := min(maxHead-len(c.head), len(b))
	c.head = append(c.head, b[:n]...)
	c.keepTail(b[n:])
}

func (c *capture) keepTail(b []byte) {
	if n := min(maxTail-len(c.tail), len(b)); n > 0 {
		c.tail = append(c.tail, b[:n]...)
		b = b[n:]
	}
	if len(b) > maxTail {
		b = b[len(b)-maxTail:]
	}
	for len(b) > 0 {
		n := copy(c.tail[c.next:], b)
		c.next = (c.next + n) % maxTail
		b = b[n:]
	}
}

// startSpill begins the copy on disk with all that was written so far, which
// head and tail still hold completely.
func (c *capture) startSpill() {
	if c.spill, c.spillErr = c.env.TempFile(); c.spillErr != nil {
		return
	}
	if _, c.spillErr = c.spill.Write(c.head); c.spillErr == nil {
		_, c.spillErr = c.spill.Write(c.tail)
	}
}

func (c *capture) spillMore(b []byte) {
	if c.spill == nil || c.spillErr != nil || c.total >= maxKept {
		return
	}
	_, c.spillErr = c.spill.Write(b[:min(int64(len(b)), maxKept-c.total)])
}

// text is what the model reads.
func (c *capture) text() string {
	tail := append(c.tail[c.next:len(c.tail):len(c.tail)], c.tail[:c.next]...)
	if c.total <= maxText {
		return strings.ToValidUTF8(string(c.head)+string(tail), "\uFFFD")
	}
	head := trimPartial(c.head)
	for i := 1; i < utf8.UTFMax && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	out := c.total - int64(len(head)+len(tail))
	marker := fmt.Sprintf("\n[… %d bytes left out …]\n", out)
	if c.total > maxKept {
		marker = fmt.Sprintf("\n[… %d bytes left out; only the first %d MiB were kept …]\n", out, maxKept>>20)
	}
	return strings.ToValidUTF8(string(head), "\uFFFD") + marker + strings.ToValidUTF8(string(tail), "\uFFFD")
}

// keep stores the whole output, up to maxKept, if text had to leave some out.
func (c *capture) keep(ctx context.Context) (string, error) {
	if c.spillErr != nil {
		return "", c.spillErr
	}
	if c.spill == nil {
		return "", nil
	}
	if _, err := c.spill.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	return c.env.PutBlob(ctx, c.spill)
}

func (c *capture) close() {
	if c.spill != nil {
		c.spill.Close()
	}
}

// stream collects what people see into chunks worth sending.
func (c *capture) stream(b []byte) {
	for len(b) > 0 && c.streamed+len(c.pending) < maxProgress {
		if c.flushAt.IsZero() {
			c.flushAt = time.Now().Add(progressDelay)
		}
		n := min(len(b), progressChunk-len(c.pending), maxProgress-c.streamed-len(c.pending))
		c.pending = append(c.pending, b[:n]...)
		b = b[n:]
		if len(c.pending) == progressChunk {
			c.sendWhole()
		}
	}
	if len(b) > 0 && c.streamed < maxProgress {
		c.flush()
		c.streamed = maxProgress
		c.env.Progress("stdout", "\n[the rest of the output is not streamed]\n")
	}
}

// sendWhole streams all but a character whose end has not come yet.
func (c *capture) sendWhole() {
	whole := trimPartial(c.pending)
	rest := c.pending[len(whole):]
	c.send(whole)
	c.pending = append(c.pending[:0], rest...)
}

// endStream sends what is left, unless the result that follows at once says all
// of it: a quick command then costs its watchers one message, not two.
func (c *capture) endStream(always bool) {
	if always || c.streamed > 0 || c.total > maxText {
		c.flush()
	}
}

// flush streams all that waits.
func (c *capture) flush() {
	c.send(c.pending)
	c.pending = c.pending[:0]
}

func (c *capture) send(b []byte) {
	c.flushAt = time.Time{}
	if len(b) > 0 {
		c.streamed += len(b)
		c.env.Progress("stdout", string(b))
	}
}
