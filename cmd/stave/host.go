package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"stave/internal/engine"
	"stave/internal/model"
	"stave/internal/model/script"
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
	log    runelog.Log
	engine *engine.Engine
}

// hosted runs f on the data directory's host.
func (a *app) hosted(f func(h *host) error) (err error) {
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	h, err := openHost(dir, engine.Options{Now: a.now, Provider: a.models.provider})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.leave(h)) }()
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
	opt.Log, opt.TempDir = store, filepath.Join(dir, scratchName)
	opt.Tools, err = toolbox.NewSet(toolbox.All()...)
	if err == nil {
		err = emptyDir(opt.TempDir)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &host{store, engine.New(opt)}, nil
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
	return errors.Join(h.engine.Close(ctx), h.log.Close())
}

const scriptPrefix = "script:"

// modelName turns --model into the name a conversation keeps: a script by its
// whole path, since the conversation may be resumed from anywhere.
func modelName(flag string) (string, error) {
	file, isScript := strings.CutPrefix(flag, scriptPrefix)
	switch {
	case flag == "":
		return "", badInput("no model is named; this version talks to scripted models: pass --model script:FILE, or try `stave demo`")
	case !isScript:
		return "", badInput("--model %s: this version talks to scripted models only: pass --model script:FILE, or try `stave demo`", flag)
	case file == "":
		return "", badInput("--model %s names no file; write script:FILE", flag)
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return "", badInput("--model %s: %w", flag, err)
	}
	return scriptPrefix + abs, nil
}

// models finds the provider of a model by its name, each script read once.
type models struct {
	mu     sync.Mutex
	loaded map[string]model.Provider
}

func (m *models) provider(_ context.Context, name string) (model.Provider, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.loaded[name]; p != nil {
		return p, nil
	}
	file, ok := strings.CutPrefix(name, scriptPrefix)
	if !ok {
		return nil, fmt.Errorf("model %s: this version talks to scripted models only", name)
	}
	s, err := script.Load(file)
	if err != nil {
		return nil, err
	}
	m.add(name, s)
	return s, nil
}

func (m *models) add(name string, p model.Provider) {
	if m.loaded == nil {
		m.loaded = map[string]model.Provider{}
	}
	m.loaded[name] = p
}
