package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"stave/internal/config"
	"stave/internal/hooks"
	"stave/internal/machine/tool"
)

// observePatience bounds how long a result waits for those who are told of it.
const observePatience = 30 * time.Second

// hookSet lets the person's programs take part in calls.
type hookSet struct {
	*hooks.Set
	observing *sync.WaitGroup
}

func newHooks(list []config.Hook) (hookSet, error) {
	var all []hooks.Hook
	for _, h := range list {
		all = append(all, hooks.Hook{Name: h.Name, Kind: hooks.Kind(h.Kind), Argv: h.Argv, Tools: h.Tools, Timeout: h.Timeout})
	}
	s, err := hooks.New("", all)
	return hookSet{s, &sync.WaitGroup{}}, err
}

// Transform implements engine.Hooks.
func (h hookSet) Transform(ctx context.Context, c tool.Call) (json.RawMessage, error) {
	args, _, err := h.Set.Transform(ctx, c)
	return args, err
}

// Observe implements engine.Hooks. No call waits for it.
func (h hookSet) Observe(c tool.Call, r tool.Result) {
	h.observing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), observePatience)
		defer cancel()
		_ = h.Set.Observe(ctx, c, r) // who is told cannot change what happened
	})
}

// wait lets those who are being told hear the end of it.
func (h hookSet) wait() {
	if h.observing != nil {
		h.observing.Wait()
	}
}
