package main

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stave/internal/config"
	"stave/internal/mcp"
	"stave/internal/toolbox"
	"stave/internal/toolbox/sandbox"
)

// finding is one thing the doctor looked at.
type finding struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Says string `json:"says"`
	Do   string `json:"do,omitzero"` // what would help
}

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "What works here: models, sandbox, servers, hooks, store, settings",
		Long: `Looks at what Stave needs and says what is there and what would help: keys of providers, the sandbox levels
this machine can build (each is entered once and tried), MCP servers and hooks, the data directory, the settings. It changes nothing and calls no provider.`,
		Example: "  stave doctor\n  stave doctor --json",
		Args:    atMost(0),
		RunE: func(*cobra.Command, []string) error {
			var all []finding
			for _, look := range []func() []finding{a.lookAtStore, a.lookAtSettings, a.lookAtModels, a.lookAtSandbox, a.lookAtServers, a.lookAtHooks} {
				all = append(all, look()...)
			}
			return a.tellFindings(all)
		},
	}
}

func (a *app) tellFindings(all []finding) error {
	for _, f := range all {
		if a.json {
			if err := a.printJSON(f); err != nil {
				return err
			}
			continue
		}
		mark := "✓"
		if !f.OK {
			mark = "✗"
		}
		a.printf("%s %-22s %s\n", mark, f.What, visible(f.Says))
		if f.Do != "" && !f.OK {
			a.printf("  %-22s → %s\n", "", visible(f.Do))
		}
	}
	return nil
}

func (a *app) lookAtStore() []finding {
	dir, err := a.dataDir()
	if err != nil {
		return []finding{{What: "data directory", Says: err.Error()}}
	}
	f := finding{What: "data directory", OK: true, Says: dir}
	if _, err := os.Stat(dir); err != nil {
		f.Says += " (it is made with the first conversation)"
	} else if probe, err := os.CreateTemp(dir, ".probe-*"); err != nil {
		f.OK, f.Says, f.Do = false, cause(err).Error()+": "+dir, "make it writable, or name another with --data or STAVE_HOME"
	} else {
		probe.Close()
		os.Remove(probe.Name())
	}
	return []finding{{What: "version", OK: true, Says: thisVersion().Version + ", " + runtime.GOOS + "/" + runtime.GOARCH}, f}
}

func (a *app) lookAtSettings() []finding {
	dir, err := workDir("")
	if err != nil {
		return []finding{{What: "settings", Says: err.Error()}}
	}
	s, err := a.settingsFor(dir)
	if err != nil {
		return []finding{{What: "settings", Says: err.Error(), Do: "repair the file"}}
	}
	says := "mode " + orUsual(s.Mode, "ask") + ", sandbox " + orUsual(s.Sandbox, autoLevel)
	if b := s.Budget.MicroUSD; b > 0 {
		says += ", at most " + config.USD(b) + " a conversation"
	}
	list := []finding{{What: "settings", OK: true, Says: says}, a.lookAtMemory(s.Memory)}
	for _, n := range s.notes {
		list = append(list, finding{What: "project", Says: n})
	}
	return list
}

// lookAtMemory says whether agents may keep notes, and where.
func (a *app) lookAtMemory(on bool) finding {
	f := finding{What: "memory", OK: true, Says: "agents keep no notes (memory: true in " + configName + " lets them)"}
	if !on {
		return f
	}
	dir, err := a.dataDir()
	if err != nil {
		return finding{What: "memory", Says: err.Error()}
	}
	notes, err := toolbox.NotesIn(filepath.Join(dir, notesName)).List()
	if err != nil {
		return finding{What: "memory", Says: err.Error(), Do: "repair or remove " + filepath.Join(dir, notesName)}
	}
	f.Says = "agents may keep notes in " + filepath.Join(dir, notesName) + "; there are " + strconv.Itoa(len(notes))
	return f
}

func (a *app) lookAtModels() []finding {
	if _, err := a.useSettings(); err != nil {
		return nil // said already
	}
	list := []finding{}
	for _, s := range builtIn {
		f := finding{What: "model: " + s.name, OK: true, Says: "key found"}
		if s.keyless {
			name := a.models.localModel()
			f.OK, f.Says, f.Do = name != "", "answers; has "+name, "start it, or set "+s.urlEnv
			if !f.OK {
				f.Says = "nobody answers at " + s.address(a.getenv)
			}
		} else if _, err := a.models.key(s); err != nil {
			f.OK, f.Says, f.Do = false, "no key", strings.TrimPrefix(err.Error(), s.name+" needs a key: ")
		}
		list = append(list, f)
	}
	return append(list, finding{What: "prices", OK: true, Says: "as of " + a.models.prices().Date()})
}

func (a *app) lookAtSandbox() []finding {
	report := sandbox.Detect()
	list := []finding{}
	for _, level := range []sandbox.Level{sandbox.Bwrap, sandbox.Landlock} {
		found := report.Of(level)
		f := finding{What: "sandbox: " + string(level), OK: found.OK, Says: "can be built; its self-test held", Do: found.Remedy}
		if err := found.Err(); err != nil {
			f.Says = err.Error()
		}
		list = append(list, f)
	}
	f := finding{What: "commands run in", OK: true, Says: string(report.Best())}
	switch report.Best() {
	case sandbox.Off:
		f.OK, f.Do = false, "install bubblewrap, or pass --sandbox off if you mean it"
	case sandbox.Landlock:
		f.Says += ": " + landlockOnly
		list = append(list, finding{What: "protected paths", Says: "not kept from commands", Do: moreWalls})
	case sandbox.Bwrap:
	}
	return append(list, f)
}

// lookAtServers says what is around each server that could be started.
func (a *app) lookAtServers() []finding {
	data, err := a.dataDir()
	if err != nil {
		return nil // said already
	}
	s, err := loadServers(data, nil)
	if err != nil {
		return []finding{{What: "servers", Says: err.Error(), Do: "repair the file"}}
	}
	dir, err := workDir("")
	if err != nil {
		return nil // said already
	}
	all, notes := projectServers(data, dir, s.own)
	if all == nil {
		all = map[string]mcp.Server{}
	}
	maps.Copy(all, s.own.Servers)
	list := []finding{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		server := all[name]
		f := finding{What: "server: " + name, OK: true, Says: "runs elsewhere, at " + server.URL}
		switch {
		case server.Disabled:
			f.Says = "disabled"
		case server.Command != "":
			level, err := levelOf(server.Sandbox, machineWalls)
			f.OK = err == nil && (level == sandbox.Off || machineWalls().Of(level).OK)
			f.Says, f.Do = describeWalls(name, server), moreWalls
		}
		list = append(list, f)
	}
	for _, n := range notes {
		list = append(list, finding{What: "servers", Says: n})
	}
	return list
}

// lookAtHooks says whether each hook could be started. None is.
func (a *app) lookAtHooks() []finding {
	c, err := a.userConfig()
	if err != nil {
		return nil // said already
	}
	var list []finding
	for _, h := range c.Hooks {
		f := finding{What: "hook: " + h.Name, OK: true, Do: "repair it in " + configName + ": while it cannot run, no conversation begins"}
		_, err := newHooks("", []config.Hook{h})
		level, noWalls := levelOf(h.Sandbox, machineWalls)
		switch {
		case err != nil:
			f.OK, f.Says = false, cause(err).Error()
		case noWalls != nil || level != sandbox.Off && !machineWalls().Of(level).OK:
			f.OK, f.Says, f.Do = false, "its walls cannot be built", moreWalls
		default:
			f.Says = h.Kind + ", " + strings.Join(h.Argv, " ") + ", walls: " + string(level)
		}
		list = append(list, f)
	}
	return list
}
