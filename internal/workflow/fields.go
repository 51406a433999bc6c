package workflow

import (
	"fmt"
	"math/big"
	"strings"

	"go.yaml.in/yaml/v3"

	"stave/internal/model"
)

var (
	definitionFields = []string{"id", "name", "description", "first", "model", "budget", "stages"}
	stageFields      = []string{
		"id", "name", "body", "allowedTools", "completionTool", "completionSchema", "turnCap", "visitCap",
		"retryPolicy", "model", "budget", "context", "gate", "assert", "next",
	}
	retryFields  = []string{"maxAttempts", "backoff", "delay"}
	choiceFields = []string{"when", "stages", "execution", "join"}
	budgetFields = []string{"usd", "tokens", "modelCalls", "toolCalls", "agents", "wall"}
)

// place names a field of a stage by the stage's number, because two stages may by
// mistake have the same id.
func place(stage int, name string) string { return fmt.Sprintf("stages[%d].%s", stage, name) }

func (r *reader) definition(n *yaml.Node) Definition {
	var d Definition
	for _, f := range r.fields(n, "", definitionFields) {
		r.at(f.key, f.value)
		switch f.key {
		case "id":
			d.ID = r.text(f.value, "id")
		case "name":
			d.Name = r.text(f.value, "name")
		case "description":
			d.Description = strings.TrimSpace(r.text(f.value, "description"))
		case "first":
			d.First = r.text(f.value, "first")
		case "model":
			d.Model = r.text(f.value, "model")
		case "budget":
			d.Budget = r.budget(f.value, "budget")
		case "stages":
			d.Stages = r.stages(f.value)
		}
	}
	return d
}

func (r *reader) stages(n *yaml.Node) []Stage {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.fail(n, "stages", "this is %s; write a list, each stage after a dash: - id: Plan", describe(n))
		return nil
	case len(n.Content) > MaxStages:
		r.fail(n, "stages", "there are %d stages, at most %d are allowed; split the workflow", len(n.Content), MaxStages)
		return nil
	}
	all := make([]Stage, len(n.Content))
	for i, item := range n.Content {
		r.lines[place(i, "")] = item.Line
		all[i] = r.stage(i, item)
	}
	return all
}

func (r *reader) stage(i int, n *yaml.Node) Stage {
	var s Stage
	name := fmt.Sprintf("stage %d", i+1)
	for k := 0; k+1 < len(n.Content); k += 2 { // so that every problem can name the stage
		if n.Content[k].Value == "id" && n.Content[k+1].Value != "" {
			name = fmt.Sprintf("stage %.80s", n.Content[k+1].Value)
		}
	}
	for _, f := range r.fields(n, name, stageFields) {
		r.at(place(i, f.key), f.value)
		r.stageField(&s, i, f, name+", "+f.key)
	}
	return s
}

func (r *reader) stageField(s *Stage, i int, f field, where string) {
	switch f.key {
	case "id":
		s.ID = r.text(f.value, where)
	case "name":
		s.Name = r.text(f.value, where)
	case "body":
		s.Body = strings.TrimSpace(r.text(f.value, where))
	case "allowedTools":
		if f.value.Kind == yaml.ScalarNode && f.value.Value == AllTools {
			s.AllowedTools = []string{AllTools}
			return
		}
		if s.AllowedTools = r.texts(f.value, where); s.AllowedTools == nil {
			s.AllowedTools = []string{} // its problem has been told
		}
	case "completionTool":
		s.CompletionTool = r.text(f.value, where)
	case "completionSchema":
		s.CompletionSchema = r.json(nil, f.value, where, 0)
	case "turnCap":
		s.TurnCap = int(r.integer(f.value, where))
	case "visitCap":
		s.VisitCap = int(r.integer(f.value, where))
		if s.VisitCap == 0 {
			r.fail(f.value, where, "it is 0; write how often one run may enter the stage, or leave it out")
		}
	case "retryPolicy":
		s.RetryPolicy = r.retryPolicy(f.value, where)
	case "model":
		s.Model = r.text(f.value, where)
	case "budget":
		s.Budget = r.budget(f.value, where)
	case "context":
		s.Context = r.context(f.value, i, where)
	case "gate":
		s.Gate = r.rule(f.value, where)
	case "assert":
		s.Assert = r.rule(f.value, where)
	case "next":
		s.Next = r.next(f.value, i, where)
	}
}

// rule reads an expression; an empty one would hold silently.
func (r *reader) rule(n *yaml.Node, where string) string {
	text := strings.TrimSpace(r.text(n, where))
	if text == "" && n.ShortTag() != "!!null" {
		r.fail(n, where, "the rule is empty; write an expression or leave the field out")
	}
	return text
}

func (r *reader) retryPolicy(n *yaml.Node, where string) RetryPolicy {
	var p RetryPolicy
	for _, f := range r.fields(n, where, retryFields) {
		switch f.key {
		case "maxAttempts":
			p.MaxAttempts = int(r.integer(f.value, where))
			if p.MaxAttempts == 0 {
				r.fail(f.value, where, "maxAttempts is 0; write 1 for a stage that is not tried again")
			}
		case "backoff":
			p.Backoff = r.text(f.value, where)
		case "delay":
			p.DelayMs = r.duration(f.value, where).Milliseconds()
		}
	}
	return p
}

func (r *reader) context(n *yaml.Node, stage int, where string) []Input {
	if n.Kind != yaml.MappingNode {
		r.fail(n, where, "this is %s; write names with a rule each: plan: ctx.upstream.Plan.output", describe(n))
		return nil
	}
	var all []Input
	for _, f := range r.fields(n, where, nil) {
		r.at(place(stage, "context."+f.key), f.value)
		all = append(all, Input{Name: f.key, Value: r.rule(f.value, where+"."+f.key)})
	}
	return all
}

// next takes a stage's id, one choice, or a list of choices.
func (r *reader) next(n *yaml.Node, stage int, where string) []Choice {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null":
		r.at(place(stage, "next[0]"), n)
		return []Choice{{Stages: []string{n.Value}, Execution: Sequential}}
	case n.Kind == yaml.MappingNode:
		return []Choice{r.choice(n, stage, 0, where)}
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		all := make([]Choice, len(n.Content))
		for i, item := range n.Content {
			all[i] = r.choice(item, stage, i, where)
		}
		return all
	}
	r.fail(n, where, "this is %s; write a stage's id, or stages: [Test, Lint], execution: parallel, join: Review; leave next out to end the run", describe(n))
	return nil
}

func (r *reader) choice(n *yaml.Node, stage, number int, where string) Choice {
	var c Choice
	at := place(stage, fmt.Sprintf("next[%d]", number))
	r.at(at, n)
	stages := false
	for _, f := range r.fields(n, where, choiceFields) {
		switch f.key {
		case "when":
			r.at(at+".when", f.value)
			c.When = r.rule(f.value, where+".when")
		case "stages":
			stages = true
			c.Stages = r.texts(f.value, where+".stages")
		case "execution":
			c.Execution = r.text(f.value, where+".execution")
		case "join":
			c.Join = r.text(f.value, where+".join")
		}
	}
	if n.Kind == yaml.MappingNode && !stages {
		r.fail(n, where, "stages is missing; write the stages that follow, or stages: [] to end the run")
	}
	return c
}

func (r *reader) budget(n *yaml.Node, where string) model.Amount {
	var a model.Amount
	for _, f := range r.fields(n, where, budgetFields) {
		at := where + "." + f.key
		if f.key == "usd" {
			a.MicroUSD = r.money(f.value, at)
			continue
		}
		var v int64
		if f.key == "wall" {
			v = r.duration(f.value, at).Milliseconds()
		} else {
			v = r.integer(f.value, at)
		}
		if v <= 0 {
			r.fail(f.value, at, "a limit is above zero; leave it out for none")
		}
		switch f.key {
		case "tokens":
			a.Tokens = v
		case "modelCalls":
			a.ModelCalls = v
		case "toolCalls":
			a.ToolCalls = v
		case "agents":
			a.Agents = v
		case "wall":
			a.WallMs = v
		}
	}
	return a
}

// money reads dollars exactly, in millionths.
func (r *reader) money(n *yaml.Node, where string) int64 {
	const most = 1_000_000_000_000_000
	plain := n.Kind == yaml.ScalarNode && len(n.Value) <= 20 && strings.Trim(n.Value, "0123456789.") == ""
	if plain { // an exponent could ask for more digits than there is memory
		v, ok := new(big.Rat).SetString(n.Value)
		if ok && v.Mul(v, big.NewRat(1_000_000, 1)).IsInt() && v.Sign() > 0 && v.Cmp(big.NewRat(most, 1)) <= 0 {
			return v.Num().Int64()
		}
	}
	r.fail(n, where, "this is %s; write dollars such as 1.50, at least 0.000001", describe(n))
	return 0
}
