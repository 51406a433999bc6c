package main

import (
	"context"
	"encoding/json"
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
	set       atomic.Pointer[hooks.Set] // for the directory at work
	observing sync.WaitGroup
}

func newHooks(dir string, list []config.Hook) (*hookSet, error) {
	h := &hookSet{}
	for _, c := range list {
		h.list = append(h.list, hooks.Hook{Name: c.Name, Kind: hooks.Kind(c.Kind), Argv: c.Argv, Tools: c.Tools, Timeout: c.Timeout})
	}
	return h, h.enter(dir)
}

// enter tells the hooks of calls to come which directory they are about.
func (h *hookSet) enter(dir string) error {
	if h == nil {
		return nil
	}
	s, err := hooks.New(dir, h.list)
	if err != nil {
		return badInput("%w", err)
	}
	h.set.Store(s)
	return nil
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
