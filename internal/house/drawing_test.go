package house

import (
	"fmt"
	"go/doc"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const preface = `<!-- Drawn from the table in internal/house by "make docs". Do not edit. -->
# The house

Every package is a room on a floor. A room knows rooms below it and nothing above; an import that is not in
the table of ` + "`internal/house/floors_test.go`" + ` fails the build. *Pure* rooms have no clock, no chance, no file,
no network and no goroutine: what they compute, replay computes again.

`

// TestHouseDrawing keeps docs/house.md equal to the table and the code.
func TestHouseDrawing(t *testing.T) {
	golden(t, "docs/house.md", []byte(draw(open(t))))
}

// draw renders the house as it stands: rooms that exist, the imports between them.
func draw(r *repo) string {
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString("```mermaid\nflowchart BT\n")
	for _, level := range byFloor(r) {
		fmt.Fprintf(&b, "  subgraph floor%[1]d[floor %[1]d]\n", level[0].floor)
		for _, home := range level {
			fmt.Fprintf(&b, "    %s[\"%s\"]\n", home.id(), home.name)
		}
		b.WriteString("  end\n")
	}
	for _, level := range byFloor(r) {
		for _, home := range level {
			if home.may == everyone {
				continue // it knows every room; drawing that hides the rest
			}
			for _, neighbour := range nearest(r, home) {
				fmt.Fprintf(&b, "  %s --> %s\n", neighbour.id(), home.id())
			}
		}
	}
	b.WriteString("```\n\nAn arrow leads from a room to one that builds on it; what other arrows imply is left out.\n\n")
	b.WriteString("| floor | room | its one job |\n|---|---|---|\n")
	for _, level := range byFloor(r) {
		for _, home := range level {
			fmt.Fprintf(&b, "| %d | `%s`%s | %s |\n", home.floor, home.dir(), mark(home), job(r.packages[home.dir()]))
		}
	}
	return b.String()
}

// byFloor groups the rooms that exist, lowest floor first.
func byFloor(r *repo) [][]room {
	var levels [][]room
	for _, home := range floors {
		if r.packages[home.dir()] == nil {
			continue
		}
		if n := len(levels); n == 0 || levels[n-1][0].floor != home.floor {
			levels = append(levels, nil)
		}
		levels[len(levels)-1] = append(levels[len(levels)-1], home)
	}
	return levels
}

// neighbours are the rooms whose packages a room's program imports, in the
// table's order.
func neighbours(r *repo, home room) []room {
	known := map[string]bool{}
	for f := range r.packages[home.dir()].shipped {
		for imported := range f.imports {
			known[strings.TrimPrefix(imported, module)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(floors), func(n room) bool { return !known[n.dir()] })
}

// id is a room's name where only letters and underscores are allowed.
func (r room) id() string { return strings.ReplaceAll(r.name, "/", "_") }

// nearest are the neighbours that no other neighbour knows.
func nearest(r *repo, home room) []room {
	all := neighbours(r, home)
	return slices.DeleteFunc(slices.Clone(all), func(n room) bool {
		return slices.ContainsFunc(all, func(between room) bool { return knows(r, between, n) })
	})
}

// knows reports whether one room builds on another, directly or through others.
func knows(r *repo, home, other room) bool {
	return slices.ContainsFunc(neighbours(r, home), func(n room) bool {
		return n.name == other.name || knows(r, n, other)
	})
}

func mark(home room) string {
	if home.pure {
		return " pure"
	}
	return ""
}

var subject = regexp.MustCompile(`^(Package|Command) \w+ `)

// job is the first sentence of a package's comment, without its subject.
func job(p *pkg) string {
	for _, f := range p.files {
		if f.Doc == nil {
			continue
		}
		sentence := new(doc.Package).Synopsis(f.Doc.Text())
		return strings.ReplaceAll(subject.ReplaceAllString(sentence, ""), "|", "\\|")
	}
	return ""
}
