package world

import (
	"bytes"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stave/internal/machine"
)

const docsDir = "../../docs/machines"

// TestDocs keeps docs/machines equal to the tables and the wires.
func TestDocs(t *testing.T) {
	compare(t, "README.md", overview(t))
	for _, s := range Specs() {
		compare(t, s.Name+".md", page(t, s))
	}
	files, err := filepath.Glob(filepath.Join(docsDir, "*"))
	if err != nil || len(files) != len(RoomOrder)+1 {
		t.Errorf("%d pages for %d machines: %v", len(files), len(RoomOrder), files)
	}
}

func compare(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join(docsDir, name)
	if *update {
		if err := os.MkdirAll(docsDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, []byte(want)) {
		t.Errorf("%s is not current; run make docs (%v)", path, err)
	}
}

const drawn = "<!-- Drawn from the tables in internal/machine and the wires in internal/world by \"make docs\". Do not edit. -->\n"

// overview is the page of all machines.
func overview(t *testing.T) string {
	var b strings.Builder
	b.WriteString(drawn + "# The machines of a conversation\n\n| machine | states | arrows | what it is |\n|---|---|---|---|\n")
	for _, s := range Specs() {
		fmt.Fprintf(&b, "| [%s](%s.md) | %d | %d | %s |\n", s.Name, s.Name, len(s.States), len(s.Transitions), synopsis(t, s.Name))
	}
	b.WriteString(`
Every arrow records a rune. A box says who moves it on: *rest* whoever has a command, *work* a job, *ask* a person,
*await* other machines, *end* nobody. 👤 marks what a person may do.

## Wires

When a rune is recorded, others are told in the same batch. A command its receiver no longer draws is dropped.

`)
	writeWires(&b, Wires())
	return b.String()
}

// page is the page of one machine.
func page(t *testing.T, s machine.Spec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# %s\n\nThis is %s\n\n", drawn, s.Name, synopsis(t, s.Name))
	fmt.Fprintf(&b, "```mermaid\n%s```\n\n## States\n\n| state | mode | job or question | what goes on |\n|---|---|---|---|\n", s.Mermaid())
	for _, st := range s.States {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", st.Name, st.Mode, code(st.Needs), cell(st.Note))
	}
	b.WriteString("\n## Arrows\n\n| from | command | to | rune | person |\n|---|---|---|---|---|\n")
	for _, tr := range s.Transitions {
		if !tr.Past {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", state(tr.From), code(tr.Command), tr.To, code(tr.Rune), person(tr.Person))
		}
	}
	var in, out []Wire
	for _, w := range Wires() {
		if w.Machine == s.Name {
			in = append(in, w)
		}
		if strings.HasPrefix(w.When, s.Name+".") {
			out = append(out, w)
		}
	}
	b.WriteString("\n## Wires that lead here\n\n")
	writeWires(&b, in)
	b.WriteString("\n## Wires that start here\n\n")
	writeWires(&b, out)
	return b.String()
}

func writeWires(b *strings.Builder, list []Wire) {
	b.WriteString("| when | tell | command |\n|---|---|---|\n")
	for _, w := range list {
		fmt.Fprintf(b, "| %s | %s | %s |\n", code(w.When), cell(w.Tell), code(w.Machine+"."+w.Command))
	}
}

// synopsis is what a room's package says of itself, without its subject.
func synopsis(t *testing.T, name string) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../machine", name, "table.go"), nil, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(new(doc.Package).Synopsis(f.Doc.Text()), "Package "+name+" is ")
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func state(s machine.State) string {
	if s == machine.None {
		return "*(not there)*"
	}
	return string(s)
}

func person(may bool) string {
	if may {
		return "👤"
	}
	return ""
}
