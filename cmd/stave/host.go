package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"stave/internal/checkpoint"
	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/model/catalog"
	"stave/internal/policy"
	"stave/internal/runelog"
	"stave/internal/runelog/pebble"
	"stave/internal/toolbox"
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
	servers  *servers // nil where none is configured
	hooks    hookSet
}

// hosted runs f on the data directory's host.
func (a *app) hosted(f func(h *host) error) (err error) {
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	c, err := a.useSettings()
	if err != nil {
		return err
	}
	opt := engine.Options{Now: a.now, Provider: a.models.provider, Info: a.models.info, Tokens: catalog.Tokens, Secrets: a.models.secrets}
	var hooks hookSet
	if len(c.Hooks) > 0 {
		if hooks, err = newHooks(c.Hooks); err != nil {
			return badInput("%w", err)
		}
		opt.Hooks = hooks
	}
	h, err := openHost(dir, opt)
	if err != nil {
		return err
	}
	h.hooks = hooks
	defer func() { err = errors.Join(err, a.leave(h)) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answerQueue(ctx, dir, a.models.queue)
	return f(h)
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

// openHost is where the rooms are put together.
func openHost(dir string, opt engine.Options) (*host, error) {
	store, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	h := &host{log: store, commands: &runner{dir: callsDir(dir, os.Getenv), adopted: map[string]bool{}}}
	opt.Log, opt.TempDir = store, filepath.Join(dir, scratchName)
	opt.CallContext = func(ctx context.Context, c session.Config) context.Context {
		return withCommands(ctx, c.Sandbox, c.Network)
	}
	kept := checkpoint.New(store)
	if opt.Secrets != nil {
		kept.Secret = opt.Secrets.Contains
	}
	opt.Checkpoints = kept
	opt.Expecting = h.commands.expect
	opt.Survived, opt.Settled = h.commands.survived, h.commands.settled
	opt.Tools, err = toolbox.NewSet(tools(h.commands)...)
	if err == nil {
		err = emptyDir(opt.TempDir)
	}
	if err == nil {
		h.servers, err = loadServers(dir)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if h.servers != nil {
		opt.MoreTools = h.servers.tools
	}
	h.engine = engine.New(opt)
	return h, nil
}

// tools are those every agent has.
func tools(commands toolbox.Runner) []toolbox.Tool {
	list := toolbox.All()
	for i, t := range list {
		if t.Name == policy.ShellTool {
			list[i] = toolbox.BashOn(commands)
		}
	}
	return append(list, toolbox.SpawnAgent(), toolbox.WaitAgent(), toolbox.MessageAgent(), toolbox.CloseAgent(), toolbox.AskUser())
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

// emptyDir removes what a killed process left behind.
func emptyDir(dir string) error {
	const private = 0o700
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
	if h.servers != nil {
		err = errors.Join(err, h.servers.close())
	}
	return errors.Join(err, h.log.Close())
}
