package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Load reads a definition and checks all that can be checked without knowing the
// tools of a session. A .md file has the definition as front matter and the body
// of each stage under a heading with its id; every other file is YAML.
func Load(file string, b []byte) (Definition, error) { return LoadFor(file, b, nil) }

// LoadFor is Load with the tools of a session, so that all mistakes are told at once.
func LoadFor(file string, b []byte, tools []string) (Definition, error) {
	r := &reader{file: file, lines: map[string]int{}}
	if len(b) > MaxFile {
		r.fail(nil, "", "the file has %d bytes, at most %d are read; shorten it", len(b), MaxFile)
		return Definition{}, r.problems.orNil()
	}
	if !utf8.Valid(b) {
		r.failAt(1+bytes.Count(b[:validUntil(b)], []byte("\n")), "", "this line is not UTF-8 text; save the file as UTF-8")
		return Definition{}, r.problems.orNil()
	}
	b = bytes.ReplaceAll(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), []byte("\r\n"), []byte("\n"))
	var rest []byte
	var restLine int
	markdown := strings.EqualFold(path.Ext(file), ".md")
	if markdown {
		b, rest, restLine = r.frontMatter(b)
	}
	top := r.document(b)
	if top == nil {
		return Definition{}, r.problems.orNil()
	}
	d := r.definition(top)
	if markdown {
		before := r.problems
		if r.sections(&d, string(rest), restLine); len(before) > 0 {
			r.problems = before // the headings are compared with stages that may be others
		}
	}
	d.File, d.lines = file, r.lines
	d = Settle(d)
	if problems := r.and(check(d, tools, len(r.problems) > 0)); len(problems) > 0 {
		return Definition{}, problems.orNil()
	}
	return d, nil
}

// validUntil is where text stops being UTF-8.
func validUntil(b []byte) int {
	at := 0
	for at < len(b) {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// and adds what the check found to what the reader found, without what only
// follows from that: a value that could not be read, or a field that seems to be
// missing because its name is misspelt.
func (r *reader) and(found Problems) Problems {
	all := slices.Clone(r.problems)
	for _, p := range found {
		part, _, inPart := strings.Cut(p.Where, ", ")
		if !inPart {
			part = "" // the workflow itself
		}
		follows := slices.ContainsFunc(r.problems, func(known Problem) bool {
			return within(known.Where, p.Where) || p.absent && known.Where == part
		})
		if textless := p.absent && strings.HasSuffix(p.Where, ", body"); !follows && !(r.astray && textless) {
			all = append(all, p)
		}
	}
	return all
}

// within says whether a place is another or a part of it.
func within(place, of string) bool {
	rest, ok := strings.CutPrefix(place, of)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ".,["))
}

// LoadDir reads every definition directly in a directory. The good ones are
// returned beside the error that tells of the others.
func LoadDir(dir fs.FS) ([]Definition, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("reading workflows: %w", err)
	}
	var all []Definition
	var errs []error
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || strings.EqualFold(name, "README.md") || !slices.Contains([]string{".yaml", ".yml", ".md"}, strings.ToLower(path.Ext(name))) {
			continue
		}
		b, err := readFile(dir, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		d, err := Load(name, b)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if i := slices.IndexFunc(all, func(o Definition) bool { return o.ID == d.ID }); i >= 0 {
			errs = append(errs, Problem{File: name, Line: d.lines["id"], Text: fmt.Sprintf("the id %s is that of %s; write another", d.ID, all[i].File)})
			continue
		}
		all = append(all, d)
	}
	return all, errors.Join(errs...)
}

// readFile reads no more than Load takes and a byte to notice that.
func readFile(dir fs.FS, name string) ([]byte, error) {
	// Asked before it is opened: opening a pipe waits for a writer.
	if info, err := fs.Stat(dir, name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

const fence = "---"

// frontMatter cuts a Markdown file. The YAML keeps its lines: the opening fence
// becomes an empty one.
func (r *reader) frontMatter(b []byte) (front, rest []byte, restLine int) {
	lines := strings.Split(string(b), "\n")
	if strings.TrimRight(lines[0], " \t") != fence {
		r.failAt(1, "", "a Markdown workflow begins with front matter; write a line --- first, then the fields, then --- again")
		return nil, nil, 0
	}
	for i := 1; i < len(lines); i++ {
		if strings.TrimRight(lines[i], " \t") == fence {
			return []byte("\n" + strings.Join(lines[1:i], "\n")), []byte(strings.Join(lines[i+1:], "\n")), i + 2
		}
	}
	r.failAt(1, "", "the front matter has no end; write a line --- after the fields")
	return nil, nil, 0
}

// sections gives each stage the text under its heading. Other headings, and all
// inside code, belong to the text.
func (r *reader) sections(d *Definition, text string, line int) {
	bodies, order, code := map[string][]string{}, []string{}, false
	current := ""
	for i, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			code = !code
		}
		if id, ok := strings.CutPrefix(l, "# "); ok && !code && d.index(strings.TrimSpace(id)) >= 0 {
			current = strings.TrimSpace(id)
			if _, again := bodies[current]; again {
				r.failAt(line+i, "", "the heading # %s is there twice; keep one", current)
			}
			bodies[current], order = nil, append(order, current)
			r.lines[place(d.index(current), "body")] = line + i + 1
			continue
		}
		if current == "" {
			if strings.TrimSpace(l) == "" {
				continue
			}
			r.astray = true
			r.failAt(line+i, "", "this text belongs to no stage; write a heading with the stage's id first, such as # %s", firstID(*d))
			return
		}
		if len(bodies[current]) == 0 && strings.TrimSpace(l) == "" {
			r.lines[place(d.index(current), "body")]++
			continue
		}
		bodies[current] = append(bodies[current], l)
	}
	for _, id := range order {
		s := &d.Stages[d.index(id)]
		if s.Body != "" {
			r.failAt(r.lines[place(d.index(id), "body")], "stage "+id, "it has a body in the front matter too; keep one")
		}
		s.Body = strings.TrimSpace(strings.Join(bodies[id], "\n"))
	}
}

func firstID(d Definition) string {
	if len(d.Stages) == 0 {
		return "Plan"
	}
	return d.Stages[0].ID
}

// document returns the one mapping of a file, nil after a problem.
func (r *reader) document(b []byte) *yaml.Node {
	if len(r.problems) > 0 {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(b))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		r.failAt(1, "", "the file is empty; write id: and stages:")
		return nil
	} else if err != nil {
		r.syntax(err)
		return nil
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		r.failAt(max(1, second.Line), "", "a file holds one workflow; move the second document to its own file")
		return nil
	}
	return doc.Content[0]
}

func (r *reader) syntax(err error) {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, after, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			text, line = after, n
		}
	}
	r.failAt(line, "", "this is not YAML: %s", text)
}
