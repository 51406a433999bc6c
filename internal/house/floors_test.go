package house

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// room is one package and what it may know. A room that is not built yet keeps
// its place in the table.
type room struct {
	floor int
	name  string   // its path below internal/, or from the root for a command
	pure  bool     // no clock, no chance, no file, no network, no goroutine
	may   string   // rooms of the house it may import
	uses  []string // modules from outside it may import
}

const (
	canon  = "github.com/go-json-experiment/json"
	schema = "github.com/google/jsonschema-go"
	glob   = "github.com/bmatcuk/doublestar/v4"
	yaml   = "go.yaml.in/yaml/v3"
	pebble = "github.com/cockroachdb/pebble/v2"
	term   = "golang.org/x/term"
	unix   = "golang.org/x/sys/unix"
	zstd   = "github.com/klauspost/compress"
	uuid   = "github.com/google/uuid"
	cobra  = "github.com/spf13/cobra"
	cmp    = "github.com/google/go-cmp"
	pflag  = "github.com/spf13/pflag"
	sh     = "mvdan.cc/sh/v3"
	web    = "golang.org/x/net"
	oauth  = "golang.org/x/oauth2"
	rate   = "golang.org/x/time"
	rapid  = "pgregory.net/rapid"
	claude = "github.com/anthropics/anthropic-sdk-go/v2"
	gpt    = "github.com/openai/openai-go/v3"
	cel    = "cel.dev/cel-go"
	mcpSDK = "github.com/modelcontextprotocol/go-sdk"

	everyone = "*"
	machines = "machine machine/session machine/agent machine/turn machine/tool " +
		"machine/plan machine/workflow machine/stage machine/thread machine/project"
)

// floors is the house. An import that is not written here fails the build.
var floors = []room{
	{floor: 0, name: "machine", pure: true},
	{floor: 0, name: "model", pure: true},

	{floor: 1, name: "machine/session", pure: true, may: "machine model"},
	{floor: 1, name: "machine/agent", pure: true, may: "machine model"},
	{floor: 1, name: "machine/turn", pure: true, may: "machine model"},
	{floor: 1, name: "machine/tool", pure: true, may: "machine model"},
	{floor: 1, name: "machine/plan", pure: true, may: "machine model"},
	{floor: 1, name: "machine/workflow", pure: true, may: "machine model"},
	{floor: 1, name: "machine/stage", pure: true, may: "machine model"},
	{floor: 1, name: "machine/thread", pure: true, may: "machine model"},
	{floor: 1, name: "machine/project", pure: true, may: "machine model"},

	{floor: 2, name: "runelog", pure: true, may: "machine", uses: []string{canon, zstd}},
	{floor: 2, name: "policy", pure: true, may: "machine machine/tool machine/stage", uses: []string{canon, glob, yaml, sh}},

	{floor: 2, name: "workflow", pure: true, may: "model", uses: []string{canon, yaml, cel, schema}},

	{floor: 3, name: "world", pure: true, may: machines + " model runelog policy", uses: []string{canon}},

	{floor: 4, name: "toolbox", may: "model policy " + machines, uses: []string{canon, schema, glob, unix, web}},
	{floor: 4, name: "engine", may: machines + " model runelog policy world toolbox secret workflow", uses: []string{canon, uuid}},
	{floor: 4, name: "hooks", may: "machine/tool", uses: []string{canon, glob}},
	{floor: 4, name: "secret"},

	{floor: 5, name: "runelog/memory", may: "runelog"},
	{floor: 5, name: "runelog/pebble", may: "runelog", uses: []string{canon, pebble}},
	{floor: 5, name: "model/script", may: "model", uses: []string{canon, yaml}},
	{floor: 4, name: "model/sse", may: "model"},
	{floor: 4, name: "model/codec", may: "model"},
	{floor: 5, name: "model/anthropic", may: "model model/codec model/sse"},
	{floor: 5, name: "model/openai", may: "model model/codec model/sse"},
	{floor: 5, name: "model/gemini", may: "model model/codec model/sse"},
	{floor: 5, name: "model/catalog", may: "model", uses: []string{yaml}},
	{floor: 5, name: "model/queue", may: "model", uses: []string{rate}},
	{floor: 5, name: "model/wire", may: "model model/codec"},
	{floor: 5, name: "toolbox/sandbox", uses: []string{unix}},
	{floor: 5, name: "toolbox/supervisor", uses: []string{unix}},
	{floor: 5, name: "checkpoint", may: "runelog machine/session"},
	{floor: 5, name: "mcp", may: "toolbox model", uses: []string{canon, mcpSDK, oauth, unix}},
	{floor: 5, name: "acp", may: "model machine world"},
	{floor: 5, name: "config", may: "model policy", uses: []string{yaml}},

	{floor: 6, name: "api", may: "engine world runelog machine model"},
	{floor: 6, name: "tui", may: "engine world runelog machine model"},

	{floor: 7, name: "conformance", may: "runelog model", uses: []string{canon, cmp}},
	{floor: 7, name: "crash", may: everyone},
	{floor: 7, name: "bench", may: everyone},
	{floor: 7, name: "bench/floor"},
	{floor: 7, name: "house"},
	{floor: 7, name: "cmd/stave", may: everyone, uses: []string{canon, cobra, pflag, term, unix, yaml}},
}

// forbidden are the doors to the world outside that a pure room does not have.
var forbidden = []string{"os", "net", "math/rand", "crypto/rand", "syscall", "unsafe", "log", "sync", "runtime"}

// clocks are the functions of package time that ask the machine what time it is.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

func (r room) dir() string {
	if strings.HasPrefix(r.name, "cmd/") {
		return r.name
	}
	return "internal/" + r.name
}

// allows reports whether the room may import the path.
func (r room) allows(imported string) bool {
	inside, ours := strings.CutPrefix(imported, module)
	switch {
	case ours:
		neighbour := strings.TrimPrefix(inside, "internal/")
		return r.may == everyone || slices.Contains(strings.Fields(r.may), neighbour)
	case standard(imported):
		return !r.pure || !slices.ContainsFunc(forbidden, func(door string) bool { return within(imported, door) })
	default:
		return slices.ContainsFunc(r.uses, func(m string) bool { return within(imported, m) })
	}
}

// standard reports whether a path is of the standard library: its first element
// is no host name.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func within(imported, tree string) bool {
	return imported == tree || strings.HasPrefix(imported, tree+"/")
}

func findRoom(dir string) (room, bool) {
	i := slices.IndexFunc(floors, func(r room) bool { return r.dir() == dir })
	if i < 0 {
		return room{}, false
	}
	return floors[i], true
}

// TestAllows shows what the table's columns mean.
func TestAllows(t *testing.T) {
	pure := room{pure: true, may: "machine", uses: []string{canon}}
	free := room{}
	for _, c := range []struct {
		home     room
		imported string
		want     bool
	}{
		{pure, "stave/internal/machine", true},
		{pure, "stave/internal/machine/turn", false},
		{pure, "slices", true},
		{pure, "time", true},
		{pure, "os", false},
		{pure, "os/exec", false},
		{pure, "math/rand/v2", false},
		{pure, "math", true},
		{pure, canon + "/jsontext", true},
		{pure, canon + "-other", false},
		{free, "os", true},
		{free, "stave/internal/machine", false},
		{free, canon, false},
	} {
		if got := c.home.allows(c.imported); got != c.want {
			t.Errorf("pure %t: allows(%s) = %t, want %t", c.home.pure, c.imported, got, c.want)
		}
	}
}

// TestFloors shows that every package has a place in the house and imports only
// what its place allows.
func TestFloors(t *testing.T) {
	r := open(t)
	for _, dir := range slices.Sorted(maps.Keys(r.packages)) {
		home, ok := findRoom(dir)
		if !ok {
			t.Errorf("%s has no place in the table of floors", dir)
			continue
		}
		for f := range r.packages[dir].shipped {
			for imported, spec := range f.imports {
				if !home.allows(imported) {
					t.Errorf("%s: %s (floor %d) may not import %s", r.at(f, spec), home.name, home.floor, imported)
				}
			}
		}
	}
}

// TestFloorsPointDown shows that the table itself lets no room know a higher floor.
func TestFloorsPointDown(t *testing.T) {
	for _, r := range floors {
		if r.may == everyone {
			continue
		}
		for _, name := range strings.Fields(r.may) {
			below, ok := findRoom(room{name: name}.dir())
			if !ok {
				t.Errorf("%s may import %s, which is no room", r.name, name)
			} else if below.floor > r.floor {
				t.Errorf("%s on floor %d may not know %s on floor %d", r.name, r.floor, name, below.floor)
			}
		}
	}
}

// TestModulesAreUsed shows that no room keeps leave to import a module it no
// longer needs.
func TestModulesAreUsed(t *testing.T) {
	r := open(t)
	for _, home := range floors {
		p := r.packages[home.dir()]
		if p == nil {
			continue
		}
		unused := slices.Clone(home.uses)
		for f := range p.shipped {
			for imported := range f.imports {
				unused = slices.DeleteFunc(unused, func(m string) bool { return within(imported, m) })
			}
		}
		if len(unused) > 0 {
			t.Errorf("%s may import %s and does not; drop it from the table", home.name, strings.Join(unused, ", "))
		}
	}
}

// TestPureRoomsAskNobody shows that pure rooms neither read a clock nor start a
// goroutine, so that replay gives the same world every time.
func TestPureRoomsAskNobody(t *testing.T) {
	r := open(t)
	for _, home := range floors {
		p := r.packages[home.dir()]
		if !home.pure || p == nil {
			continue
		}
		for f := range p.shipped {
			clock := localName(f, "time")
			for n := range ast.Preorder(f.File) {
				if _, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%s: a pure room starts a goroutine", r.at(f, n))
				}
				if sel, ok := n.(*ast.SelectorExpr); ok && isName(sel.X, clock) && slices.Contains(clocks, sel.Sel.Name) {
					t.Errorf("%s: a pure room calls time.%s", r.at(f, n), sel.Sel.Name)
				}
			}
		}
	}
}

// localName is what a file calls a package it imports, empty if it does not.
func localName(f goFile, imported string) string {
	for p, spec := range f.imports {
		if p == imported && spec.Name != nil {
			return spec.Name.Name
		}
		if p == imported {
			return path.Base(p)
		}
	}
	return ""
}

func isName(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && name != "" && id.Name == name
}
