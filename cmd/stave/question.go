package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"stave/internal/machine/tool"
	"stave/internal/world"
)

const (
	shortArgs   = 400 // characters of arguments shown before a person asks for all
	briefArgs   = 80  // in a line of progress
	digestShown = 12
)

// asked is what a question is about, whichever kind it is.
func asked(q world.Question) (call tool.Call, why string) {
	switch ask := q.Ask.(type) {
	case tool.MayRun:
		return ask.Call, ask.Reason
	case tool.WhatHappened:
		return ask.Call, ask.Known
	case tool.WhatToSay:
		return ask.Call, "the agent wants to know"
	}
	return tool.Call{}, ""
}

// summary is a question in a few words.
func summary(q world.Question) string {
	call, _ := asked(q)
	return call.Tool + " " + brief(call.Arguments)
}

// brief shows arguments in a line of progress.
func brief(args json.RawMessage) string { return cut(visible(string(args)), briefArgs) }

// dialog puts one question to the person at the terminal.
type dialog struct {
	app  *app
	q    world.Question
	dir  string
	keys []key
}

// key is an answer a person can type. There is no default: nothing runs because
// somebody pressed Enter.
type key struct {
	letter, choice, meaning string
	takesText               bool // words may follow the letter
}

var (
	mayRunKeys       = []key{{letter: "y", choice: "approve", meaning: "yes"}, {letter: "n", choice: "deny", meaning: "no", takesText: true}}
	whatHappenedKeys = []key{
		{letter: "h", choice: "happened", meaning: "it happened", takesText: true},
		{letter: "n", choice: "not_happened", meaning: "it did not happen"},
		{letter: "r", choice: "retry", meaning: "run it again"},
	}
	whatToSayKeys = []key{
		{letter: "r", choice: "reply", meaning: "reply, with your words behind it", takesText: true},
		{letter: "n", choice: "deny", meaning: "no answer", takesText: true},
	}
)

func (a *app) newDialog(q world.Question, dir string) *dialog {
	d := &dialog{app: a, q: q, dir: dir, keys: mayRunKeys}
	switch q.Ask.(type) {
	case tool.WhatHappened:
		d.keys = whatHappenedKeys
	case tool.WhatToSay:
		d.keys = whatToSayKeys
	}
	d.describe()
	return d
}

func (d *dialog) describe() {
	call, why := asked(d.q)
	c := &d.app.console
	title := call.Tool + " asks to run: " + why
	switch d.q.Ask.(type) {
	case tool.WhatHappened:
		title = "What became of " + call.Tool + "? " + why
	case tool.WhatToSay:
		title = call.Tool + ": " + why
	}
	c.note("\n%s", c.paint(bold, "? "+line(title, shortArgs)))
	d.arguments(call, shortArgs)
	c.note("  cwd    %s", visible(d.dir))
	c.note("  digest %s", cut(call.Digest, digestShown+1))
}

func (d *dialog) arguments(call tool.Call, limit int) {
	args := visible(string(call.Arguments))
	d.app.note("  args   %s", cut(args, limit))
}

func (d *dialog) prompt() {
	var choices []string
	for _, k := range d.keys {
		choices = append(choices, k.letter+" = "+k.meaning)
	}
	choices = append(choices, "? = whole arguments")
	fmt.Fprintf(d.app.err, "  %s > ", strings.Join(choices, ", "))
}

// read takes what was typed and returns the choice it stands for, or nothing.
func (d *dialog) read(typed string) (choice, text string) {
	letter, rest, _ := strings.Cut(typed, " ")
	if letter == "?" {
		call, _ := asked(d.q)
		d.arguments(call, len(call.Arguments)*len(`\u0000`)+1)
		return "", ""
	}
	for _, k := range d.keys {
		// A reply without a word says nothing, so it is not taken for one.
		if letter == k.letter && (rest == "" && k.choice != "reply" || rest != "" && k.takesText) {
			return k.choice, strings.TrimSpace(rest)
		}
	}
	return "", ""
}
