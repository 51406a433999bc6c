package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// slashes are the commands that can be said in a conversation instead of a
// message. A workflow never gates them. Those with a line are commands of this
// program, about the conversation.
var slashes = map[string]string{
	"run": "", "tools": "", "help": "",
	"model": "model", "budget": "budget", "why": "why", "show": "show",
	"pause": "pause", "resume": "resume", "close": "close", "stop": "stop", "interrupt": "interrupt",
	"fork": "fork", "rewind": "rewind",
}

var slashShape = regexp.MustCompile(`^/([a-z][a-z-]*)(?:\s+|$)`)

// slash reads a command out of a message. A path is none: it has another slash.
func slash(text string) (name, rest string, ok bool) {
	m := slashShape.FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	return m[1], strings.TrimSpace(text[len(m[0]):]), true
}

// checkSlash refuses a command that nobody knows, before anything else happens.
func checkSlash(text string) error {
	name, rest, ok := slash(text)
	if !ok {
		return nil
	}
	if _, known := slashes[name]; !known {
		return badInput("there is no /%s; known are /%s. To say it to the model, put a word before it", name, strings.Join(slices.Sorted(maps.Keys(slashes)), ", /"))
	}
	if _, task := firstWord(rest); name == "run" && task == "" {
		return badInput("/run takes a workflow and a task, as in `/run codeReview refactor auth module`; `stave workflow ls` lists the workflows")
	}
	return nil
}

// do does what a message says that is a command, in the conversation that the
// flags mean.
func (a *app) do(f *askFlags, text string) error {
	name, rest, _ := slash(text)
	switch {
	case name == "run":
		workflow, task := firstWord(rest)
		return a.runWorkflow(f, workflow, task, 0)
	case name == "tools":
		return a.hosted(a.listTools)
	case name == "help":
		return a.slashHelp()
	case f.begins():
		return badInput("/%s is about a conversation; say which with --continue or --resume LOG", name)
	}
	var err error
	if f.dir, err = workDir(f.dir); err != nil {
		return err
	}
	log := ""
	err = a.hosted(func(h *host) error {
		v, err := h.earlier(context.Background(), f)
		log = v.Log
		return err
	})
	if err != nil {
		return err
	}
	return a.about(log, name, rest)
}

// about runs a command of this program about a conversation.
func (a *app) about(log, name, rest string) error {
	args := []string{slashes[name], log, "--data", a.data, fmt.Sprintf("--json=%t", a.json)} // before its flags are set to what is usual
	cmd := a.root()
	cmd.SetArgs(append(args, strings.Fields(rest)...))
	cmd.SetOut(a.out)
	cmd.SetErr(a.err)
	return cmd.Execute()
}

// firstWord parts a text behind its first word, whatever space follows it.
func firstWord(text string) (word, rest string) {
	i := strings.IndexFunc(text, unicode.IsSpace)
	if i < 0 {
		return text, ""
	}
	return text[:i], strings.TrimSpace(text[i:])
}

// slashHelp lists the commands. What is a command of this program, too, is said in
// the same words.
func (a *app) slashHelp() error {
	root := (&app{}).root() // which sets the flags of its program to what is usual
	own := map[string]string{
		"run": "WORKFLOW TASK: " + a.runCmd().Short, "tools": "What agents can use", "help": "This list",
	}
	for _, name := range slices.Sorted(maps.Keys(slashes)) {
		text := own[name]
		if cmd, _, err := root.Find([]string{slashes[name]}); err == nil && slashes[name] != "" {
			text = cmd.Short
		}
		if !a.json {
			a.printf("/%-10s %s\n", name, text)
		} else if err := a.printJSON(map[string]string{"name": "/" + name, "text": text}); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) listTools(h *host) error {
	for _, t := range h.engine.ToolList() {
		if a.json {
			if err := a.printJSON(map[string]any{"name": t.Name, "safety": t.Safety, "traits": t.Traits}); err != nil {
				return err
			}
			continue
		}
		first, _, _ := strings.Cut(t.Description, "\n")
		a.printf("%s\n", fmt.Sprintf("%-14s %s", t.Name, cut(visible(first), shownLine)))
	}
	return nil
}
