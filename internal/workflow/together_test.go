package workflow

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestAllAtOnce shows that mistakes of every kind are told together, each once, and
// nothing that only follows from another.
func TestAllAtOnce(t *testing.T) {
	text := strings.NewReplacer(
		"id: small", "id: sm all",
		"[Read]", "[Raed]",
		"turnCap: 3", "turncap: 3",
		"ctx.task", "ctx.tsk",
		"next: B", "next: {stages: [B], execution: parallel, join: B, unless: x}",
		"turnCap: 1", "turnCap: many\n    assert: 1 +",
	).Replace(small)
	_, err := LoadFor("w.yaml", []byte(text), tools)
	want := []string{
		"w.yaml:1: id:",
		`w.yaml:4: stage A, allowedTools: there is no tool "Raed"; did you mean Read?`,
		`w.yaml:9: stage A: there is no field "turncap"; did you mean turnCap?`,
		"w.yaml:12: stage A, body: {{ctx.tsk}}",
		`w.yaml:13: stage A, next: there is no field "unless"`,
		`w.yaml:18: stage B, turnCap: this is "many"`,
		"w.yaml:19: stage B, assert:",
	}
	var got Problems
	if !errors.As(err, &got) || len(got) != len(want) {
		t.Fatalf("%v\nwant %d problems", err, len(want))
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i].Error(), w) {
			t.Errorf("got  %v\nwant %s", got[i], w)
		}
	}
}

// TestPlaceholdersAtOnce shows that one bad placeholder hides no other.
func TestPlaceholdersAtOnce(t *testing.T) {
	_, err := Load("w.yaml", []byte(strings.Replace(small, "{{ctx.task}}", "{{a}} {{ctx.task}} {{ctx.b}} {{c", 1)))
	for _, want := range []string{"{{a}} is no placeholder", "{{ctx.b}}: there is no such name", "{{ is not closed on its line"} {
		if err == nil || !strings.Contains(err.Error(), "w.yaml:12: stage A, body: "+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestPlaceholdersWithoutEnd(t *testing.T) {
	if _, wrong := split(strings.Repeat("{{", MaxBody/2)); len(wrong) != maxProblems+1 {
		t.Errorf("%d faults", len(wrong))
	}
	_, err := Load("w.yaml", []byte(strings.Replace(small, "{{ctx.task}}", strings.Repeat("{{", MaxBody), 1)))
	if err == nil || !strings.HasPrefix(err.Error(), "w.yaml:11: stage A, body: it has 131081 bytes") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%.300v", err)
	}
}

// TestMarkdownAtOnce shows that a mistake in the front matter hides none in the
// text, and that stages keep their text.
func TestMarkdownAtOnce(t *testing.T) {
	text := `---
id: m
stages:
  - id: A
    allowedTools: []
    completionTool: submit_a
    completionSchema: {type: object}
    turnCap: zero
---
# A

{{ctx.tsk}}
`
	_, err := Load("w.md", []byte(text))
	want := `w.md:8: stage A, turnCap: this is "zero"; write a whole number
w.md:12: stage A, body: {{ctx.tsk}}: there is no such name; did you mean task?`
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// TestConsequences shows that what only follows from another mistake is not told.
func TestConsequences(t *testing.T) {
	for text, want := range map[string]string{
		"A>Z B>C C":       `stage A, next: there is no stage "Z"`, // B and C are not out of reach
		"A>B,C&B B C":     "stage A, next: join is B, which is one of the stages it waits for",
		"A>B,C&Z B C D>A": `stage A, next: join is "Z", which is no stage`,
	} {
		d := shape(text)
		d.Stages[1].Body = "{{ctx.upstream.C.output}}"
		if err := Check(d, nil); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want only %s", text, err, want)
		}
	}
	text := "---\nid: m\nstages:\n  - {id: A, allowedTools: [], completionTool: c, completionSchema: {type: object}, turnCap: 1}\n---\nWords.\n"
	if _, err := Load("w.md", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "w.md:6: this text belongs to no stage") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

// TestServerTools shows that names of servers' tools are left to the session, and
// that no stage ends by one.
func TestServerTools(t *testing.T) {
	load := func(old, text string) error {
		_, err := LoadFor("w.yaml", []byte(strings.Replace(small, old, text, 1)), tools)
		return err
	}
	for _, name := range []string{"files__read", "my-files__a_b__c", "a_b__c-d"} {
		if err := load("[Read]", "["+name+"]"); err != nil {
			t.Error(err)
		}
		if err := load("submit_a", name); err == nil || !strings.Contains(err.Error(), "could be a tool of an MCP server") {
			t.Errorf("%s ends a stage: %v", name, err)
		}
	}
	for _, name := range []string{"__read", "files__", "files_read", strings.Repeat("x", 40) + "__read"} {
		if err := load("[Read]", "["+name+"]"); err == nil || !strings.Contains(err.Error(), "there is no tool") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNotUTF8(t *testing.T) {
	for _, file := range []string{"w.yaml", "w.md"} {
		_, err := Load(file, []byte("---\nid: \xef\xbf\xbd\n# \xff\n"))
		if err == nil || err.Error() != file+":3: this line is not UTF-8 text; save the file as UTF-8" {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// pipes is a directory in which opening anything but a regular file never returns.
type pipes struct {
	fstest.MapFS
	t *testing.T
}

func (p pipes) Open(name string) (fs.File, error) {
	if f := p.MapFS[name]; f != nil && !f.Mode.IsRegular() {
		p.t.Errorf("%s is opened", name)
	}
	return p.MapFS.Open(name)
}

func (p pipes) Stat(name string) (fs.FileInfo, error) { return p.MapFS.Stat(name) }

// TestLoadDirPipe shows that a pipe among the files is told of and never opened.
func TestLoadDirPipe(t *testing.T) {
	all, err := LoadDir(pipes{fstest.MapFS{
		"a.yaml": {Data: []byte(small)},
		"b.yaml": {Mode: fs.ModeNamedPipe},
	}, t})
	if len(all) != 1 || err == nil || err.Error() != "b.yaml: it is not a regular file" {
		t.Errorf("%d definitions, %v", len(all), err)
	}
}

// TestArrows shows the ways of a run as programs read them.
func TestArrows(t *testing.T) {
	want := []Arrow{
		{From: "A", To: "B", When: "result.visit == 0", Parallel: true},
		{From: "B", To: "D", Parallel: true, Joins: true},
		{From: "A", To: "C", When: "result.visit == 0", Parallel: true},
		{From: "C", To: "D", Parallel: true, Joins: true},
		{From: "A", To: "D", Else: true},
		{From: "D"},
	}
	if got := Arrows(shape("A>B,C&D;D B C D")); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
