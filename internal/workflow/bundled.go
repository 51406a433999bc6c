package workflow

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed bundled
var bundled embed.FS

//go:embed starter.yaml
var starter string

// Bundled returns the workflows that come with the program, by name.
func Bundled() []Definition {
	dir, err := fs.Sub(bundled, "bundled")
	if err != nil {
		panic(err)
	}
	all, err := LoadDir(dir)
	if err != nil {
		panic(fmt.Sprintf("the bundled workflows are wrong: %v", err))
	}
	return all
}

// Source is the text of a bundled workflow and its file's name, for those who
// want to change one.
func Source(id string) (file string, text []byte, ok bool) {
	for _, ext := range []string{".yaml", ".md"} {
		if b, err := bundled.ReadFile("bundled/" + id + ext); err == nil {
			return id + ext, b, true
		}
	}
	return "", nil, false
}

// New is a file to start a workflow from; it passes every check as it is. The name
// has to pass CheckID.
func New(name string) []byte {
	return []byte(strings.ReplaceAll(starter, "NAME", name))
}
