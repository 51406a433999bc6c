package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"golang.org/x/term"
)

const (
	// maxPiped bounds what is taken from standard input into a prompt.
	maxPiped = 1 << 20
	// pipedPatience is how long standard input may be silent before we say what
	// we are waiting for.
	pipedPatience = 2 * time.Second
	// typedOnItsWay is how long a line takes at most from the terminal to us.
	typedOnItsWay = 20 * time.Millisecond
	// maxAnswerLine bounds what a person types at a question.
	maxAnswerLine = 4 << 10
)

// console is the three standard streams and what they are connected to.
type console struct {
	in       io.Reader
	out, err io.Writer

	attended bool // somebody at a terminal can read and answer a question
	outTTY   bool
	piped    bool // standard input is a file or a pipe: part of the prompt
	color    bool // on err
	width    int  // columns of out, 0 if it is no terminal

	flush   func()     // throws away what the terminal holds for us
	reading bool       // a line is being waited for
	typed   chan typed // where it comes
}

// typed is a line a person typed.
type typed struct {
	line string
	end  bool // the input has ended
}

func stdConsole() console {
	errTTY := term.IsTerminal(int(os.Stderr.Fd()))
	c := console{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		attended: errTTY && term.IsTerminal(int(os.Stdin.Fd())),
		outTTY:   term.IsTerminal(int(os.Stdout.Fd())),
		color:    errTTY && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		flush:    func() { flushTerminal(int(os.Stdin.Fd())) },
		typed:    make(chan typed, 1),
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		c.width = width
	}
	if info, err := os.Stdin.Stat(); err == nil {
		c.piped = info.Mode()&(os.ModeCharDevice|os.ModeDir) == 0
	}
	return c
}

// forget throws away what was typed before a question could be read: nobody
// approves by accident.
func (c *console) forget() {
	if c.reading {
		select {
		case <-c.typed:
			c.reading = false
		case <-time.After(typedOnItsWay):
		}
	}
	c.flush()
}

// readLine returns the channel on which the next typed line comes.
func (c *console) readLine() <-chan typed {
	if c.reading {
		return c.typed
	}
	c.reading = true
	go func() {
		// One read gives one line: a terminal hands them out one by one.
		buf := make([]byte, maxAnswerLine)
		n, err := c.in.Read(buf)
		c.typed <- typed{strings.TrimSpace(string(buf[:n])), n == 0 || err != nil}
	}()
	return c.typed
}

// readPiped returns what was piped in, empty if nothing was.
func (c *console) readPiped() (string, error) {
	if !c.piped {
		return "", nil
	}
	waiting := time.AfterFunc(pipedPatience, func() {
		fmt.Fprintln(c.err, "stave: reading the rest of the prompt from standard input; </dev/null if there is none")
	})
	defer waiting.Stop()
	data, err := io.ReadAll(io.LimitReader(c.in, maxPiped+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading standard input: %w", err)
	case len(data) > maxPiped:
		return "", badInput("standard input has more than the %d bytes a prompt may have; name a file in the prompt instead", maxPiped)
	case !utf8.Valid(data):
		return "", badInput("standard input is not UTF-8 text; name a file in the prompt instead")
	}
	return strings.TrimSpace(string(data)), nil
}

// printf writes an answer to standard output.
func (c *console) printf(format string, args ...any) { fmt.Fprintf(c.out, format, args...) }

// note writes a line of progress.
func (c *console) note(format string, args ...any) { fmt.Fprintf(c.err, format+"\n", args...) }

// printJSON writes one value as one line.
func (c *console) printJSON(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err = c.out.Write(append(b, '\n'))
	return err
}

// Colours of progress.
const (
	dim    = "2"
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (c *console) paint(color, text string) string {
	if !c.color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
