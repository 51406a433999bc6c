package toolbox

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxReadLines     = 2000
	maxReadLineBytes = 2000
	// maxSkipBytes bounds the search for the line at offset.
	maxSkipBytes = 1 << 30
	sniffBytes   = 8 << 10
)

//go:embed read.md
var readDoc string

type readArgs struct {
	Path   string `json:"path" min:"1" jsonschema:"the file to read"`
	Offset int    `json:"offset,omitempty" min:"1" jsonschema:"number of the first line to read, from 1 (default 1)"`
	Limit  int    `json:"limit,omitempty" min:"1" max:"2000" jsonschema:"how many lines to read at most (default 2000)"`
}

// Read returns the tool that shows a file with line numbers.
func Read() Tool { return New("Read", readDoc, ReadOnly, true, runRead).with(private) }

func runRead(ctx context.Context, env Env, args readArgs) (Output, error) {
	w, err := openWorkspace(env)
	if err != nil {
		return Output{}, err
	}
	defer w.Close()
	name, err := w.place(args.Path)
	if err != nil {
		return Output{}, err
	}
	f, info, err := w.openFile(name)
	if errors.Is(err, errDirectory) {
		return Output{}, fmt.Errorf(`%s is a directory; list it with Glob, pattern "*"`, name)
	}
	if err != nil {
		return Output{}, pathProblem(name, err)
	}
	defer f.Close()
	p := page{first: max(args.Offset, 1), limit: args.Limit, size: info.Size()}
	if p.limit == 0 {
		p.limit = maxReadLines
	}
	if err := p.read(ctx, f, name); err != nil {
		return Output{}, err
	}
	return Output{Text: p.finish(), Meta: map[string]any{
		"path": name, "first_line": p.first, "lines": p.lines, "size": p.size, "more": p.more,
	}}, nil
}

// page is the part of a file that is shown.
type page struct {
	first, limit int
	size         int64

	text           strings.Builder
	lines          int
	more           bool // the file goes on after the page
	repaired, crlf bool
}

func (p *page) read(ctx context.Context, f *os.File, name string) error {
	r := bufio.NewReaderSize(f, 64<<10)
	start, err := r.Peek(sniffBytes)
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return pathProblem(name, err)
	}
	if bytes.IndexByte(start, 0) >= 0 {
		return fmt.Errorf("%s is a binary file of %d bytes; look at it with a Bash command such as file or xxd", name, p.size)
	}
	if err := p.skip(ctx, r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for p.lines < p.limit {
		line, size, err := readLine(r, maxReadLineBytes)
		if err == io.EOF {
			break
		}
		if err != nil {
			return pathProblem(name, err)
		}
		if !p.add(line, size) {
			return nil
		}
	}
	if p.lines == 0 && p.first > 1 {
		return fmt.Errorf("%s: %w", name, p.pastEnd(p.first-1))
	}
	_, err = r.Peek(1)
	p.more = err == nil
	return nil
}

func (p *page) pastEnd(lines int) error {
	return fmt.Errorf("offset %d is after the end: the file has %d lines", p.first, lines)
}

// skip moves to the first line of the page.
func (p *page) skip(ctx context.Context, r *bufio.Reader) error {
	var skipped int64
	for line := 1; line < p.first; {
		chunk, err := r.ReadSlice('\n')
		skipped += int64(len(chunk))
		switch {
		case err == nil:
			line++
		case err == io.EOF && len(chunk) == 0:
			return p.pastEnd(line - 1)
		case err == io.EOF:
			return p.pastEnd(line)
		case err != bufio.ErrBufferFull:
			return err
		}
		if skipped > maxSkipBytes {
			return fmt.Errorf("offset %d lies more than %d bytes into the file; use Bash with sed -n", p.first, int64(maxSkipBytes))
		}
		if line%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// add appends one line unless the page would grow too large.
func (p *page) add(line []byte, size int) bool {
	cut := ""
	if size > len(line) {
		line = trimPartial(line)
		cut = fmt.Sprintf("… [cut: the line has %d bytes]", size)
	} else if bytes.HasSuffix(line, []byte("\r")) {
		line = line[:len(line)-1]
		p.crlf = true
	}
	text := string(line)
	if !utf8.ValidString(text) {
		p.repaired = true
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	number := strconv.Itoa(p.first + p.lines)
	if p.text.Len()+len(number)+len(text)+len(cut)+2 > maxText {
		p.more = true
		return false
	}
	p.text.WriteString(number + "\t" + text + cut + "\n")
	p.lines++
	return true
}

func (p *page) finish() string {
	if p.size == 0 && p.lines == 0 {
		return "(the file is empty)"
	}
	if p.crlf {
		p.text.WriteString("[lines end in CRLF, not shown]\n")
	}
	if p.repaired {
		p.text.WriteString("[bytes that are not UTF-8 are shown as \uFFFD]\n")
	}
	if p.more {
		fmt.Fprintf(&p.text, "[the file of %d bytes goes on: continue with offset %d]\n", p.size, p.first+p.lines)
	}
	return p.text.String()
}

// readLine returns up to keep bytes of the next line without its newline, and
// the whole line's length. Memory stays bounded however long the line is.
func readLine(r *bufio.Reader, keep int) (line []byte, size int, err error) {
	for {
		chunk, err := r.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull && (err != io.EOF || size+len(chunk) == 0) {
			return nil, 0, err
		}
		if err == nil {
			chunk = chunk[:len(chunk)-1]
		}
		size += len(chunk)
		if room := keep - len(line); room > 0 {
			line = append(line, chunk[:min(room, len(chunk))]...)
		}
		if err != bufio.ErrBufferFull {
			return line, size, nil
		}
	}
}

// trimPartial drops an incomplete UTF-8 sequence at the end of a cut text.
func trimPartial(b []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}
