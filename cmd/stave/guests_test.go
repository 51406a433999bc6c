package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stave/internal/config"
	"stave/internal/machine/tool"
	"stave/internal/mcp"
	"stave/internal/toolbox/sandbox"
)

// realDir is a fresh directory by its real path.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// hookProbe tries what a hook should not do and refuses with what came of it.
const hookProbe = `cat >/dev/null
said="in:$(cat "$1/desk/in" 2>/dev/null)"
cat "$1/secret" >/dev/null 2>&1 && said="$said read"
echo x >"$1/out" 2>/dev/null
echo x >"$1/desk/new" 2>/dev/null
(exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null && said="$said dial"
case $HOME in "$3") said="$said home" ;; esac
printf '{"decision":"deny","reason":"%s"}\n' "$said"
`

// TestHookWalls shows that at every level a hook sees the workspace and nothing
// else of the person's, changes nothing and reaches nobody, that the walls can be
// opened one by one, and that the probe finds what there is to find without walls.
func TestHookWalls(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	all := "in:here read dial home"
	type effects struct{ out, in bool }
	check := func(name string, w hookWalls, more []string, said string, want effects) {
		root := realDir(t)
		for file, text := range map[string]string{"desk/in": "here", "secret": "s", "probe.sh": hookProbe} {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range more {
			w.read, w.write = append(w.read, filepath.Join(root, path)), append(w.write, filepath.Join(root, path))
		}
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		h, err := newHooks("", []config.Hook{{Name: "probe", Kind: "guard", Argv: []string{"bash", filepath.Join(root, "probe.sh"), root, port, home}, Timeout: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		h.walls["probe"] = w
		if err := h.enter(filepath.Join(root, "desk")); err != nil {
			t.Fatal(err)
		}
		verdicts := h.Guard(t.Context(), tool.Call{CallID: "c", Tool: "Write", Arguments: json.RawMessage(`{}`)})
		if len(verdicts) != 1 || verdicts[0].Reason != said {
			t.Errorf("%s: %+v, want %q", name, verdicts, said)
		}
		_, outErr := os.Stat(filepath.Join(root, "out"))
		_, inErr := os.Stat(filepath.Join(root, "desk/new"))
		if got := (effects{outErr == nil, inErr == nil}); got != want {
			t.Errorf("%s: written %+v, want %+v", name, got, want)
		}
	}
	check("off", hookWalls{level: "off"}, nil, all, effects{true, true})
	for _, f := range detected() {
		if f.Level == sandbox.Off || !f.OK {
			continue
		}
		level := string(f.Level)
		check(level, hookWalls{level: level}, nil, "in:here", effects{})
		check(level+" with network", hookWalls{level: level, network: true}, nil, "in:here dial", effects{})
		check(level+" that may change the workspace", hookWalls{level: level, change: true}, nil, "in:here", effects{in: true})
		check(level+" with a file", hookWalls{level: level}, []string{"secret"}, "in:here read", effects{})
		check(level+" with all", hookWalls{level: level, network: true, change: true}, []string{""}, "in:here read dial", effects{true, true})
	}
	if best := detected().Best(); best != sandbox.Off {
		check("usual", hookWalls{}, nil, "in:here", effects{})
	}
}

// TestHookWithoutWalls shows that a guard whose walls cannot be built refuses.
func TestHookWithoutWalls(t *testing.T) {
	h, err := newHooks(realDir(t), []config.Hook{{Name: "g", Kind: "guard", Argv: []string{"sh", "-c", `echo '{"decision":"allow"}'`}, Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	h.walls["g"] = hookWalls{level: "none-such"}
	verdicts := h.Guard(t.Context(), tool.Call{CallID: "c", Tool: "Write", Arguments: json.RawMessage(`{}`)})
	if len(verdicts) != 1 || verdicts[0].Answer != tool.Refuse || !strings.Contains(verdicts[0].Reason, "its walls: ") {
		t.Errorf("%+v", verdicts)
	}
	none := func() sandbox.Report {
		return sandbox.Report{{Level: sandbox.Off, OK: true}, {Level: sandbox.Landlock}, {Level: sandbox.Bwrap}}
	}
	for _, level := range []string{"", "auto", "bwrap", "landlock"} {
		if l, err := (guest{level: level, workspace: realDir(t), argv: []string{"/bin/true"}, dir: "/"}).launch(none); err == nil {
			t.Errorf("level %q: %v", level, l.Argv)
		}
	}
}

// TestServerFromNpm shows that a server that has to be fetched first starts with
// nothing said about its walls, works in the workspace, and leaves no trace in the
// person's home.
func TestServerFromNpm(t *testing.T) {
	if testing.Short() {
		t.Skip("programs from npm are not installed with -short")
	}
	data, work := realDir(t), realDir(t)
	t.Setenv("HOME", realDir(t)) // which must stay empty
	s := &servers{data: data, own: mcp.Config{Servers: map[string]mcp.Server{
		"files": {Type: "stdio", Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "."}},
	}}}
	if err := s.enter(work, nil); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	hub := s.start(ctx)
	state := hub.State()[0]
	if state.Review == nil || !strings.HasSuffix(state.Walls, ", network") {
		t.Fatalf("%+v", state)
	}
	if err := hub.ApproveServer("files", state.Review.Digest); err != nil {
		t.Fatal(err)
	}
	for state.Status != mcp.Connected {
		if ctx.Err() != nil {
			t.Fatalf("%+v", state)
		}
		time.Sleep(50 * time.Millisecond)
		state = hub.State()[0]
	}
	if !slices.ContainsFunc(state.Tools, func(t mcp.ToolState) bool { return t.Name == "files__write_file" }) {
		t.Errorf("%+v", state.Tools)
	}
	if _, err := os.Stat(filepath.Join(data, homesName, "files", ".npm")); err != nil {
		t.Errorf("what was fetched is not in the server's own home: %v", err)
	}
	if left, err := os.ReadDir(os.Getenv("HOME")); err != nil || len(left) > 0 {
		t.Errorf("the person's home holds %v, %v", left, err)
	}
}

// TestProgramPaths shows what a program gets to see for its own sake: packages as
// a whole, programs on the PATH, and never the directories that hold the person's
// own files.
func TestProgramPaths(t *testing.T) {
	root := realDir(t)
	home := filepath.Join(root, "home")
	script := filepath.Join(home, "tools/lib/node_modules/npm/bin/cli.js")
	bin := filepath.Join(home, "tools/bin")
	for _, dir := range []string{filepath.Dir(script), bin} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(script, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(script, filepath.Join(bin, "npx")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", fmt.Sprintf("%s:/usr/bin:%s:%s:relative:/", bin, home, root))
	got := programPaths([]string{filepath.Join(bin, "npx")}, home)
	want := []string{"/usr/bin", bin, filepath.Join(bin, "npx"), filepath.Join(home, "tools/lib/node_modules")}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
