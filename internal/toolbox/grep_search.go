package toolbox

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// grepWindow is how much of a file is held at once; a longer line is searched
// in pieces of this size.
const grepWindow = 256 << 10

// search is one run of Grep over any number of files.
type search struct {
	re      *regexp.Regexp
	filter  prefilter
	mode    string
	context int

	reader     *bufio.Reader
	text       strings.Builder
	files      int // searched
	hits       int // files with a match
	matches    int // matching lines
	binary     int
	unreadable int
	full       bool // a limit ended the search
}

// file searches one file; errStop says that enough was found.
func (s *search) file(ctx context.Context, dir *os.Root, name, path string) error {
	f, _, err := openRegular(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if s.reader == nil {
		s.reader = bufio.NewReaderSize(f, grepWindow)
	}
	s.reader.Reset(f)
	start, err := s.reader.Peek(grepWindow)
	if err != nil && err != io.EOF {
		return err
	}
	if bytes.IndexByte(start[:min(len(start), sniffBytes)], 0) >= 0 {
		s.binary++
		return nil
	}
	s.files++
	if err == io.EOF && !s.filter.pass(start) {
		return nil
	}
	scan := fileScan{search: s, path: path}
	if err := scan.lines(ctx); err != nil {
		return err
	}
	return scan.end()
}

// output closes the search with notes for the model and counts for programs.
func (s *search) output(cut bool) Output {
	if s.matches == 0 {
		fmt.Fprintf(&s.text, "(no match in %d files)\n", s.files)
	}
	if s.full {
		s.text.WriteString("[stopped: too many results; narrow pattern, path or glob]\n")
	}
	if cut {
		fmt.Fprintf(&s.text, "[stopped after looking at %d names; start from a deeper path]\n", maxWalkEntries)
	}
	if s.unreadable > 0 {
		fmt.Fprintf(&s.text, "[%d files could not be read]\n", s.unreadable)
	}
	return Output{Text: s.text.String(), Meta: map[string]any{
		"files_searched": s.files, "files_matched": s.hits, "matches": s.matches,
		"binary": s.binary, "unreadable": s.unreadable, "complete": !s.full && !cut,
	}}
}

// add writes one line of the result, or ends the search when it does not fit.
func (s *search) add(line string) error {
	line = strings.ToValidUTF8(line, "\uFFFD")
	if s.text.Len()+len(line)+1 > maxText {
		s.full = true
		return errStop
	}
	s.text.WriteString(line + "\n")
	return nil
}

// fileScan is the search of one file.
type fileScan struct {
	*search
	path    string
	number  int // of the current line
	found   int // matching lines
	shown   int // number of the last line shown
	before  []string
	pending int // lines of context still to show
}

func (s *fileScan) lines(ctx context.Context) error {
	for fresh := true; ; {
		line, err := s.reader.ReadSlice('\n')
		if len(line) == 0 && err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if fresh {
			if s.number++; s.number%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
		fresh = err != bufio.ErrBufferFull
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if err := s.line(line); err != nil {
			return err
		}
		if s.mode == grepFiles && s.found > 0 {
			return nil
		}
	}
}

func (s *fileScan) line(line []byte) error {
	at := s.find(line)
	if at == nil {
		return s.surround(line)
	}
	if s.found++; s.found == 1 {
		s.hits++
	}
	s.matches++
	if s.mode != grepContent {
		return nil
	}
	if s.matches > maxGrepMatches {
		s.matches--
		s.full = true
		return errStop
	}
	if err := s.separate(); err != nil {
		return err
	}
	for i, earlier := range s.before {
		if err := s.add(fmt.Sprintf("%s-%d-%s", s.path, s.number-len(s.before)+i, earlier)); err != nil {
			return err
		}
	}
	s.before = s.before[:0]
	s.shown, s.pending = s.number, s.context
	return s.add(fmt.Sprintf("%s:%d:%s", s.path, s.number, clip(line, at)))
}

func (s *fileScan) find(line []byte) []int {
	if !s.filter.pass(line) {
		return nil
	}
	return s.re.FindIndex(line)
}

// surround shows or remembers a line that does not match.
func (s *fileScan) surround(line []byte) error {
	if s.context == 0 {
		return nil
	}
	text := clip(line, []int{0, 0})
	if s.pending > 0 {
		s.pending--
		s.shown = s.number
		return s.add(fmt.Sprintf("%s-%d-%s", s.path, s.number, text))
	}
	if len(s.before) == s.context {
		s.before = append(s.before[:0], s.before[1:]...)
	}
	s.before = append(s.before, text)
	return nil
}

// separate sets groups of lines apart that do not touch.
func (s *fileScan) separate() error {
	if s.context == 0 || s.text.Len() == 0 || s.shown > 0 && s.number-len(s.before) <= s.shown+1 {
		return nil
	}
	return s.add("--")
}

// end writes what a whole file amounts to.
func (s *fileScan) end() error {
	if s.found == 0 {
		return nil
	}
	switch s.mode {
	case grepContent:
		return nil
	case grepCount:
		if err := s.add(fmt.Sprintf("%s:%d", s.path, s.found)); err != nil {
			return err
		}
	case grepFiles:
		if err := s.add(s.path); err != nil {
			return err
		}
	}
	if s.hits == maxGrepFiles {
		s.full = true
		return errStop
	}
	return nil
}

// clip cuts a long line to the surroundings of its match.
func clip(line []byte, at []int) string {
	if len(line) <= maxGrepLineBytes {
		return string(line)
	}
	from := max(0, min(at[0]-maxGrepLineBytes/4, len(line)-maxGrepLineBytes))
	for i := 1; i < utf8.UTFMax && from > 0 && !utf8.RuneStart(line[from]); i++ {
		from--
	}
	text := string(trimPartial(line[from:min(from+maxGrepLineBytes, len(line))]))
	if from > 0 {
		text = "…" + text
	}
	if from+maxGrepLineBytes < len(line) {
		text += "…"
	}
	return text
}
