package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"stave/internal/config"
	"stave/internal/hooks"
	"stave/internal/machine/tool"
)

// observePatience bounds how long a result waits for those who are told of it.
const observePatience = 30 * time.Second

// hookSet lets the person's programs take part in calls.
type hookSet struct {
	list      []hooks.Hook
	walls     map[string]hookWalls      // by the hook's name
	set       atomic.Pointer[hooks.Set] // for the directory at work
	observing sync.WaitGroup
}

func newHooks(dir string, list []config.Hook) (*hookSet, error) {
	h := &hookSet{walls: map[string]hookWalls{}}
	for _, c := range list {
		h.walls[c.Name] = wallsOf(c)
		h.list = append(h.list, hooks.Hook{Name: c.Name, Kind: hooks.Kind(c.Kind), Argv: c.Argv, Tools: c.Tools, Timeout: c.Timeout})
	}
	return h, h.enter(dir)
}

// enter tells the hooks of calls to come which directory they are about.
func (h *hookSet) enter(dir string) error {
	if h == nil {
		return nil
	}
	s, err := hooks.New(dir, h.list, h.wrap)
	if err != nil {
		return badInput("%w", err)
	}
	h.set.Store(s)
	return nil
}

// hookWalls is what the walls around one hook leave open. The zero value is the
// narrowest: the workspace can be read, and there is no network.
type hookWalls struct {
	level   string
	network bool
	change  bool // the workspace
	read    []string
	write   []string
}

// wallsOf reads what a person says about a hook. A project has no hooks.
func wallsOf(c config.Hook) hookWalls {
	return hookWalls{level: c.Sandbox, network: c.Network, change: c.Workspace == "write", read: c.Read, write: c.Write}
}

// wrap puts a hook behind its walls. The files its command line names can be
// read, else it could not start; its home is empty and gone when it ends.
func (h *hookSet) wrap(hook hooks.Hook, workspace string, c hooks.Command) (hooks.Command, error) {
	w := h.walls[hook.Name]
	home, err := os.UserHomeDir()
	if err != nil {
		return c, err
	}
	var files []string
	for _, word := range c.Argv {
		if info, err := os.Stat(word); err == nil && filepath.IsAbs(word) && info.Mode().IsRegular() {
			files = append(files, filepath.Clean(word))
		}
	}
	launch, err := guest{
		level: w.level, workspace: workspace, readOnly: !w.change, network: w.network,
		read: append(programPaths(files, home), fromHome(w.read, home)...), write: fromHome(w.write, home),
		argv: c.Argv, dir: c.Dir, env: c.Env,
	}.launch(machineWalls)
	if err != nil {
		return c, err
	}
	c.Argv, c.Dir, c.Env, c.Release = launch.Argv, launch.Dir, launch.Env, launch.Release
	c.Files, err = launch.OpenFiles()
	return c, err
}

// Transform implements engine.Hooks.
func (h *hookSet) Transform(ctx context.Context, c tool.Call) (json.RawMessage, error) {
	args, _, err := h.set.Load().Transform(ctx, c)
	return args, err
}

// Guard implements engine.Hooks.
func (h *hookSet) Guard(ctx context.Context, c tool.Call) []tool.Verdict {
	return h.set.Load().Guard(ctx, c)
}

// Observe implements engine.Hooks. No call waits for it.
func (h *hookSet) Observe(c tool.Call, r tool.Result) {
	set := h.set.Load()
	h.observing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), observePatience)
		defer cancel()
		_ = set.Observe(ctx, c, r) // who is told cannot change what happened
	})
}

// wait lets those who are being told hear the end of it.
func (h *hookSet) wait() {
	if h != nil {
		h.observing.Wait()
	}
}
