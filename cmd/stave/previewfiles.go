package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"stave/internal/machine/tool"
)

const (
	// maxCompared is the largest file that is compared with what it would become.
	maxCompared = 4 << 20
	// maxFilesShown is how many files one call can name.
	maxFilesShown = 20
)

// replacement is one edit of a file, as the tools take it.
type replacement struct {
	Path string `json:"path"`
	Old  string `json:"old_string"`
	New  string `json:"new_string"`
	All  bool   `json:"replace_all"`
}

// change compares the files a call names as they are with what it makes of them.
func (p *preview) change(call tool.Call, dir string) bool {
	var args struct {
		replacement
		Content string        `json:"content"`
		Edits   []replacement `json:"edits"`
	}
	if json.Unmarshal(call.Arguments, &args) != nil {
		return false
	}
	p.title, p.diff = "change", true
	if call.Tool == "Write" {
		if args.Path == "" {
			return false
		}
		p.written(dir, args.Path, args.Content)
		return true
	}
	edits := args.Edits
	if call.Tool == "Edit" {
		edits = []replacement{args.replacement}
	}
	byPath := map[string][]replacement{}
	var paths []string
	for _, e := range edits {
		if e.Path == "" {
			return false
		}
		name := filepath.Clean(e.Path)
		if byPath[name] == nil {
			paths = append(paths, name)
		}
		byPath[name] = append(byPath[name], e)
	}
	if len(paths) == 0 || len(paths) > maxFilesShown {
		return false
	}
	for _, path := range paths {
		p.edited(dir, path, byPath[path])
	}
	return true
}

// written shows what becomes of a file that is replaced.
func (p *preview) written(dir, path, content string) {
	old, note, err := present(dir, path)
	diff := unified(old, content)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.file(path, "a new file, "+size(content))
	case err != nil:
		p.file(path, "it is not compared: "+err.Error())
	case old == content:
		p.file(path, "nothing would change"+note)
		return
	default:
		p.file(path, changed(diff)+note)
	}
	p.body = append(p.body, diff...)
	if content == "" {
		p.body = append(p.body, "(it would be empty)")
	}
}

// edited shows what edits make of a file. Those that do not fit would be refused;
// they are shown as they are.
func (p *preview) edited(dir, path string, edits []replacement) {
	old, note, err := present(dir, path)
	now := old
	for _, e := range edits {
		if err != nil {
			break
		}
		now, err = e.apply(now)
	}
	if err != nil {
		p.file(path, "it cannot be compared: "+whyNot(err))
		for _, e := range edits {
			p.body = append(p.body, unified(e.Old, e.New)...)
		}
		return
	}
	diff := unified(old, now)
	p.file(path, changed(diff)+note)
	p.body = append(p.body, diff...)
}

func (e replacement) apply(text string) (string, error) {
	switch n := strings.Count(text, e.Old); {
	case e.Old == "" || n == 0:
		return "", errors.New("the text to replace is not in it, so the call would fail")
	case n > 1 && !e.All:
		return "", fmt.Errorf("the text to replace is in it %d times, so the call would fail", n)
	case len(text)+n*(len(e.New)-len(e.Old)) > maxCompared:
		return "", fmt.Errorf("it would become larger than %d bytes", maxCompared)
	}
	return strings.ReplaceAll(text, e.Old, e.New), nil
}

func (p *preview) file(path, what string) {
	p.body = append(p.body, fmt.Sprintf("@@ %s: %s", path, what))
}

func whyNot(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "it does not exist"
	}
	return err.Error()
}

// changed counts the lines of a comparison.
func changed(diff []string) string {
	removed, added := 0, 0
	for _, l := range diff {
		switch l[0] {
		case '-':
			removed++
		case '+':
			added++
		}
	}
	switch {
	case removed == 0 && added == 0:
		return "nothing would change"
	case removed == added:
		return "changes " + count(added, "line", "lines")
	case removed == 0:
		return "adds " + count(added, "line", "lines")
	case added == 0:
		return "removes " + count(removed, "line", "lines")
	}
	return fmt.Sprintf("removes %s, adds %s", count(removed, "line", "lines"), count(added, "line", "lines"))
}

func size(text string) string {
	return count(len(splitLines(text)), "line", "lines")
}

// present reads a file of the workspace as it is now. It looks through os.Root as
// the tools do, so no link leads out, and it looks before it opens: some files do
// something when they are opened.
func present(dir, path string) (text, note string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", "", errors.New("the workspace cannot be opened")
	}
	defer root.Close()
	name := path
	if filepath.IsAbs(path) {
		if name, err = filepath.Rel(dir, path); err != nil {
			return "", "", errOutside
		}
	}
	if !filepath.IsLocal(name) {
		return "", "", errOutside
	}
	if to, err := root.Readlink(name); err == nil {
		note = " (a symbolic link to " + to + ")"
	}
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return "", note, cause(err)
	case !info.Mode().IsRegular():
		return "", note, errors.New("it is not a regular file")
	case info.Size() > maxCompared:
		return "", note, fmt.Errorf("it has %d bytes, which is too many", info.Size())
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", note, cause(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCompared))
	if err != nil {
		return "", note, cause(err)
	}
	if !utf8.Valid(b) || strings.ContainsRune(string(b), 0) {
		return "", note, fmt.Errorf("its %d bytes are not text", len(b))
	}
	return string(b), note, nil
}

var errOutside = errors.New("it is outside the workspace, so the call would fail")
