package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/model/catalog"
	"stave/internal/runelog"
	"stave/internal/runelog/pebble"
	"stave/internal/toolbox"
	"stave/internal/toolbox/sandbox"
)

const (
	// lockPatience is how long a command waits for another that has the data
	// directory open, lockPoll how often it looks.
	lockPatience = 500 * time.Millisecond
	lockPoll     = 25 * time.Millisecond
	// closePatience is how long running tools may take to end when we leave.
	closePatience = 2 * time.Second

	scratchName = "scratch"
)

// host is an engine with its store, for the time of one command.
type host struct {
	log      runelog.Log
	engine   *engine.Engine
	commands *runner
	servers  *servers
	hooks    *hookSet // nil where there is none
}

// hosted runs f on the data directory's host.
func (a *app) hosted(f func(h *host) error) error { return a.hostedFor(false, f) }

// working is hosted for what asks a model at once: what that will need is got
// ready while the store opens.
func (a *app) working(f func(h *host) error) error { return a.hostedFor(true, f) }

func (a *app) hostedFor(work bool, f func(h *host) error) (err error) {
	if a.open != nil {
		return f(a.open)
	}
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	c, err := a.useSettings()
	if err != nil {
		return err
	}
	a.models.learnKeys()
	opt := engine.Options{Now: a.now, Provider: a.models.provider, Info: a.models.info, Tokens: catalog.Tokens, Secrets: a.models.secrets}
	opt.Definition = a.definitionNow
	var hooks *hookSet
	if len(c.Hooks) > 0 {
		if hooks, err = newHooks("", c.Hooks); err != nil {
			return err
		}
		opt.Hooks = hooks
	}
	commands := newRunner(dir, limitsOf(c.Limits))
	if work {
		go commands.expect()
		go defaultRules()
	}
	h, err := openHost(dir, opt, commands, c.Memory)
	if err != nil {
		return errors.Join(err, commands.close())
	}
	h.hooks = hooks
	defer func() { err = errors.Join(err, a.leave(h)) }()
	if err := h.commands.sweep(h.openCalls); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answerQueue(ctx, dir, a.models.queue)
	return f(h)
}

// openCalls are the ids of all calls that have not ended, in every conversation.
func (h *host) openCalls() (map[string]bool, error) {
	ctx, open := context.Background(), map[string]bool{}
	for m, err := range h.log.List(ctx) {
		if err != nil {
			return nil, err
		}
		if m.Archived || m.WaitsFor == "" {
			continue
		}
		v, err := h.engine.Look(ctx, m.Log)
		if err != nil {
			continue // a damaged log says so to whoever opens it
		}
		for _, p := range v.Machines {
			if p.Machine == "tool" {
				open[p.Path.Name()] = true
			}
		}
	}
	return open, nil
}

// leave ends the host in good order, unless a person has no patience for that.
func (a *app) leave(h *host) error {
	closed := make(chan struct{})
	defer close(closed)
	go func() {
		select {
		case <-a.signals:
			a.exit(exitCode(errInterrupted))
		case <-closed:
		}
	}()
	return h.close()
}

// enter prepares for a conversation in a directory: the servers of its project are
// there, and hooks are told of it. It comes before the conversation runs.
func (a *app) enter(h *host, dir string) error {
	if err := h.hooks.enter(dir); err != nil {
		return err
	}
	if err := a.boundCommands(h.commands, dir); err != nil {
		return err
	}
	data, err := a.dataDir()
	if err != nil {
		return err
	}
	theirs, notes := projectServers(data, dir, h.servers.own)
	for _, n := range notes {
		a.note("stave: %s", visible(n))
	}
	return h.servers.enter(dir, theirs)
}

func newRunner(data string, base sandbox.Limits) *runner {
	dir, held := heldCallsDir(data, os.Getenv)
	return &runner{dir: dir, held: held, base: base, adopted: map[string]bool{}}
}

// openHost is where the rooms are put together.
func openHost(dir string, opt engine.Options, commands *runner, memory bool) (*host, error) {
	made := make(chan []toolbox.Tool, 1)
	go func() { made <- tools(commands) }() // while the disk is busy
	store, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	h := &host{log: store, commands: commands}
	opt.Log, opt.TempDir = store, filepath.Join(dir, scratchName)
	opt.CallContext = func(ctx context.Context, c session.Config) context.Context {
		return withCommands(ctx, c.Sandbox, c.Network)
	}
	kept := newCheckpoints(store, dir)
	if opt.Secrets != nil {
		kept.Secret = opt.Secrets.Contains
	}
	opt.Checkpoints = kept
	opt.Expecting = h.commands.expect
	opt.Survived, opt.Settled, opt.Abandoned = h.commands.survived, h.commands.settled, h.commands.abandoned
	list := <-made
	if memory {
		list = append(list, toolbox.Memory(filepath.Join(dir, notesName), h.tainted))
	}
	opt.Tools, err = toolbox.NewSet(list...)
	if err == nil {
		err = emptyDir(opt.TempDir)
	}
	if err == nil {
		h.servers, err = loadServers(dir, opt.Secrets)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	opt.MoreTools = h.servers.tools
	h.engine = engine.New(opt)
	return h, nil
}

// tainted says whether a conversation under way has read what strangers wrote. A
// note does not know which conversation it comes from, so each of them counts;
// where it cannot be told, it is so.
func (h *host) tainted() bool {
	ctx := context.Background()
	for m, err := range h.log.List(ctx) {
		if err != nil {
			return true
		}
		if m.Archived || m.WaitsFor == "" {
			continue
		}
		if v, err := h.engine.Look(ctx, m.Log); err != nil || v.Taint.Untrusted {
			return true
		}
	}
	return false
}

// tools are those every agent has.
func tools(commands toolbox.Runner) []toolbox.Tool {
	return append(toolbox.AllOn(commands), toolbox.SpawnAgent(), toolbox.WaitAgent(), toolbox.MessageAgent(), toolbox.CloseAgent(), toolbox.AskUser())
}

// openStore waits a moment for a command that is about to end.
func openStore(dir string) (runelog.Log, error) {
	for waited := time.Duration(0); ; waited += lockPoll {
		store, err := pebble.Open(dir)
		if err == nil {
			return store, nil
		}
		if !errors.Is(err, runelog.ErrLocked) || waited >= lockPatience {
			return nil, err
		}
		time.Sleep(lockPoll)
	}
}

// emptyDir removes what a killed process left behind. A directory that is as it
// should be stays: looking is cheaper than making it anew.
func emptyDir(dir string) error {
	const private = 0o700
	if info, err := os.Lstat(dir); err == nil && info.Mode() == os.ModeDir|private {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
			return nil
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clearing scratch files: %w", err)
	}
	if err := os.Mkdir(dir, private); err != nil {
		return fmt.Errorf("making room for scratch files: %w", err)
	}
	return nil
}

func (h *host) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	err := errors.Join(h.engine.Close(ctx), h.commands.close())
	h.hooks.wait()
	return errors.Join(err, h.servers.close(), h.log.Close())
}
