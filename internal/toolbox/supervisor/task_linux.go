package supervisor

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
)

// task is one command under supervision. Its output goes to a file, and those
// who listen read the file: a slow listener holds nobody up, and one that comes
// back reads on where it was.
type task struct {
	id     string
	record record

	mu      sync.Mutex
	changed sync.Cond // with mu: output came or the end
	proc    *process  // nil before the start
	stop    bool      // cancelled before the start
	file    *os.File  // nil before the first output; not written to after the end
	kept    int64
	total   int64
	tail    []byte
	keepErr error
	ending  []byte // as it is told; on record once it is set
}

func newTask(id string, r record) *task {
	t := &task{id: id, record: r}
	t.changed.L = &t.mu
	return t
}

// abandon tells those who joined meanwhile that nothing was started.
func (t *task) abandon(why error) {
	t.settle(Ending{Failure: why.Error()}.text())
}

// settle makes the ending known.
func (t *task) settle(ending []byte) {
	t.mu.Lock()
	t.ending = ending
	t.proc = nil
	t.mu.Unlock()
	t.changed.Broadcast()
}

// run starts the command and sees it to its end. What can wait is done while the
// command runs.
func (t *task) run(s Spec, mark string, start *os.File, f *family, meanwhile func()) {
	defer start.Close()
	p, err := launch(s, mark, f)
	if err != nil {
		t.end(start, Ending{Failure: err.Error()})
		return
	}
	defer p.close()
	noteErr := addLine(start, p.proof) // without it a dead supervisor's command is found by its mark
	t.mu.Lock()
	t.proc = p
	if t.stop {
		p.cancel()
	}
	t.mu.Unlock()
	meanwhile()
	ending, err := p.attend(t.write)
	t.mu.Lock()
	ending.OutputBytes, ending.KeptBytes = t.total, t.kept
	if t.total > t.kept {
		ending.Tail = lastBytes(t.tail, MaxTail)
	}
	if err := errors.Join(t.keepErr, err, noteErr); err != nil {
		ending.KeepError = err.Error()
	}
	t.mu.Unlock()
	t.end(start, ending)
}

// end puts the ending on record and then makes it known.
func (t *task) end(start *os.File, e Ending) {
	text := e.text()
	if err := finish(start, text); err != nil {
		// Those who listen are told all the same: they have a log of their own.
		e.KeepError = strings.TrimSpace(e.KeepError + "\n" + err.Error())
		text = e.text()
	}
	t.settle(text)
	runtime.Gosched() // those who listen go first; what is left to tidy up can wait
}

// write keeps a piece of output: in the file up to MaxKept, its end behind that.
func (t *task) write(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(b))
	if t.file == nil && t.keepErr == nil {
		t.file, t.keepErr = create(t.record.output(), os.O_TRUNC)
	}
	if t.keepErr == nil && t.kept < MaxKept {
		n, err := t.file.WriteAt(b[:min(int64(len(b)), MaxKept-t.kept)], t.kept)
		t.kept += int64(n)
		t.keepErr = err
		b = b[n:]
		t.changed.Broadcast()
	}
	if len(b) > 0 {
		if len(t.tail)+len(b) > 2*MaxTail {
			t.tail = append(t.tail[:0], lastBytes(t.tail, MaxTail)...)
		}
		t.tail = append(t.tail, b...)
	}
}

func lastBytes(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// cancel asks for the end of a command, started or not.
func (t *task) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop = true
	if t.proc != nil {
		t.proc.cancel()
	}
}

// await returns when there is output behind an offset, or the end.
func (t *task) await(from int64) (file *os.File, kept int64, ending []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.kept <= from && t.ending == nil {
		t.changed.Wait()
	}
	return t.file, t.kept, t.ending
}

// stream sends output from an offset on, as it comes, and then the ending.
func (t *task) stream(w io.Writer, from int64) error {
	var buf []byte
	for {
		file, kept, ending := t.await(from)
		for from < kept {
			need := offsetBytes + min(outputChunk, int(kept-from))
			if cap(buf) < need {
				buf = make([]byte, need) // most commands say little
			}
			n, err := file.ReadAt(buf[offsetBytes:need], from)
			if n == 0 {
				return err
			}
			binary.BigEndian.PutUint64(buf, uint64(from))
			if err := writeFrame(w, sayOutput, buf[:offsetBytes+n]); err != nil {
				return err
			}
			from += int64(n)
		}
		if ending != nil {
			return writeFrame(w, sayEnd, ending)
		}
	}
}

// close lets go of the output's file.
func (t *task) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != nil {
		t.file.Close()
	}
}

// wrote says whether there is a file of the command's output.
func (t *task) wrote() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total > 0
}

func (t *task) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ending != nil
}
