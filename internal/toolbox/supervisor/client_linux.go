package supervisor

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// maxIdle bounds the connections kept for the next command.
	maxIdle = 8
	// cancelAgain is how long a cancel waits for a command that is not known yet.
	cancelAgain = 5 * time.Millisecond
	// startPatience is how long a supervisor may take to come up.
	startPatience = 30 * time.Second
)

// Client starts commands under a supervisor and listens to them. It may be used
// by several goroutines.
type Client struct {
	dir    string
	linger time.Duration
	limits string
	adopt  bool // the supervisor is somebody else's; none is started

	mu     sync.Mutex
	socket string  // name; empty before a supervisor is there
	hold   *line   // keeps the supervisor with us
	idle   []*line // for the next questions
	busy   map[*line]struct{}
	closed bool
}

// line is one connection to a supervisor: one question at a time.
type line struct {
	net.Conn
	in  *bufio.Reader
	buf []byte
}

// New returns a client whose supervisor keeps its files in dir. The supervisor
// is started with the first command.
func New(dir string, o Options) (*Client, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the supervisor's directory: %w", err)
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = checkDir(dir)
	}
	if err != nil {
		return nil, err
	}
	if o.Linger <= 0 {
		o.Linger = DefaultLinger
	}
	return &Client{dir: dir, linger: o.Linger, limits: o.Limits, busy: map[*line]struct{}{}}, nil
}

// Find says what is known of a command and, while its supervisor lives, returns
// a client of that one.
func Find(dir, id string) (*Client, Known, error) {
	known, begun, err := recoverRecord(dir, id)
	if err != nil || !known.Supervised {
		return nil, known, err
	}
	c, err := New(dir, Options{})
	if err != nil {
		return nil, known, err
	}
	c.socket, c.adopt = begun.Socket, true
	if c.hold, err = c.dial(); err != nil {
		// It left or died while we looked.
		known, _, err = recoverRecord(dir, id)
		known.Supervised = false
		return nil, known, err
	}
	return c, known, nil
}

// Start starts the supervisor before it is needed, so that the first command need
// not wait for that.
func (c *Client) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.hold != nil {
		return nil
	}
	l, err := c.free()
	if err != nil {
		return err
	}
	c.idle = append(c.idle, l)
	return nil
}

// Run starts a command, hands on its output in order and returns its ending,
// which is durable by then. An id that runs already is joined from its beginning.
// When ctx ends the command is cancelled, and its ending comes with ctx's error.
func (c *Client) Run(ctx context.Context, s Spec, onOutput func([]byte)) (Ending, error) {
	if err := s.check(); err != nil {
		return Ending{}, err
	}
	if err := ctx.Err(); err != nil {
		return Ending{}, err
	}
	return c.follow(ctx, s.ID, askStart, s.append(nil), 0, onOutput)
}

// Attach takes up a command's output from an offset on. When ctx ends the
// command is cancelled, as with Run.
func (c *Client) Attach(ctx context.Context, id string, from int64, onOutput func([]byte)) (Ending, error) {
	if err := checkID(id); err != nil {
		return Ending{}, err
	}
	if from < 0 {
		return Ending{}, fmt.Errorf("%d is no offset of an output", from)
	}
	return c.follow(ctx, id, askAttach, about{id, from}.text(), from, onOutput)
}

// follow asks for a stream and hands it on up to its end.
func (c *Client) follow(ctx context.Context, id string, kind byte, question []byte, from int64, onOutput func([]byte)) (Ending, error) {
	l, err := c.ask(kind, question)
	if err != nil {
		return Ending{}, err
	}
	output := recordOf(c.dir, id).output() // while the command runs
	ended := make(chan struct{})
	defer close(ended)
	stop := context.AfterFunc(ctx, func() { c.cancelSurely(l, id, ended) })
	defer stop()
	for {
		kind, body, err := l.read()
		switch {
		case err != nil:
			return Ending{}, c.broken(l, id, err)
		case kind == sayOutput && len(body) >= offsetBytes && binary.BigEndian.Uint64(body) == uint64(from):
			from += int64(len(body) - offsetBytes)
			if onOutput != nil {
				onOutput(body[offsetBytes:])
			}
		case kind == sayEnd:
			e, err := readEnding(body)
			if err != nil {
				return Ending{}, c.broken(l, id, err)
			}
			c.done(l)
			e.Output = output
			if e.Failure != "" {
				return e, fmt.Errorf("starting the command: %s", e.Failure)
			}
			return e, ctx.Err()
		case kind == sayError:
			var r refusal
			if err := json.Unmarshal(body, &r); err != nil {
				return Ending{}, c.broken(l, id, err)
			}
			c.done(l)
			return Ending{}, r.err()
		default:
			return Ending{}, c.broken(l, id, errFrame)
		}
	}
}

// cancelSurely cancels a command that is followed. The question goes another way
// than the one that started it and may be there first: then it is asked again.
func (c *Client) cancelSurely(l *line, id string, ended <-chan struct{}) {
	for {
		err := c.Cancel(id)
		switch {
		case err == nil:
			return
		case !errors.Is(err, ErrUnknown):
			l.Close() // a wait that cannot be ended otherwise
			return
		}
		select {
		case <-ended:
			return
		case <-time.After(cancelAgain):
		}
	}
}

// Cancel asks a command to end: SIGTERM, and SIGKILL after a grace. It does not
// wait; who follows the command hears the end.
func (c *Client) Cancel(id string) error { return c.simple(askCancel, about{ID: id}.text()) }

// Collect forgets a command that ended: call it when the ending is durable on
// your side.
func (c *Client) Collect(id string) error { return c.simple(askCollect, about{ID: id}.text()) }

// Close lets go of the supervisor. It ends by itself when all commands ended and
// were collected, or at once with all of them if stopAll is set.
func (c *Client) Close(stopAll bool) error {
	var err error
	if c.begun() && stopAll {
		err = c.simple(askStop, nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.hold != nil {
		c.hold.Close()
	}
	c.dropIdle()
	for l := range c.busy {
		l.Close()
	}
	c.hold = nil
	return err
}

func (c *Client) begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hold != nil
}

// simple asks a question with a short answer.
func (c *Client) simple(kind byte, question []byte) error {
	if !c.begun() {
		return ErrUnknown
	}
	l, err := c.ask(kind, question)
	if err != nil {
		return err
	}
	kind, body, err := l.read()
	if err != nil {
		return c.broken(l, "the question", err)
	}
	c.done(l)
	switch kind {
	case sayOK:
		return nil
	case sayError:
		var r refusal
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		return r.err()
	}
	return errFrame
}

// ask sends a question on a free line. A question that could not be sent was not
// heard, so it is asked once more on a new line.
func (c *Client) ask(kind byte, question []byte) (*line, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrDetached
	}
	for again := true; ; again = false {
		l, err := c.free()
		if err != nil {
			return nil, err
		}
		if err = writeFrame(l, kind, question); err == nil {
			c.busy[l] = struct{}{}
			return l, nil
		}
		l.Close()
		c.dropIdle()
		if !again {
			return nil, fmt.Errorf("%w: %w", ErrLost, err)
		}
	}
}

func (c *Client) dropIdle() {
	for _, l := range c.idle {
		l.Close()
	}
	c.idle = nil
}

// free is an idle line or a new one, to a new supervisor if there is none.
func (c *Client) free() (*line, error) {
	if n := len(c.idle); n > 0 {
		l := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return l, nil
	}
	if c.hold != nil {
		if l, err := c.dial(); err == nil {
			return l, nil
		}
		c.hold.Close()
		c.hold = nil
	}
	if c.adopt {
		return nil, ErrLost
	}
	if err := c.spawn(); err != nil {
		return nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	hold, err := c.dial()
	if err != nil {
		return nil, fmt.Errorf("reaching the new supervisor: %w", err)
	}
	c.hold = hold
	return c.dial()
}

// done gives a line back.
func (c *Client) done(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, l)
	if c.closed || len(c.idle) >= maxIdle {
		l.Close()
		return
	}
	c.idle = append(c.idle, l)
}

// broken drops a line and all that wait beside it: they end at the same process.
func (c *Client) broken(l *line, what string, err error) error {
	l.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, l)
	if c.closed {
		return fmt.Errorf("%w: %s", ErrDetached, what)
	}
	c.dropIdle()
	return fmt.Errorf("%w while it was asked about %s: %w", ErrLost, what, err)
}

func (c *Client) dial() (*line, error) {
	path, release, err := shortPath(c.dir, c.socket)
	if err != nil {
		return nil, err
	}
	defer release()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return &line{Conn: conn, in: bufio.NewReaderSize(conn, outputChunk)}, nil
}

func (l *line) read() (kind byte, body []byte, err error) {
	kind, body, l.buf, err = readFrame(l.in, l.buf)
	return kind, body, err
}

// spawn starts a supervisor: in a session of its own, with nothing of our
// environment and no file of ours but the one it says ready on.
func (c *Client) spawn() error {
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(c.dir, 0o700) // the one before us may have taken it away
	}
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	socket := "s-" + rand.Text()[:16] + ".sock"
	child, err := os.StartProcess(self, []string{self, Verb, c.dir, socket, strconv.FormatInt(c.linger.Milliseconds(), 10), c.limits},
		&os.ProcAttr{Dir: "/", Env: []string{}, Files: []*os.File{null, null, null, w}, Sys: &syscall.SysProcAttr{Setsid: true}})
	w.Close()
	if err != nil {
		return err
	}
	go child.Wait() // how it ends is seen on its lines
	if err := r.SetReadDeadline(time.Now().Add(startPatience)); err != nil {
		return err
	}
	said, err := io.ReadAll(io.LimitReader(r, 4096))
	if string(said) != readyWord {
		return fmt.Errorf("it said %q: %w", said, errors.Join(err, errors.New("it is not ready")))
	}
	c.socket = socket
	return nil
}
