package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"stave/internal/model"
)

// Parse reads a script. Its error names every problem found, up to
// maxProblems, as name:line:column and what to write instead.
func Parse(name string, data []byte) (*Script, error) {
	d := &decoder{file: name}
	root, err := d.document(data)
	if err != nil {
		return nil, err
	}
	s := &Script{name: name}
	rest := &scene{}
	d.fields(root, "a script", fields{
		"scenes": func(n *yaml.Node) {
			d.each(n, "scenes", MaxScenes, func(n *yaml.Node) { s.scenes = append(s.scenes, d.scene(n)) })
		},
		"replies": func(n *yaml.Node) { d.replies(n, rest) },
	})
	if len(rest.cues)+len(rest.ordered) > 0 {
		s.scenes = append(s.scenes, rest)
	}
	if len(s.scenes) == 0 && len(d.problems) == 0 {
		d.fail(root, "the script has no replies; write `replies:` and a list, for example `- text: Hello.`")
	}
	if len(d.problems) > 0 {
		return nil, errors.Join(d.problems...)
	}
	return s, nil
}

func (d *decoder) scene(n *yaml.Node) *scene {
	sc := &scene{title: fmt.Sprintf(" (scene of line %d)", n.Line)}
	seen := d.fields(n, "a scene", fields{
		"system":  func(n *yaml.Node) { sc.system = d.pattern(n) },
		"opening": func(n *yaml.Node) { sc.opening = d.pattern(n) },
		"replies": func(n *yaml.Node) { d.replies(n, sc) },
	})
	if seen != nil && !seen["replies"] {
		d.fail(n, "the scene has no replies; write `replies:` and a list")
	}
	if seen != nil && !seen["system"] && !seen["opening"] {
		d.fail(n, "the scene does not say when it is played; write `system:` or `opening:` with a pattern, or put its replies at the top")
	}
	return sc
}

func (d *decoder) replies(n *yaml.Node, sc *scene) {
	d.each(n, "replies", MaxReplies, func(n *yaml.Node) {
		r := d.reply(n)
		if r.when != nil {
			sc.cues = append(sc.cues, r)
		} else {
			sc.ordered = append(sc.ordered, r)
		}
	})
}

func (d *decoder) reply(n *yaml.Node) *reply {
	r := &reply{}
	var faultNodes []*yaml.Node
	before := len(d.problems)
	seen := d.fields(n, "a reply", fields{
		"when":      func(n *yaml.Node) { r.when = d.pattern(n) },
		"times":     func(n *yaml.Node) { r.times = d.number(n, 1, MaxTimes) },
		"text":      func(n *yaml.Node) { r.deltas = []string{d.text(n)} },
		"deltas":    func(n *yaml.Node) { r.deltas = d.deltas(n) },
		"chunk":     func(n *yaml.Node) { r.chunk = d.number(n, 1, MaxBytes) },
		"reasoning": func(n *yaml.Node) { r.reasoning = d.someText(n) },
		"opaque":    func(n *yaml.Node) { r.opaque = d.someText(n) },
		"calls": func(n *yaml.Node) {
			d.each(n, "calls", MaxCalls, func(n *yaml.Node) { r.calls = append(r.calls, d.call(n)) })
		},
		"usage":  func(n *yaml.Node) { r.usage = d.usage(n) },
		"stop":   func(n *yaml.Node) { r.stop = choice(d, n, stopReasons) },
		"delay":  func(n *yaml.Node) { r.delay = d.duration(n, MaxWait) },
		"pace":   func(n *yaml.Node) { r.pace = d.duration(n, MaxWait) },
		"faults": func(n *yaml.Node) { r.faults, faultNodes = d.faults(n), n.Content },
	})
	if len(d.problems) > before {
		return r
	}
	d.checkReply(n, seen)
	d.checkFaultPlaces(faultNodes, r)
	return r
}

// checkReply finds what is wrong between the fields of a reply.
func (d *decoder) checkReply(n *yaml.Node, seen map[string]bool) {
	has := func(name string) bool { return seen[name] }
	if !slices.ContainsFunc([]string{"text", "deltas", "reasoning", "opaque", "calls", "stop"}, has) {
		d.fail(n, "the reply says nothing; write `text:`, `deltas:`, `reasoning:`, `calls:` or `stop:` (`text: \"\"` for an empty answer)")
	}
	if has("text") && has("deltas") {
		d.fail(n, "the reply has both `text` and `deltas`; write one of them")
	}
	if has("chunk") && !has("text") && !has("deltas") && !has("reasoning") {
		d.fail(n, "`chunk` splits text and reasoning, and the reply has neither; leave it out")
	}
}

// checkFaultPlaces finds faults that would come after the end of their reply.
func (d *decoder) checkFaultPlaces(nodes []*yaml.Node, r *reply) {
	if len(r.faults) == 0 {
		return
	}
	total := 0
	for range r.events(1) {
		total++
	}
	for i, f := range r.faults {
		if f.after >= total {
			d.fail(nodes[i], "the fault comes after %d events, but the reply has only %d, its end included; write at most %d", f.after, total, total-1)
		}
	}
}

func (d *decoder) deltas(n *yaml.Node) []string {
	var all []string
	d.each(n, "deltas", MaxDeltas, func(n *yaml.Node) { all = append(all, d.someText(n)) })
	return all
}

func (d *decoder) call(n *yaml.Node) call {
	c := call{args: "{}"}
	seen := d.fields(n, "a call", fields{
		"tool": func(n *yaml.Node) { c.tool = d.text(n) },
		"args": func(n *yaml.Node) { c.args = d.arguments(n) },
		"raw":  func(n *yaml.Node) { c.args = d.text(n) },
		"id":   func(n *yaml.Node) { id := d.text(n); c.id = &id },
	})
	if seen != nil && !seen["tool"] {
		d.fail(n, "the call names no tool; write `tool:` and its name")
	}
	if seen["args"] && seen["raw"] {
		d.fail(n, "the call has both `args` and `raw`; write `args` for a mapping, or `raw` for text that is sent as it is")
	}
	return c
}

func (d *decoder) usage(n *yaml.Node) *model.Usage {
	u := &model.Usage{}
	d.fields(n, "usage", fields{
		"input_tokens":  func(n *yaml.Node) { u.InputTokens = d.integer(n) },
		"output_tokens": func(n *yaml.Node) { u.OutputTokens = d.integer(n) },
		"cached_tokens": func(n *yaml.Node) { u.CachedTokens = d.integer(n) },
	})
	return u
}

var (
	stopReasons = []model.StopReason{model.StopEnd, model.StopToolCalls, model.StopLength, model.StopRefusal}
	errorKinds  = []model.ErrorKind{
		model.ErrStream, model.ErrRateLimited, model.ErrOverloaded, model.ErrTimeout,
		model.ErrAuth, model.ErrBadRequest, model.ErrLimit, model.ErrInternal,
	}
)

// choice reads one of the words of a vocabulary.
func choice[T ~string](d *decoder, n *yaml.Node, words []T) T {
	before := len(d.problems)
	word := T(d.text(n))
	if len(d.problems) == before && !slices.Contains(words, word) {
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = string(w)
		}
		d.fail(n, "%s is not known here; write one of: %s", describe(n), strings.Join(quoted, ", "))
	}
	return word
}
