package checkpoint

import (
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

const (
	ignoreName     = ".gitignore"
	maxIgnoreBytes = 1 << 20
	// programTemp starts the names of files this program is in the middle of
	// writing. Who writes them cleans up; restoreTemp starts our own.
	programTemp = ".stave-"
	restoreTemp = programTemp + "restore-"
	tagName     = "CACHEDIR.TAG"
	tagContent  = "Signature: 8a477f597d28d172789f06886806bc55"
)

// heaps are directories that tools fill and fill again. Keeping them would cost
// more than making them anew.
var heaps = []string{
	".hg", ".svn", ".jj", "node_modules", "bower_components", ".venv", "venv", "__pycache__",
	".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".gradle", ".terraform", ".direnv", ".cache",
}

// rules say which directories are left alone: heaps by name, what the top
// .gitignore names outright, and (see walker) what carries a CACHEDIR.TAG. Only
// whole directories are ignored, never single files: an ignored file, say a
// local configuration, is as much worth having back as any other.
type rules []name

// readRules reads the lines of the top .gitignore that name a directory without
// any wildcard.
func readRules(top *os.Root) rules {
	f, _, err := openRegular(top, ignoreName)
	if err != nil {
		return nil // an ignore file that cannot be read hides nothing
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes))
	if err != nil {
		return nil
	}
	var r rules
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, " \r\n")
		back, again := strings.CutPrefix(line, "!")
		rule := name(strings.TrimSuffix(back, "/"))
		switch {
		case again:
			r = slices.DeleteFunc(r, func(n name) bool { return strings.Trim(string(n), "/") == strings.Trim(string(rule), "/") })
		case plainDir(line) && !slices.Contains(r, rule):
			r = append(r, rule)
		}
	}
	slices.Sort(r)
	return r
}

// plainDir reports whether a line names a directory and nothing else. Without
// the slash at its end it may be meant for a file.
func plainDir(line string) bool {
	return strings.HasSuffix(line, "/") && strings.Trim(line, "/") != "" && !strings.ContainsAny(line, `*?[\#`)
}

// ignores reports whether a directory is left alone.
func (r rules) ignores(p string) bool {
	if slices.Contains(heaps, path.Base(p)) {
		return true
	}
	for _, rule := range r {
		anchored := strings.Contains(string(rule), "/")
		if anchored && strings.TrimPrefix(string(rule), "/") == p || !anchored && string(rule) == path.Base(p) {
			return true
		}
	}
	return false
}

// neverTouched reports whether a path is, or lies in, a repository's own
// directory, or is a file half written.
func neverTouched(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if strings.EqualFold(part, ".git") || strings.HasPrefix(part, programTemp) {
			return true
		}
	}
	return false
}

// isCache reports whether a directory says of itself that it can be made anew.
func isCache(dir *os.Root, entries []fs.DirEntry) bool {
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == tagName }) {
		return false
	}
	f, _, err := openRegular(dir, tagName)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(tagContent))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == tagContent
}
