package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"stave/internal/config"
	"stave/internal/policy"
)

// Files of a data directory that people write.
const (
	configName = "config.yaml"
	rulesName  = "rules.yaml"
	mcpName    = "mcp.json"
	pinsName   = "mcp-pins.json"
	tokensName = "mcp-tokens"
	trustName  = "trust.json"
	keysName   = "keys"
	pricesName = "prices.yaml"
	notesName  = "memory"
)

// settings is what holds for a conversation that begins now.
type settings struct {
	config.Config
	rules   policy.Rules
	system  string         // what the project tells the agent
	project config.Project // empty unless it is trusted
	notes   []string       // what a person should know
}

// userConfig reads the person's own settings.
func (a *app) userConfig() (config.Config, error) {
	dir, err := a.dataDir()
	if err != nil {
		return config.Config{}, err
	}
	file := filepath.Join(dir, configName)
	b, err := readIfThere(file)
	if err != nil {
		return config.Config{}, badInput("%w", err)
	}
	c, err := config.Load(file, b)
	if err != nil {
		return config.Config{}, badInput("%w", err)
	}
	return c, nil
}

// useSettings reads the person's settings and lets models be found by them.
func (a *app) useSettings() (config.Config, error) {
	dir, err := a.dataDir()
	if err != nil {
		return config.Config{}, err
	}
	c, err := a.userConfig()
	if err != nil {
		return c, err
	}
	prices, err := loadPrices(dir)
	if err != nil {
		return c, err
	}
	a.models.use(c, prices, filepath.Join(dir, keysName))
	return c, nil
}

func readIfThere(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil // where the directory is none, the store says so
	}
	return b, err
}

// defaultRules are read once: nobody changes them.
var defaultRules = sync.OnceValues(policy.Default)

// settingsFor puts together what holds in a directory: the person's settings,
// and what the project there makes stricter, if it is trusted.
func (a *app) settingsFor(dir string) (settings, error) {
	var s settings
	data, err := a.dataDir()
	if err != nil {
		return s, err
	}
	if s.Config, err = a.userConfig(); err != nil {
		return s, err
	}
	if s.rules, err = defaultRules(); err != nil {
		return s, err
	}
	own, err := loadRules(filepath.Join(data, rulesName))
	if err != nil {
		return s, err
	}
	s.rules = append(own, s.rules...)
	return s, a.addProject(&s, data, dir)
}

func loadRules(file string) (policy.Rules, error) {
	b, err := readIfThere(file)
	if err != nil || b == nil {
		return nil, err
	}
	rules, err := policy.Load(file, b)
	if err != nil {
		return nil, badInput("%w", err)
	}
	return rules, nil
}

// trustedProject reads what the project in a directory says, unless nobody trusts
// it: then nothing of it is even opened. Changed says that it was another when it
// was trusted; then it says nothing.
func trustedProject(data, dir string) (p config.Project, changed bool, err error) {
	trust, err := config.OpenTrust(filepath.Join(data, trustName))
	if err != nil {
		return p, false, badInput("%w", err)
	}
	if !trust.Known(dir) {
		return p, false, nil
	}
	clearStandIns(dir)
	if p, err = config.ReadProject(dir); err != nil {
		return config.Project{}, false, badInput("%w", err)
	}
	if !trust.Holds(p) {
		return config.Project{}, true, nil
	}
	return p, false, nil
}

// addProject lets a trusted project make things stricter.
func (a *app) addProject(s *settings, data, dir string) error {
	p, changed, err := trustedProject(data, dir)
	if err != nil {
		return err
	}
	if changed {
		s.notes = append(s.notes, fmt.Sprintf("what %s says to agents has changed since you trusted it, so none of it is used; `%s` looks at it again", dir, a.command("trust %s", dir)))
		return nil
	}
	if p.Dir == "" {
		return nil
	}
	s.project, s.system = p, string(p.Files["AGENTS.md"])
	theirs, err := config.Load(filepath.Join(dir, ".stave/config.yaml"), p.Files[".stave/config.yaml"])
	if err != nil {
		return badInput("%w", err)
	}
	if s.Config, err = s.Config.Tighten(theirs); err != nil {
		return badInput("%s: %w", filepath.Join(dir, ".stave/config.yaml"), err)
	}
	if b := p.Files[".stave/rules.yaml"]; b != nil {
		file := filepath.Join(dir, ".stave/rules.yaml")
		stricter, err := policy.Load(file, b)
		if err != nil {
			return badInput("%w", err)
		}
		if s.rules, err = policy.Tighten(s.rules, stricter); err != nil {
			return badInput("%s: %w", file, err)
		}
	}
	return nil
}

// orUsual is the first of two texts that says something.
func orUsual(text, usual string) string {
	if strings.TrimSpace(text) == "" {
		return usual
	}
	return text
}
