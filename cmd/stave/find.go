package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"stave/internal/runelog"
	"stave/internal/world"
)

const (
	logPrefix = "conv_"
	lastLog   = "last"
	// maxNamed bounds how many candidates an ambiguous name is answered with.
	maxNamed = 4
)

// find returns the log a person means: its name, an unambiguous beginning of it
// with or without conv_, or "last" for the one that changed last.
func (h *host) find(ctx context.Context, name string) (runelog.Meta, error) {
	var found []runelog.Meta
	for m, err := range h.log.List(ctx) {
		switch {
		case err != nil && m.Log == "":
			if len(found) == 0 {
				return m, err
			}
		case m.Log == name || name == lastLog:
			return m, nil
		case name != "" && (strings.HasPrefix(m.Log, name) || strings.HasPrefix(m.Log, logPrefix+name)):
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return runelog.Meta{}, ambiguous("conversation", name, found, func(m runelog.Meta) string { return m.Log })
	case name == lastLog:
		return runelog.Meta{}, badInput("there is no conversation yet; `stave ask` begins one")
	}
	return runelog.Meta{}, badInput("there is no conversation %q; `stave ls` lists them", name)
}

// question returns the open question a person means, by its id or an unambiguous
// beginning, and false if none is open.
func (h *host) question(ctx context.Context, id string) (world.Question, bool, error) {
	open, err := h.engine.Inbox(ctx)
	if err != nil {
		return world.Question{}, false, err
	}
	var found []world.Question
	for _, q := range open {
		switch {
		case q.ID == id || q.Log+"/"+q.ID == id:
			return q, true, nil
		case id != "" && strings.HasPrefix(q.ID, id):
			found = append(found, q)
		}
	}
	switch len(found) {
	case 0:
		return world.Question{}, false, nil
	case 1:
		return found[0], true, nil
	}
	return world.Question{}, false, ambiguous("question", id, found, func(q world.Question) string { return q.ID })
}

func ambiguous[T any](what, name string, found []T, id func(T) string) error {
	var names []string
	for _, f := range found[:min(len(found), maxNamed)] {
		names = append(names, id(f))
	}
	if len(found) > maxNamed {
		names = append(names, "…")
	}
	return badInput("%q fits %d %ss: %s; write more of it", name, len(found), what, strings.Join(names, ", "))
}

// shortest returns for every name the shortest beginning that no other shares,
// and at least least characters of it.
func shortest(names []string, least int) map[string]string {
	sorted := slices.Sorted(slices.Values(names))
	short := make(map[string]string, len(names))
	for i, n := range sorted {
		size := least
		if i > 0 {
			size = max(size, shared(n, sorted[i-1])+1)
		}
		if i+1 < len(sorted) {
			size = max(size, shared(n, sorted[i+1])+1)
		}
		short[n] = n[:min(size, len(n))]
	}
	return short
}

func shared(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// command is a line a person can paste to go on.
func (a *app) command(format string, args ...any) string {
	line := "stave " + fmt.Sprintf(format, args...)
	if a.data != "" {
		line += " --data " + quote(a.data)
	}
	return line
}

// quote makes an argument safe to paste into a shell.
func quote(s string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
