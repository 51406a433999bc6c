package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"stave/internal/machine/tool"
	"stave/internal/policy"
)

// preview is what a call would do, for the person who is asked about it. It is
// computed by looking, from the arguments that will run.
type preview struct {
	facts []fact   // short, each with a name
	title string   // of the body
	body  []string // as it is; made harmless when it is shown
	diff  bool     // the body is a comparison
}

type fact struct{ name, value string }

const (
	previewLines = 40  // of a body, before a person asks for all
	previewWidth = 400 // characters of one of its lines
)

// preview words a call. Arguments that do not have the form their tool wants are
// shown as they are: such a call is refused before it runs.
func (a *app) preview(call tool.Call, dir string) preview {
	var p preview
	ok := false
	switch call.Tool {
	case policy.ShellTool:
		ok = p.command(call)
	case "Write", "Edit", "MultiEdit":
		ok = p.change(call, dir)
	case "Fetch":
		ok = p.address(call)
	case "AskUser":
		ok = p.question(call)
	}
	if !ok {
		p = preview{title: "arguments", body: strings.Split(indented(call.Arguments), "\n")}
	}
	p.facts = append(p.facts, fact{"cwd", dir}, fact{"digest", cut(call.Digest, digestShown+1)})
	for i, line := range p.body {
		// The arguments are scrubbed already; what lies in the workspace is not.
		p.body[i] = a.models.secrets.Redact(line)
	}
	return p
}

func indented(args json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, args, "", "  ") != nil {
		return string(args)
	}
	return b.String()
}

// command shows a shell command as it will run. What the model says of it is shown
// last and as the model's word.
func (p *preview) command(call tool.Call) bool {
	var args struct {
		Command     string `json:"command"`
		Seconds     int    `json:"timeout_seconds"`
		Description string `json:"description"`
	}
	if json.Unmarshal(call.Arguments, &args) != nil || args.Command == "" {
		return false
	}
	p.title, p.body = "command", strings.Split(args.Command, "\n")
	network := "no"
	if slices.Contains(call.Traits, tool.External) {
		network = "yes, it can send data out"
	}
	p.facts = append(p.facts, fact{"network", network})
	if args.Seconds > 0 {
		p.facts = append(p.facts, fact{"at most", fmt.Sprintf("%ds", args.Seconds)})
	}
	if args.Description != "" {
		p.facts = append(p.facts, fact{"model", "says: " + args.Description})
	}
	return true
}

// address shows where a request goes: the host by itself, because it is what
// matters and what the rest of an address can hide.
func (p *preview) address(call tool.Call) bool {
	var args struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(call.Arguments, &args) != nil || args.URL == "" {
		return false
	}
	host := "none that can be read"
	if u, err := url.Parse(args.URL); err == nil && u.Host != "" {
		host = u.Host
		if strings.ContainsFunc(host, func(r rune) bool { return r > 0x7e }) || strings.Contains(strings.ToLower(host), "xn--") {
			host += " (its letters may not be what they look like)"
		}
	}
	p.title, p.body = "url", []string{args.URL}
	p.facts = append(p.facts, fact{"host", host})
	return true
}

// question shows what an agent wants to know.
func (p *preview) question(call tool.Call) bool {
	var args struct {
		Question string   `json:"question"`
		Choices  []string `json:"choices"`
	}
	if json.Unmarshal(call.Arguments, &args) != nil || args.Question == "" {
		return false
	}
	p.title, p.body = "question", strings.Split(args.Question, "\n")
	for i, c := range args.Choices {
		p.facts = append(p.facts, fact{fmt.Sprintf("%d", i+1), c})
	}
	return true
}

// lines are the preview as it is shown. Every line of the body stands behind a bar,
// so that none of them passes for one of ours, and nothing in them is left out
// without a word: hint says where all of it is, empty if this is to be all.
func (p preview) lines(c *console, hint string) []string {
	whole := hint == ""
	out := []string{"  " + p.title}
	shown := p.body
	if !whole && len(shown) > previewLines {
		shown = shown[:previewLines]
	}
	for _, text := range shown {
		color := ""
		if p.diff && text != "" {
			color = diffColors[text[0]]
		}
		text = visibleText(text)
		if letters := []rune(text); !whole && len(letters) > previewWidth {
			text = fmt.Sprintf("%s… %s; %s", string(letters[:previewWidth]), count(len(letters)-previewWidth, "more character", "more characters"), hint)
		}
		if color != "" {
			text = c.paint(color, text)
		}
		out = append(out, "  │ "+text)
	}
	if rest := len(p.body) - len(shown); rest > 0 {
		out = append(out, fmt.Sprintf("  … %s; %s", count(rest, "more line", "more lines"), hint))
	}
	for _, f := range p.facts {
		value := visible(f.value)
		if !whole {
			value = cut(value, previewWidth)
		}
		if f.name == "host" {
			value = c.paint(bold, value)
		}
		out = append(out, fmt.Sprintf("  %-7s %s", f.name, value))
	}
	return out
}

var diffColors = map[byte]string{'+': green, '-': red, '@': dim}
