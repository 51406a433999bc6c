package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stave/internal/model"
)

func TestLoad(t *testing.T) {
	c, err := Load("config.yaml", []byte(`
model: anthropic/claude
mode: allowlist
network: false
budget: {usd: 1.5, tokens: 1000, wall: 10m}
providers:
  local: {kind: openai-chat, base_url: "http://127.0.0.1:8080/v1"}
hooks:
  - {name: lint, kind: guard, command: [./lint], tools: [Write], timeout: 5s}
queue:
  anthropic: {concurrency: 4, per_minute: 50}
`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (model.Amount{MicroUSD: 1_500_000, Tokens: 1000, WallMs: 600_000}); c.Budget.Amount != want {
		t.Errorf("budget %+v", c.Budget)
	}
	if c.Mode != "allowlist" || c.Services["local"].Kind != "openai-chat" || c.Hooks[0].Timeout.Seconds() != 5 || c.Lanes["anthropic"].Concurrency != 4 {
		t.Errorf("%+v", c)
	}
}

func TestLoadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"mode: ask\nmodle: x":                         `config.yaml: line 2: the file has no field "modle"; write some of: answer_within, budget, hooks, limits, memory, mode, model, network, providers, queue, read_only, sandbox`,
		"\nproviders: {a: {knd: x}}":                  `line 2: a provider has no field "knd"; write some of: base_url, key_env, key_file, kind`,
		"hooks:\n- nam: x":                            `line 2: a hook has no field "nam"; write some of: command, kind, name, network, read, sandbox, timeout, tools, workspace, write`,
		"queue: {a: {x: 1, concurrency: a}}":          "line 1: a queue has no field \"x\"; write some of: concurrency, per_minute; line 1: `a` does not fit here; write a whole number",
		"read_only: maybe":                            "line 1: `maybe` does not fit here; write true or false",
		"hooks: x":                                    "`x` does not fit here; write a list",
		"mode: [a]":                                   "line 1: a list does not fit here; write a text",
		"network: {a: b}":                             "a mapping does not fit here; write true or false",
		"hooks: [{timeout: soon}]":                    "write a time such as 10m",
		"queue: {a: {per_minute: x}}":                 "write a number",
		"- a":                                         "a list does not fit here; write a mapping of fields",
		"budget: [a, b]":                              "a list does not fit here; write a mapping of fields",
		"mode: ask\nmode: yolo":                       `line 2: mapping key "mode" already defined at line 1`,
		strings.Repeat("x", 100) + ": 1":              `no field "` + strings.Repeat("x", maxQuoted) + `…";`,
		"mode: maybe":                                 `mode: "maybe" is not known; write one of: ask, allowlist, yolo`,
		"sandbox: hard":                               `sandbox: "hard" is not known`,
		"budget: {usd: 1.0000001}":                    "a millionth of a dollar",
		"budget: {usd: lots}":                         "write dollars as 1.50",
		"budget: {tokens: -1}":                        "a limit is not below zero",
		"budget: {dollars: 1}":                        `line 1: budget has no field "dollars"; write some of: agents, model_calls, tokens, tool_calls, usd, wall`,
		"providers: {a/b: {kind: openai}}":            "a name has letters",
		"providers: {a: {}}":                          "providers.a.kind is missing",
		"providers: {a: {kind: x}}":                   `"x" is not known`,
		"hooks: [{name: a, kind: guard}]":             "command is missing",
		"hooks: [{kind: guard, command: [x]}]":        "name is missing",
		"hooks: [{name: a, kind: spy, command: [x]}]": `"spy" is not known`,
		"queue: {a: {concurrency: -1}}":               "not below zero",
		"answer_within: -1s":                          "answer_within: -1s: a question waits at least 1ms; 0 is for ever",
		"answer_within: 1us":                          "a question waits at least 1ms",
		"answer_within: soon":                         "write a time such as 10m",
		"limits: {processes: -1}":                     "limits: a limit is not below zero",
		"limits: {cpu: 1ms}":                          "limits: cpu is at least 1s",
		"limits: {procs: 1}":                          `limits has no field "procs"; write some of: cpu, file_mb, memory_mb, open_files, processes`,
		"hooks: [{name: a, kind: guard, command: [x], sandbox: thick}]":  `a: sandbox: "thick" is not known`,
		"hooks: [{name: a, kind: guard, command: [x], workspace: all}]":  `a: workspace: "all" is not known; write one of: read, write`,
		"hooks: [{name: a, kind: guard, command: [x], read: [../x]}]":    `"../x" is not a whole path`,
		"hooks: [{name: a, kind: guard, command: [x], write: [~/../x]}]": `"~/../x" is not a whole path`,
		"a: 1\n---\nb: 2":              "no field",
		"mode: ask\n---\nmode: ask":    "second document",
		"[":                            "config.yaml",
		strings.Repeat("#", maxFile+1): "at most",
		"providers: {a: {kind: openai, key_env: A, key_file: b}}": "two keys",
	} {
		if _, err := Load("config.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "config.yaml: ") {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	if c, err := Load("config.yaml", nil); err != nil || c.Mode != "" {
		t.Errorf("an empty file: %+v, %v", c, err)
	}
}

// TestTighten shows that a project never widens what a person allows.
func TestTighten(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name         string
		mine, theirs Config
		refused      bool
		check        func(Config) bool
	}{
		{"nothing", Config{Mode: "yolo"}, Config{}, false, func(c Config) bool { return c.Mode == "yolo" }},
		{"stricter mode", Config{Mode: "yolo"}, Config{Mode: "ask"}, false, func(c Config) bool { return c.Mode == "ask" }},
		{"looser mode", Config{Mode: "ask"}, Config{Mode: "yolo"}, true, nil},
		{"looser than the default", Config{}, Config{Mode: "yolo"}, true, nil},
		{"from allowlist to ask", Config{Mode: "allowlist"}, Config{Mode: "ask"}, true, nil},
		{"from allowlist to yolo", Config{Mode: "allowlist"}, Config{Mode: "yolo"}, true, nil},
		{"from ask to allowlist", Config{Mode: "ask"}, Config{Mode: "allowlist"}, false, func(c Config) bool { return c.Mode == "allowlist" }},
		{"from the default to allowlist", Config{}, Config{Mode: "allowlist"}, false, func(c Config) bool { return c.Mode == "allowlist" }},
		{"from yolo to allowlist", Config{Mode: "yolo"}, Config{Mode: "allowlist"}, false, func(c Config) bool { return c.Mode == "allowlist" }},
		{"the same mode", Config{Mode: "allowlist"}, Config{Mode: "allowlist"}, false, func(c Config) bool { return c.Mode == "allowlist" }},
		{"from bwrap to auto", Config{Sandbox: "bwrap"}, Config{Sandbox: "auto"}, true, nil},
		{"from auto to bwrap", Config{}, Config{Sandbox: "bwrap"}, false, func(c Config) bool { return c.Sandbox == "bwrap" }},
		{"read only", Config{}, Config{ReadOnly: true}, false, func(c Config) bool { return c.ReadOnly }},
		{"keeps read only", Config{ReadOnly: true}, Config{}, false, func(c Config) bool { return c.ReadOnly }},
		{"network on", Config{}, Config{Network: &yes}, true, nil},
		{"network off", Config{Network: &yes}, Config{Network: &no}, false, func(c Config) bool { return !*c.Network }},
		{"weaker sandbox", Config{}, Config{Sandbox: "off"}, true, nil},
		{"stronger sandbox", Config{Sandbox: "off"}, Config{Sandbox: "bwrap"}, false, func(c Config) bool { return c.Sandbox == "bwrap" }},
		{"smaller budget", Config{Budget: Budget{model.Amount{Tokens: 10}}}, Config{Budget: Budget{model.Amount{Tokens: 5}}}, false, func(c Config) bool { return c.Budget.Tokens == 5 }},
		{"larger budget", Config{Budget: Budget{model.Amount{Tokens: 10}}}, Config{Budget: Budget{model.Amount{Tokens: 50, ToolCalls: 3}}}, false, func(c Config) bool {
			return c.Budget.Amount == model.Amount{Tokens: 10, ToolCalls: 3}
		}},
		{"stricter limits", Config{Limits: Limits{Processes: 10, CPU: 5}}, Config{Limits: Limits{Processes: 5, FileMB: 1, MemoryMB: 7}}, false, func(c Config) bool {
			return c.Limits == Limits{Processes: 5, OpenFiles: UsualLimits.OpenFiles, FileMB: 1, MemoryMB: 7, CPU: 5}
		}},
		{"looser limits", Config{Limits: Limits{Processes: 10}}, Config{Limits: Limits{Processes: 50, OpenFiles: 1 << 30}}, false, func(c Config) bool {
			return c.Limits == Limits{Processes: 10, OpenFiles: UsualLimits.OpenFiles, FileMB: UsualLimits.FileMB}
		}},
		{"a shorter wait", Config{AnswerWithin: time.Hour}, Config{AnswerWithin: time.Minute}, false, func(c Config) bool { return c.AnswerWithin == time.Minute }},
		{"a longer wait", Config{AnswerWithin: time.Minute}, Config{AnswerWithin: time.Hour}, false, func(c Config) bool { return c.AnswerWithin == time.Minute }},
		{"a wait where there is none", Config{}, Config{AnswerWithin: time.Hour}, false, func(c Config) bool { return c.AnswerWithin == time.Hour }},
		{"keeps the wait", Config{AnswerWithin: time.Hour}, Config{}, false, func(c Config) bool { return c.AnswerWithin == time.Hour }},
		{"model", Config{}, Config{Model: "x"}, true, nil},
		{"providers", Config{}, Config{Services: map[string]Service{"x": {}}}, true, nil},
		{"hooks", Config{}, Config{Hooks: []Hook{{}}}, true, nil},
		{"queue", Config{}, Config{Lanes: map[string]LaneSize{"x": {}}}, true, nil},
		{"memory", Config{}, Config{Memory: true}, true, nil},
	} {
		got, err := c.mine.Tighten(c.theirs)
		if (err != nil) != c.refused || err == nil && !c.check(got) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// TestLoosened shows that whatever goes beyond a project's wishes is named, and
// nothing else: what Tighten makes of any settings never is.
func TestLoosened(t *testing.T) {
	yes, no := true, false
	wish := Config{Mode: "ask", Sandbox: "bwrap", Network: &no, Budget: Budget{model.Amount{Tokens: 10}}}
	for _, c := range []struct {
		name    string
		inForce Config
		want    string
	}{
		{"all as wished", wish, ""},
		{"stricter", Config{Mode: "allowlist", Sandbox: "bwrap", Network: &no, Budget: Budget{model.Amount{Tokens: 5}}}, ""},
		{"yolo", Config{Mode: "yolo", Sandbox: "bwrap", Budget: wish.Budget}, "mode: ask"},
		{"no walls", Config{Sandbox: "off", Budget: wish.Budget}, "sandbox: bwrap"},
		{"the usual walls", Config{Budget: wish.Budget}, "sandbox: bwrap"},
		{"network", Config{Sandbox: "bwrap", Network: &yes, Budget: wish.Budget}, "network: false"},
		{"more tokens", Config{Sandbox: "bwrap", Budget: Budget{model.Amount{Tokens: 11}}}, "budget"},
		{"no limit", Config{Sandbox: "bwrap"}, "budget"},
		{"everything", Config{Mode: "yolo", Sandbox: "off", Network: &yes}, "mode: ask, sandbox: bwrap, network: false, budget"},
	} {
		if got := strings.Join(c.inForce.Loosened(wish), ", "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for _, mine := range []Config{{}, {Mode: "yolo", Sandbox: "off", Network: &yes}, {Mode: "yolo", Budget: Budget{model.Amount{Tokens: 99}}}} {
		if tight, err := mine.Tighten(wish); err != nil || len(tight.Loosened(wish)) > 0 {
			t.Errorf("%+v, tightened, goes beyond %v (%v)", mine, tight.Loosened(wish), err)
		}
	}
	if got := (Config{Mode: "yolo", Sandbox: "off", Network: &yes}).Loosened(Config{}); len(got) > 0 {
		t.Errorf("a project without wishes: %v", got)
	}
}

func TestLoosenedWait(t *testing.T) {
	wish := Config{AnswerWithin: time.Minute}
	for mine, want := range map[time.Duration]string{0: "answer_within: 1m0s", time.Hour: "answer_within: 1m0s", time.Minute: "", time.Second: ""} {
		if got := strings.Join(Config{AnswerWithin: mine}.Loosened(wish), ", "); got != want {
			t.Errorf("%v: %q, want %q", mine, got, want)
		}
	}
}

func TestMoney(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "1": 1_000_000, "0.5": 500_000, "12.345678": 12_345_678, ".5": -1, "-1": -1, "+1": -1, "1e3": -1, "1.": 1_000_000, "9999999999": -1} {
		got, err := MicroUSD(text)
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for micro, want := range map[int64]string{0: "$0.00", 1_500_000: "$1.50", 1: "$0.000001", 123_400: "$0.1234"} {
		if got := USD(micro); got != want {
			t.Errorf("%d: %s, want %s", micro, got, want)
		}
	}
}

// TestTrust shows that trust holds for what was seen, and for nothing else.
func TestTrust(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func() Project {
		t.Helper()
		p, err := ReadProject(dir)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	write("AGENTS.md", "be kind")
	trust, err := OpenTrust(filepath.Join(data, "trust.json"))
	if err != nil || trust.Known(dir) || trust.Holds(read()) {
		t.Fatalf("trusted from the start: %v", err)
	}
	if err := trust.Give(read()); err != nil {
		t.Fatal(err)
	}
	again, err := OpenTrust(filepath.Join(data, "trust.json"))
	if err != nil || !again.Known(dir) || !again.Holds(read()) {
		t.Fatalf("trust was not kept: %v", err)
	}
	write(".stave/config.yaml", "mode: yolo")
	if again.Holds(read()) {
		t.Error("a changed project is trusted")
	}
	if err := again.Take(dir); err != nil || again.Known(dir) {
		t.Errorf("trust was not taken back: %v", err)
	}
	secret := filepath.Join(data, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, ".mcp.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadProject(dir); err == nil {
		t.Error("a link out of the project was followed")
	}
}
