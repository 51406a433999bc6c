package policy

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxScriptBytes is the longest command that is parsed at all.
	maxScriptBytes = 16 << 10
	// maxPlainCommands is how many commands a plain script may have. Beyond it a
	// person is asked; there is no weaker check to fall back to.
	maxPlainCommands = 50
	// maxNested is how deep commands inside the text of commands are followed.
	maxNested = 3
)

// Script is a shell command as the gate understands it.
type Script struct {
	// Plain says that the command is nothing but programs with fixed words,
	// joined by pipes, && and || and ; so that it can run without a shell.
	Plain     bool
	Reason    string     // why it is not plain
	Pipelines []Pipeline // what to run, in order; only when it is plain

	parsed bool
	text   string
	found  []simple // every simple command in it, wherever it stands
}

// Pipeline is one or more programs, each reading what the one before it prints.
type Pipeline struct {
	// Joint says when it runs: ";" always, "&&" after success, "||" after failure
	// of what ran last. The first has ";".
	Joint    string
	Commands [][]string
}

// Shell reads a command the way bash would, without running anything.
func Shell(command string) Script { return readScript(command, 0) }

func readScript(text string, depth int) Script {
	s := Script{text: text}
	if s.Reason = unreadable(text); s.Reason != "" {
		return s
	}
	err := guarded(func() error {
		// Comments are kept so that a command with one is not taken for plain.
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
		if err != nil {
			return err
		}
		s.found = findCommands(file, depth)
		s.Pipelines, s.Reason = plainScript(file, text)
		return nil
	})
	if err != nil {
		return Script{text: text, Reason: "it cannot be read as a shell command: " + shorten(err.Error())}
	}
	s.parsed, s.Plain = true, s.Reason == ""
	return s
}

// guarded turns a panic of the parser into an error: what cannot be read is
// asked about, whatever the reason.
func guarded(read func() error) (err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("the parser gave up: %v", broken)
		}
	}()
	return read()
}

// unreadable finds what our parser and bash are known to read differently, so it
// comes before any parsing.
func unreadable(text string) string {
	switch {
	case strings.TrimSpace(text) == "":
		return "there is no command"
	case len(text) > maxScriptBytes:
		return fmt.Sprintf("it has more than %d bytes", maxScriptBytes)
	case !utf8.ValidString(text):
		return "it is not valid UTF-8"
	}
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return fmt.Sprintf("it contains the control character %U", r)
		}
	}
	return ""
}

// plainScript takes a file apart, or says what in it is not plain. Everything
// that is not known to be harmless is a reason: a new kind of node, too.
func plainScript(file *syntax.File, text string) ([]Pipeline, string) {
	if strings.Contains(text, "\\\n") {
		return nil, "it continues a line with a backslash"
	}
	if len(file.Last) > 0 {
		return nil, describe(&file.Last[0])
	}
	var r plainReader
	for _, statement := range file.Stmts {
		if why := r.list(statement, ";"); why != "" {
			return nil, why
		}
	}
	if r.commands > maxPlainCommands {
		return nil, fmt.Sprintf("it has more than %d commands", maxPlainCommands)
	}
	return r.pipelines, ""
}

type plainReader struct {
	pipelines []Pipeline
	commands  int
}

// list reads pipelines joined by && and ||, which bind equally and from the left.
func (r *plainReader) list(s *syntax.Stmt, joint string) string {
	if both, ok := s.Cmd.(*syntax.BinaryCmd); ok && (both.Op == syntax.AndStmt || both.Op == syntax.OrStmt) {
		if why := dressing(s); why != "" {
			return why
		}
		if why := r.list(both.X, joint); why != "" {
			return why
		}
		s, joint = both.Y, both.Op.String()
	}
	commands, why := pipeline(s)
	r.commands += len(commands)
	r.pipelines = append(r.pipelines, Pipeline{joint, commands})
	return why
}

func pipeline(s *syntax.Stmt) ([][]string, string) {
	if why := dressing(s); why != "" {
		return nil, why
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		argv, why := plainCall(c)
		return [][]string{argv}, why
	case *syntax.BinaryCmd:
		if c.Op != syntax.Pipe {
			return nil, "it joins commands with " + c.Op.String()
		}
		left, why := pipeline(c.X)
		if why != "" {
			return nil, why
		}
		right, why := pipeline(c.Y)
		return append(left, right...), why
	default:
		return nil, describe(s.Cmd)
	}
}

// dressing is what a statement may have around its command.
func dressing(s *syntax.Stmt) string {
	switch {
	case len(s.Redirs) > 0:
		return describe(s.Redirs[0])
	case s.Negated:
		return "it negates a command"
	case s.Background || s.Disown || s.Coprocess:
		return "it leaves a command running in the background"
	case len(s.Comments) > 0:
		return describe(&s.Comments[0])
	}
	return ""
}

func plainCall(c *syntax.CallExpr) ([]string, string) {
	if len(c.Assigns) > 0 {
		return nil, describe(c.Assigns[0])
	}
	name := c.Args[0].Lit()
	if !bareName(name) {
		return nil, "the name of a command is not a bare word"
	}
	if shellWords[name] {
		return nil, name + " is part of the shell, not a program"
	}
	argv := make([]string, len(c.Args))
	for i, w := range c.Args {
		var why string
		if argv[i], why = plainWord(w); why != "" {
			return nil, why
		}
	}
	return argv, ""
}

// plainWord is a word whose value is fixed: bare letters or simple quotes.
func plainWord(w *syntax.Word) (string, string) {
	var value strings.Builder
	for _, part := range w.Parts {
		text, why := plainPart(part)
		if why != "" {
			return "", why
		}
		value.WriteString(text)
	}
	return value.String(), ""
}

func plainPart(part syntax.WordPart) (string, string) {
	switch p := part.(type) {
	case *syntax.Lit:
		return p.Value, strange(p.Value, bareByte)
	case *syntax.SglQuoted:
		if p.Dollar {
			return "", "it uses $'...' quotes"
		}
		return p.Value, strange(p.Value, asciiByte)
	case *syntax.DblQuoted:
		if p.Dollar {
			return "", `it uses $"..." quotes`
		}
		var value strings.Builder
		for _, inner := range p.Parts {
			lit, ok := inner.(*syntax.Lit)
			if !ok {
				return "", describe(inner)
			}
			if why := strange(lit.Value, quotedByte); why != "" {
				return "", why
			}
			value.WriteString(lit.Value)
		}
		return value.String(), ""
	default:
		return "", describe(part)
	}
}

// strange names the first byte of a text that could mean more than itself.
func strange(text string, fixed func(byte) bool) string {
	for i := range len(text) {
		if b := text[i]; b >= utf8.RuneSelf {
			return "it contains characters beyond ASCII"
		} else if !fixed(b) {
			return fmt.Sprintf("it uses %q, which the shell may expand", string(b))
		}
	}
	return ""
}

func asciiByte(byte) bool { return true }

func quotedByte(b byte) bool { return b != '\\' && b != '$' && b != '`' }

func bareByte(b byte) bool { return letterOrDigit(b) || strings.IndexByte("_./:,@%+=-", b) >= 0 }

func letterOrDigit(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}

// bareName reports whether a word can only be the name of a program.
func bareName(name string) bool {
	for i := range len(name) {
		b := name[i]
		if !letterOrDigit(b) && b != '_' && b != '.' && b != '/' && (i == 0 || b != '-' && b != '+') {
			return false
		}
	}
	return name != ""
}
