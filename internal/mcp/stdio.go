package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// command is a server that is to be started.
type command struct {
	start Command
	grace time.Duration
	gate  *gate
	tail  *tail

	started atomic.Pointer[pipe]
	ended   sync.Once
}

// Close ends what was started, if anything was.
func (c *command) Close() error {
	if p := c.started.Load(); p != nil {
		_ = p.Close() // never fails
	}
	c.ended.Do(c.start.release)
	return nil
}

// Connect starts the server and speaks with it over its standard input and
// output. The library's own transport bounds and checks less than we need, and
// signals only the leader of what it started.
func (c *command) Connect(context.Context) (sdk.Connection, error) {
	cmd := exec.Command(c.start.Argv[0], c.start.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.ExtraFiles = c.start.Dir, c.start.Env, c.tail, c.start.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Those that inherited standard error must not hold us up after the leader's end.
	cmd.WaitDelay = c.grace
	// Our own pipes: those of the command know no deadlines, and its Wait closes
	// them before the last words of a server are read.
	itsInput, ourOutput, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourInput, itsOutput, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, itsInput.Close(), ourOutput.Close())
	}
	cmd.Stdin, cmd.Stdout = itsInput, itsOutput
	err = cmd.Start()
	for _, f := range append([]*os.File{itsInput, itsOutput}, c.start.Files...) {
		f.Close()
	}
	if err != nil {
		return nil, errors.Join(err, ourInput.Close(), ourOutput.Close())
	}
	p := &pipe{
		cmd: cmd, stdin: ourOutput, stdout: ourInput, gate: c.gate, grace: c.grace,
		lines: make(chan line), died: make(chan struct{}), closed: make(chan struct{}),
	}
	c.started.Store(p)
	go p.watch()
	go p.readLines()
	return p, nil
}

// pipe is the connection with a started server.
type pipe struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	gate   *gate
	grace  time.Duration

	lines  chan line
	died   chan struct{} // the leader is dead and not reaped yet
	closed chan struct{}

	writing sync.Mutex
	closing sync.Once
}

type line struct {
	text []byte
	err  error
}

func (p *pipe) SessionID() string { return "" }

func (p *pipe) watch() {
	awaitDeath(p.cmd.Process.Pid)
	close(p.died)
}

// readLines hands over what passes the gate, one message per line.
func (p *pipe) readLines() {
	r := bufio.NewReaderSize(p.stdout, 64<<10)
	for {
		text, err := readLine(r, p.gate.maxBytes)
		if errors.Is(err, errTooLong) {
			p.gate.breakOff(err)
		}
		if err == nil {
			text = bytes.TrimSpace(text)
			if len(text) == 0 {
				continue
			}
			var ok bool
			if ok, err = p.gate.in(text); err == nil && !ok {
				continue
			}
		}
		select {
		case p.lines <- line{text, err}:
		case <-p.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

var errTooLong = errors.New("the server sent a message that is longer than allowed")

// readLine reads up to the next line feed and never holds more than most.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var whole []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(whole)+len(part) > most {
			return nil, errTooLong
		}
		whole = append(whole, part...)
		switch {
		case err == nil:
			return whole, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(whole)) > 0:
			return nil, errors.New("the server's output ended in the middle of a message")
		default:
			return nil, err
		}
	}
}

// Read gives the next message.
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closed:
		return nil, io.EOF
	case l := <-p.lines:
		if l.err != nil {
			return nil, l.err
		}
		return jsonrpc.DecodeMessage(l.text)
	}
}

// Write sends one message, or none if the context ends first: a server that does
// not read must not hold up its caller.
func (p *pipe) Write(ctx context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	p.gate.out(text)
	p.writing.Lock()
	defer p.writing.Unlock()
	if err := errors.Join(ctx.Err(), p.gate.broken()); err != nil {
		return err
	}
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		p.stdin.SetWriteDeadline(time.Unix(1, 0)) // closed means nobody writes
		close(expired)
	})
	n, err := p.stdin.Write(append(text, '\n'))
	if !stop() {
		<-expired
		p.stdin.SetWriteDeadline(time.Time{})
	}
	if n > 0 {
		markSent(ctx)
	}
	if err != nil && n > 0 {
		p.gate.breakOff(fmt.Errorf("a message could only be sent in part: %w", err))
	}
	return err
}

// Close ends the server: its input is closed, then its group is told and at
// last killed. When it returns, all of the group is dead or dying.
func (p *pipe) Close() error {
	p.closing.Do(func() {
		close(p.closed)
		p.stdin.Close()
		if !p.diesWithin(p.grace) {
			p.signal(syscall.SIGTERM)
			if !p.diesWithin(p.grace) {
				p.signal(syscall.SIGKILL)
				<-p.died
			}
		}
		p.signal(syscall.SIGKILL)
		_ = p.cmd.Wait() // how it ended matters to nobody now
		p.stdout.Close()
	})
	return nil
}

func (p *pipe) diesWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.died:
		return true
	case <-timer.C:
		return false
	}
}

// signal reaches the whole group. The leader is not reaped yet, so its number
// cannot name a stranger's group.
func (p *pipe) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	most int
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > t.most {
		p = p[len(p)-t.most:]
	}
	if extra := len(t.kept) + len(p) - t.most; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
