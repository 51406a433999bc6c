package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"stave/internal/machine/tool"
	"stave/internal/machine/workflow"
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
	case tool.GrantStageTool:
		return ask.Call, ask.Reason
	case tool.WhatHappened:
		return ask.Call, ask.Known
	case tool.WhatToSay:
		return ask.Call, "the agent wants to know"
	case workflow.MayGoOn:
		return tool.Call{}, "the definition of workflow " + ask.Name + " was changed after this run began"
	}
	return tool.Call{}, ""
}

// summary is a question in a few words.
func summary(q world.Question) string {
	if ask, ok := q.Ask.(workflow.MayGoOn); ok {
		return "the workflow " + ask.Name
	}
	call, _ := asked(q)
	text := toolName(call.Tool) + " " + brief(call.Arguments)
	if ask, ok := q.Ask.(tool.GrantStageTool); ok {
		text = "stage " + ask.Stage + ": " + text
	}
	return text
}

// toolName is the name of a tool as a model wrote it: on one line, nothing hidden.
func toolName(name string) string { return cut(visible(name), briefArgs) }

// brief shows arguments in a line of progress.
func brief(args json.RawMessage) string { return cut(visible(string(pathFirst(args))), briefArgs) }

// pathFirst puts the path in front of what becomes of it, which is often long. All
// else stays as it was written.
func pathFirst(args json.RawMessage) json.RawMessage {
	in := json.NewDecoder(bytes.NewReader(args))
	if !json.Valid(args) {
		return args
	}
	if open, err := in.Token(); err != nil || open != json.Delim('{') {
		return args
	}
	var fields [][]byte
	for in.More() {
		from := in.InputOffset()
		name, err := in.Token()
		if err != nil {
			return args
		}
		var value json.RawMessage
		if in.Decode(&value) != nil {
			return args
		}
		field := bytes.TrimLeft(args[from:in.InputOffset()], ", \t\r\n")
		if name == "path" {
			fields = slices.Insert(fields, 0, field)
		} else {
			fields = append(fields, field)
		}
	}
	return slices.Concat([]byte("{"), bytes.Join(fields, []byte(",")), []byte("}"))
}

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
	grantKeys   = append(slices.Clone(mayRunKeys), key{letter: "d", choice: "defer", meaning: "not now"})
	mayGoOnKeys = []key{
		{letter: "g", choice: "go_on", meaning: "go on by the definition it began with"},
		{letter: "c", choice: "cancel", meaning: "cancel the run", takesText: true},
	}
	whatToSayKeys = []key{
		{letter: "r", choice: "reply", meaning: "reply, with your words behind it", takesText: true},
		{letter: "n", choice: "deny", meaning: "no answer", takesText: true},
	}
)

func (a *app) newDialog(q world.Question, dir string) *dialog {
	d := &dialog{app: a, q: q, dir: dir, keys: mayRunKeys}
	switch q.Ask.(type) {
	case tool.GrantStageTool:
		d.keys = grantKeys
	case workflow.MayGoOn:
		d.keys = mayGoOnKeys
	case tool.WhatHappened:
		d.keys = whatHappenedKeys
	case tool.WhatToSay:
		d.keys = whatToSayKeys
	}
	d.describe()
	return d
}

func (d *dialog) describe() {
	call, _ := asked(d.q)
	c := &d.app.console
	c.note("\n%s", c.paint(bold, headline(d.q)))
	if _, ok := d.q.Ask.(workflow.MayGoOn); ok {
		return
	}
	d.app.showPreview(d.app.preview(call, d.dir), "? shows all")
}

// headline says what is asked and why. It is ours: no word of a model is in it.
func headline(q world.Question) string {
	call, why := asked(q)
	title := call.Tool + " asks to run: " + why
	switch ask := q.Ask.(type) {
	case tool.GrantStageTool:
		title = fmt.Sprintf("Stage %s, attempt %d, asks for a grant: %s; it would be for this one call", ask.Stage, ask.Attempt, why)
	case workflow.MayGoOn:
		title = fmt.Sprintf("The definition of workflow %s was changed after this run began. May the run go on by the one it began with?", ask.Name)
	case tool.WhatHappened:
		title = "What became of " + call.Tool + "? " + why
	case tool.WhatToSay:
		title = call.Tool + ": " + why
	}
	return "? " + line(title, shortArgs)
}

// showPreview shows it on standard error.
func (a *app) showPreview(p preview, hint string) {
	for _, l := range p.lines(&a.console, hint) {
		a.note("%s", l)
	}
}

func (d *dialog) prompt() {
	var choices []string
	for _, k := range d.keys {
		choices = append(choices, k.letter+" = "+k.meaning)
	}
	if _, ok := d.q.Ask.(workflow.MayGoOn); !ok {
		choices = append(choices, "? = whole arguments")
	}
	fmt.Fprintf(d.app.err, "  %s > ", strings.Join(choices, ", "))
}

// read takes what was typed and returns the choice it stands for, or nothing.
func (d *dialog) read(typed string) (choice, text string) {
	letter, rest, _ := strings.Cut(typed, " ")
	if letter == "?" {
		call, _ := asked(d.q)
		d.app.showPreview(d.app.preview(call, d.dir), "")
		d.app.note("  args    %s", visible(string(call.Arguments)))
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
