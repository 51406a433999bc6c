package policy

import (
	"bytes"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"stave/internal/machine/tool"
)

// maxValueBytes is how long a value may be to be compared with a pattern.
const maxValueBytes = 4 << 10

// subject is a call as the rules see it, taken apart once.
type subject struct {
	call   tool.Call
	dir    string
	fields map[string]jsontext.Value // nil when the arguments are no object
	shell  bool
	script Script
	extra  bool // a shell call has arguments this package does not know
}

// shellFields are the arguments of the shell tool.
var shellFields = setOf("command timeout_seconds description")

// subjectOf prepares a call for its rules. Without any, large arguments need
// not be read at all.
func subjectOf(dir string, c tool.Call, rules Rules) subject {
	s := subject{call: c, dir: path.Clean(dir), shell: c.Tool == ShellTool}
	if dir == "" {
		s.dir = ""
	}
	if len(rules) == 0 {
		return s
	}
	// Two fields of one name are an error here, so nobody can show one and run the other.
	if err := json.Unmarshal(c.Arguments, &s.fields); err != nil {
		s.fields = nil
	}
	if !s.shell {
		return s
	}
	command, ok := textOf(s.fields["command"])
	if ok {
		s.script = Shell(command)
	}
	for name := range s.fields {
		s.extra = s.extra || !shellFields[name]
	}
	return s
}

// textOf returns a value that is a string, a number, true or false as text.
func textOf(v jsontext.Value) (string, bool) {
	switch v.Kind() {
	case jsontext.KindString:
		var text string
		err := json.Unmarshal(v, &text)
		return text, err == nil
	case jsontext.KindNumber, jsontext.KindTrue, jsontext.KindFalse:
		return string(bytes.TrimSpace(v)), true
	}
	return "", false
}

// coversArgs compares every field a rule names. An allow needs certainty; for
// the others doubt is worth a question.
func (r Rule) coversArgs(s subject) certainty {
	if len(r.Args) == 0 {
		return yes
	}
	if s.fields == nil {
		return r.doubt()
	}
	sure := yes
	for name, pattern := range r.Args {
		value, given := s.fields[name]
		if !given {
			return no
		}
		text, ok := textOf(value)
		switch {
		case !ok || len(text) > maxValueBytes:
			sure = min(sure, r.doubt())
		case isAddressField(name):
			sure = min(sure, r.fitsAddress(pattern, text))
		case !r.fits(name, pattern, text, s.dir):
			sure = no
		}
	}
	return sure
}

// doubt is what an uncertain comparison is worth to the rule.
func (r Rule) doubt() certainty {
	if r.Decision == tool.Allow {
		return no
	}
	return maybe
}

// fits compares one field. To an allow rule only one reading of a path counts;
// the others take any reading, whatever its case, because some file systems do.
func (r Rule) fits(name, pattern, text, dir string) bool {
	if !isPathField(name) {
		return globMatch(pattern, text) || r.Decision != tool.Allow && globMatch(strings.ToLower(pattern), strings.ToLower(text))
	}
	inside, ok := within(dir, text)
	if r.Decision == tool.Allow {
		return ok && globMatch(pattern, inside)
	}
	readings := []string{path.Clean(text), path.Join(dir, text)}
	if ok {
		readings = append(readings, inside)
	}
	for _, reading := range readings {
		if globMatch(pattern, reading) || globMatch(strings.ToLower(pattern), strings.ToLower(reading)) {
			return true
		}
	}
	return false
}

// isPathField reports whether a field holds a path, which its name tells.
func isPathField(name string) bool {
	for _, end := range []string{"path", "file", "dir", "directory", "cwd", "filename"} {
		if name == end || strings.HasSuffix(name, "_"+end) {
			return true
		}
	}
	return false
}

// within returns a path relative to the workspace, and false when it leads out
// of it. This is about what the path says; where symbolic links lead is the
// business of the tool and the sandbox.
func within(dir, name string) (string, bool) {
	if strings.ContainsRune(name, 0) {
		return "", false
	}
	clean := path.Clean(name)
	if path.IsAbs(clean) {
		rest, ok := strings.CutPrefix(clean, dir)
		if dir == "" || !ok || rest != "" && dir != "/" && rest[0] != '/' {
			return "", false
		}
		clean = path.Clean("./" + rest)
	}
	return clean, clean != ".." && !strings.HasPrefix(clean, "../")
}

const globMeta = `*?[{\`

// globMatch compares a name with a pattern, or with itself when it is none.
func globMatch(pattern, name string) bool {
	if !strings.ContainsAny(pattern, globMeta) {
		return pattern == name
	}
	ok, err := doublestar.Match(pattern, name)
	return ok && err == nil
}
