package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoad(t *testing.T) {
	const text = `{"mcpServers": {
		"files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}, "cwd": "/tmp", "read_only": true},
		"my_web-2": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "timeout_seconds": 5},
		"dev": {"type": "sse", "url": "http://localhost:3000/sse", "disabled": true}
	}}`
	got, err := Load("mcp.json", []byte(text))
	want := Config{Servers: map[string]Server{
		"files":    {Type: "stdio", Command: "npx", Args: []string{"-y", "x"}, Env: map[string]string{"A": "1"}, Cwd: "/tmp", ReadOnly: true},
		"my_web-2": {URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}, TimeoutSeconds: 5},
		"dev":      {Type: "sse", URL: "http://localhost:3000/sse", Disabled: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestLoadRefuses(t *testing.T) {
	server := func(s string) string { return `{"mcpServers":{"x":` + s + `}}` }
	named := func(name string) string { return `{"mcpServers":{"` + name + `":{"command":"a"}}}` }
	for text, want := range map[string]string{
		`{`:                       "not valid JSON",
		`{}`:                      `no "mcpServers"`,
		`[]`:                      "the file must not be a JSON [",
		`{"mcpservers":{}}`:       `"mcpservers" is not a setting`,
		`{"mcpServers":{},"a":1}`: `"a" is not a setting`,
		server(`{}`):              `either "command" or "url"`,
		server(`{"command":"a","url":"https://b"}`):               `either "command" or "url"`,
		server(`{"Command":"a"}`):                                 `"mcpServers.x.Command" is not a setting`,
		server(`{"command":"a","command":"b"}`):                   "given twice",
		server(`{"command":"a","autoApprove":["*"]}`):             `"mcpServers.x.autoApprove" is not a setting`,
		server(`{"command":["a"]}`):                               `"mcpServers.x.command" must not be a JSON [`,
		server(`{"command":"a","headers":{"a":"b"}}`):             "belong to a url",
		server(`{"command":"a","cwd":"b"}`):                       "absolute path",
		server(`{"command":"a","env":{"A=B":"c"}}`):               "env",
		server(`{"command":"a","type":"http"}`):                   "does not go with a command",
		server(`{"command":"a","traits":["harmless"]}`):           "none of private",
		server(`{"command":"a","timeout_seconds":-1}`):            "timeout_seconds",
		server(`{"command":"a\u0000b"}`):                          "NUL",
		server(`{"url":"https://b","args":["x"]}`):                "belong to a command",
		server(`{"url":"ftp://b"}`):                               "must begin with https",
		server(`{"url":"https://u:p@b"}`):                         "must not hold a name or password",
		server(`{"url":"http://example.com"}`):                    "insecure_http",
		server(`{"url":"https://b","headers":{"a":"b\r\nc: d"}}`): "cannot be sent",
		server(`{"url":"https://b","type":"stdio"}`):              "does not go with a url",
		named("a__b"):                         "a name has",
		named("a_"):                           "a name has",
		named("_a"):                           "a name has",
		named(""):                             "a name has",
		named("a b"):                          "a name has",
		named("ä"):                            "a name has",
		named(strings.Repeat("a", 40)):        "a name has",
		strings.Repeat(" ", maxConfigBytes+1): "at most",
	} {
		if _, err := Load("some/mcp.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "some/mcp.json") {
			t.Errorf("loading %.100s: %v, want %q", text, err, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"b","env":{"C":"${D}"}}}}`))
	f.Add([]byte(`{"mcpServers":{"a":{"url":"https://b/c"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Load("f", text)
		if err != nil {
			return
		}
		for name, s := range c.Servers {
			// The first two underscores always end the server's name.
			if got, _, ok := strings.Cut(exposedName(name, "_x__y"), "__"); !ok || got != name {
				t.Errorf("%q cannot be told from its tool", name)
			}
			if (s.Command == "") == (s.URL == "") {
				t.Errorf("%q has neither or both ways", name)
			}
		}
	})
}

func TestFill(t *testing.T) {
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"A": "1", "NEST": "${A}", "BAD": "x\ny"}[name]
		return v, ok
	}
	for text, want := range map[string]string{
		"plain $A $(id) `id`": "plain $A $(id) `id`",
		"${A}-${A}":           "1-1",
		"${NEST}":             "${A}",
		"${B}":                "!not set",
		"${A":                 "!must be followed",
		"${A:-x}":             "!must be followed",
		"${BAD}":              "!line break",
	} {
		got, err := fill(text, lookup)
		if err != nil {
			got = "!" + err.Error()
		}
		if got != want && !(strings.HasPrefix(want, "!") && strings.Contains(got, want[1:])) {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestFilePins(t *testing.T) {
	// Pins survive, are private, and a damaged file is an error instead of a
	// forgotten approval.
	file := filepath.Join(t.TempDir(), "a", "pins.json")
	pin := Pin{Identity: Approved{"d", []byte(`{"a":1}`)}, Tools: map[string]Approved{"t": {"e", []byte(`{"b":2}`)}}}
	if err := NewFilePins(file).Save("s", pin); err != nil {
		t.Fatal(err)
	}
	if err := NewFilePins(file).Save("other", Pin{}); err != nil {
		t.Fatal(err)
	}
	got, err := NewFilePins(file).Load("s")
	if err != nil || got.Tools["t"].Digest != "e" || got.Identity.Digest != "d" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := NewFilePins(file).Load("unknown"); err != nil || got.Identity.Digest != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the file there is %v, %v", left, err)
	}
	for _, damage := range []string{`{"version":1,"servers":{"s":`, `{"version":2,"servers":{}}`, `{"version":1,"servers":{},"servers":{}}`} {
		if err := os.WriteFile(file, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := NewFilePins(file).Load("s"); err == nil {
			t.Errorf("%s was read without complaint", damage)
		}
		if err := NewFilePins(file).Save("s", pin); err == nil {
			t.Errorf("%s was overwritten", damage)
		}
	}
}
