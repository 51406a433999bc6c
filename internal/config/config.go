// Package config reads what a person has settled for all conversations, and what
// a project asks for. A project may only make things stricter.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"stave/internal/model"
)

// maxFile bounds a configuration file.
const maxFile = 1 << 20

// Config is one file's settings. What is not set is zero.
type Config struct {
	Model    string `yaml:"model"`
	Mode     string `yaml:"mode"`
	ReadOnly bool   `yaml:"read_only"`
	Sandbox  string `yaml:"sandbox"` // auto, bwrap, landlock, off
	Network  *bool  `yaml:"network"` // may commands use it
	Memory   bool   `yaml:"memory"`  // may agents keep notes between conversations
	// AnswerWithin is how long a question waits before it counts as denied, 0 for ever.
	AnswerWithin time.Duration `yaml:"answer_within"`

	Budget   Budget              `yaml:"budget"`
	Limits   Limits              `yaml:"limits"` // of one command
	Services map[string]Service  `yaml:"providers"`
	Hooks    []Hook              `yaml:"hooks"`
	Lanes    map[string]LaneSize `yaml:"queue"`
}

// Service is a place models are to be had from.
type Service struct {
	Kind    string `yaml:"kind"` // anthropic, openai, openai-chat, gemini
	BaseURL string `yaml:"base_url"`
	KeyEnv  string `yaml:"key_env"`  // the variable that holds the key
	KeyFile string `yaml:"key_file"` // the file that holds the key
}

// Hook is a program that is asked or told about calls.
type Hook struct {
	Name    string        `yaml:"name"`
	Kind    string        `yaml:"kind"` // guard, transform, observer
	Argv    []string      `yaml:"command"`
	Tools   []string      `yaml:"tools"`
	Timeout time.Duration `yaml:"timeout"`

	// The walls around it. Left out they are the narrowest.
	Sandbox   string   `yaml:"sandbox"`
	Network   bool     `yaml:"network"`
	Workspace string   `yaml:"workspace"` // read, write
	Read      []string `yaml:"read"`      // further paths, absolute or from ~/ on
	Write     []string `yaml:"write"`
}

// LaneSize bounds the calls to one provider.
type LaneSize struct {
	Concurrency int     `yaml:"concurrency"`
	PerMinute   float64 `yaml:"per_minute"`
}

// Values of the settings that are one of a few.
var (
	Modes     = []string{"ask", "allowlist", "yolo"}
	Sandboxes = []string{"auto", "bwrap", "landlock", "off"}
	Kinds     = []string{"anthropic", "openai", "openai-chat", "gemini"}
	HookKinds = []string{"guard", "transform", "observer"}
	Accesses  = []string{"read", "write"}
)

// Load reads a file's settings strictly: whatever it does not know is an error.
func Load(file string, b []byte) (Config, error) {
	var c Config
	if len(b) > maxFile {
		return c, fmt.Errorf("%s: it has %d bytes, at most %d are read", file, len(b), maxFile)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, fmt.Errorf("%s: %s", file, readable(err))
	}
	var more yaml.Node
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return Config{}, fmt.Errorf("%s: there is a second document in it; write one", file)
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func (c Config) check() error {
	if err := errors.Join(
		oneOf("mode", c.Mode, Modes), oneOf("sandbox", c.Sandbox, Sandboxes), c.Limits.check(),
	); err != nil {
		return err
	}
	if err := CheckWait(c.AnswerWithin); err != nil {
		return fmt.Errorf("answer_within: %w", err)
	}
	for name, s := range c.Services {
		if err := s.check(name); err != nil {
			return err
		}
	}
	for i, h := range c.Hooks {
		if err := h.check(); err != nil {
			return fmt.Errorf("hooks, number %d: %w", i+1, err)
		}
	}
	for name, l := range c.Lanes {
		if l.Concurrency < 0 || l.PerMinute < 0 {
			return fmt.Errorf("queue.%s: a bound is not below zero", name)
		}
	}
	return nil
}

// CheckWait refuses a time that a question cannot wait.
func CheckWait(d time.Duration) error {
	if d < 0 || d > 0 && d < time.Millisecond {
		return fmt.Errorf("%v: a question waits at least 1ms; 0 is for ever", d)
	}
	return nil
}

func (s Service) check(name string) error {
	where := "providers." + name
	switch {
	case name == "" || strings.ContainsAny(name, "/: \t"):
		return fmt.Errorf("%s: a name has letters, digits, - and _", where)
	case s.Kind == "":
		return fmt.Errorf("%s.kind is missing; write one of: %s", where, strings.Join(Kinds, ", "))
	case s.KeyEnv != "" && s.KeyFile != "":
		return fmt.Errorf("%s: key_env and key_file name two keys; keep one", where)
	}
	return oneOf(where+".kind", s.Kind, Kinds)
}

func (h Hook) check() error {
	switch {
	case h.Name == "":
		return errors.New("name is missing")
	case len(h.Argv) == 0:
		return fmt.Errorf("%s: command is missing; write a list: the program and its arguments", h.Name)
	case h.Timeout < 0:
		return fmt.Errorf("%s: timeout is below zero", h.Name)
	case h.Kind == "":
		return fmt.Errorf("%s: kind is missing; write one of: %s", h.Name, strings.Join(HookKinds, ", "))
	}
	for _, path := range slices.Concat(h.Read, h.Write) {
		whole := strings.Replace(path, "~/", "/", 1)
		if !filepath.IsAbs(whole) || filepath.Clean(whole) != whole {
			return fmt.Errorf("%s: %q is not a whole path; write one that begins with / or ~/, without . and .. in it", h.Name, path)
		}
	}
	return errors.Join(oneOf(h.Name+": kind", h.Kind, HookKinds),
		oneOf(h.Name+": sandbox", h.Sandbox, Sandboxes), oneOf(h.Name+": workspace", h.Workspace, Accesses))
}

func oneOf(what, value string, of []string) error {
	if value == "" || slices.Contains(of, value) {
		return nil
	}
	return fmt.Errorf("%s: %q is not known; write one of: %s", what, value, strings.Join(of, ", "))
}

// strictness of a mode, and of a sandbox. Auto may come to less than bwrap.
var (
	modeRank    = map[string]int{"yolo": 1, "ask": 2, "allowlist": 3}
	sandboxRank = map[string]int{"off": 1, "landlock": 2, "auto": 3, "bwrap": 4}
)

// Tighten adds what a project asks for. It is an error for a project to ask for
// more than the person allows, or to name programs, servers or keys.
func (c Config) Tighten(p Config) (Config, error) {
	switch {
	case p.Model != "":
		return c, widens("model")
	case len(p.Services) > 0:
		return c, widens("providers")
	case len(p.Hooks) > 0:
		return c, widens("hooks")
	case len(p.Lanes) > 0:
		return c, widens("queue")
	case p.Memory && !c.Memory:
		return c, widens("memory")
	case p.Network != nil && *p.Network && (c.Network == nil || !*c.Network):
		return c, widens("network")
	case p.Mode != "" && modeRank[p.Mode] < modeRank[or(c.Mode, "ask")]:
		return c, widens("mode: " + p.Mode)
	case p.Sandbox != "" && sandboxRank[p.Sandbox] < sandboxRank[or(c.Sandbox, "auto")]:
		return c, widens("sandbox: " + p.Sandbox)
	}
	c.Mode, c.Sandbox = or(p.Mode, c.Mode), or(p.Sandbox, c.Sandbox)
	c.ReadOnly = c.ReadOnly || p.ReadOnly
	if p.Network != nil {
		c.Network = p.Network
	}
	c.Budget = Budget{c.Budget.Within(p.Budget.Amount)}
	c.Limits = c.Limits.within(p.Limits)
	c.AnswerWithin = stricter(c.AnswerWithin, p.AnswerWithin)
	return c, nil
}

// Loosened names what of a project's wishes the settings in force go beyond. Only a
// person does that, by a word of their own for one conversation; read_only is not
// among it, because nothing lifts it.
func (c Config) Loosened(p Config) []string {
	var list []string
	if p.Mode != "" && modeRank[or(c.Mode, "ask")] < modeRank[p.Mode] {
		list = append(list, "mode: "+p.Mode)
	}
	if p.Sandbox != "" && sandboxRank[or(c.Sandbox, "auto")] < sandboxRank[p.Sandbox] {
		list = append(list, "sandbox: "+p.Sandbox)
	}
	if p.Network != nil && !*p.Network && c.Network != nil && *c.Network {
		list = append(list, "network: false")
	}
	if c.Budget.Within(p.Budget.Amount) != c.Budget.Amount {
		list = append(list, "budget")
	}
	if stricter(c.AnswerWithin, p.AnswerWithin) != c.AnswerWithin {
		list = append(list, fmt.Sprintf("answer_within: %v", p.AnswerWithin))
	}
	return list
}

func widens(what string) error {
	return fmt.Errorf("a project may only make things stricter, so it cannot set %s; set it in your own config.yaml", what)
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// Budget is a limit as people write it.
type Budget struct{ model.Amount }

// limits are the fields of a budget.
type limits struct {
	USD        string        `yaml:"usd"`
	Tokens     int64         `yaml:"tokens"`
	ModelCalls int64         `yaml:"model_calls"`
	ToolCalls  int64         `yaml:"tool_calls"`
	Agents     int64         `yaml:"agents"`
	Wall       time.Duration `yaml:"wall"`
}

// UnmarshalYAML reads the limits one by one: money exactly, time as 10m.
func (b *Budget) UnmarshalYAML(n *yaml.Node) error {
	var raw limits
	known := fieldsOf(reflect.TypeFor[limits]())
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(known, key.Value) {
			return errors.New(unknown(strconv.Itoa(key.Line), "budget", key.Value, known))
		}
	}
	if err := n.Decode(&raw); err != nil {
		return err
	}
	micro, err := MicroUSD(raw.USD)
	if err != nil {
		return fmt.Errorf("line %d: budget.usd: %w", n.Line, err)
	}
	b.Amount = model.Amount{
		MicroUSD: micro, Tokens: raw.Tokens, ModelCalls: raw.ModelCalls, ToolCalls: raw.ToolCalls,
		Agents: raw.Agents, WallMs: raw.Wall.Milliseconds(),
	}
	if min(raw.Tokens, raw.ModelCalls, raw.ToolCalls, raw.Agents, raw.Wall.Milliseconds()) < 0 {
		return fmt.Errorf("line %d: a limit is not below zero", n.Line)
	}
	return nil
}
