package mcp

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// TestWrap shows that a server whose walls cannot be built is not started, that
// the files of walls reach the program and not the next one, and that everything
// is cleared up once for each start.
func TestWrap(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Servers: map[string]Server{"fake": {Type: typeStdio, Command: self, Env: map[string]string{fakeVar: "environment"}}}}
	var refuse atomic.Bool
	var built, released atomic.Int32
	refuse.Store(true)
	wrap := func(name string, s Server, c Command) (Command, error) {
		if name != "fake" || s.Command != self || len(c.Programs) != 1 || c.Programs[0] != self {
			t.Errorf("%s, %+v, %+v", name, s, c)
		}
		built.Add(1)
		c.Release = func() { released.Add(1) }
		r, w, err := os.Pipe()
		if err != nil {
			return c, err
		}
		w.Close()
		c.Files = []*os.File{r}
		c.Argv = append([]string{"/bin/sh", "-c", `cat <&3 && exec "$@" 3<&-`, "sh"}, c.Argv...)
		if refuse.Load() {
			return c, errors.New("no bricks")
		}
		return c, nil
	}
	s := open1(t, c, Options{Wrap: wrap, Walls: func(string, Server) string { return "thick" }})
	st := s.await("fake", is(NeedsApproval))
	if st.Walls != "thick" || built.Load() != 0 {
		t.Errorf("before approval: %+v, built %d", st, built.Load())
	}
	if err := s.ApproveServer("fake", st.Review.Digest); err != nil {
		t.Fatal(err)
	}
	if st := s.await("fake", is(Failed)); !strings.Contains(st.Why, "building walls around it: no bricks") {
		t.Errorf("refused: %+v", st)
	}
	refuse.Store(false)
	if err := s.Reconnect("fake"); err != nil {
		t.Fatal(err)
	}
	s.await("fake", is(Connected))
	s.Close()
	if built.Load() < 2 || built.Load() != released.Load() {
		t.Errorf("built %d, released %d", built.Load(), released.Load())
	}
}

// TestWallsOfConfig shows what can be said about walls, and that all of it is part
// of what a person approves.
func TestWallsOfConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"command":"x","sandbox":"thick"}`:                                      `sandbox "thick" is none of`,
		`{"command":"x","read":["a"]}`:                                           `read: "a" must be an absolute path`,
		`{"command":"x","write":["~"]}`:                                          `write: "~" must be`,
		`{"command":"x","write":["/a/../b"]}`:                                    `write: "/a/../b" must be`,
		`{"command":"x","read":["~/../b"]}`:                                      `read: "~/../b" must be`,
		`{"url":"https://x","network":false}`:                                    "belong to a command",
		`{"url":"https://x","sandbox":"off"}`:                                    "belong to a command",
		`{"command":"x","read":["` + strings.Repeat(`/a","`, maxPaths) + `/a"]}`: "at most",
	} {
		if _, err := Load("f", []byte(`{"mcpServers":{"a":`+text+`}}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	digests := map[string]string{}
	for _, text := range []string{``, `,"sandbox":"off"`, `,"network":false`, `,"read":["~/a"]`, `,"write":["~/a"]`} {
		c, err := Load("f", []byte(`{"mcpServers":{"a":{"command":"/bin/sh"`+text+`}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if s := c.Servers["a"]; s.Online() == (s.Network != nil) {
			t.Errorf("%s: online %v", text, s.Online())
		}
		id, err := identify(c.Servers["a"], "")
		if err != nil {
			t.Fatal(err)
		}
		shown, err := id.text()
		if err != nil {
			t.Fatal(err)
		}
		if before, twice := digests[string(shown)]; twice {
			t.Errorf("%q and %q look the same: %s", before, text, shown)
		}
		digests[string(shown)] = text
	}
}
