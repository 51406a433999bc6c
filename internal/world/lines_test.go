package world

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/machine/workflow"
	"stave/internal/model"
)

// boxes are the tables as the tests read them.
var boxes = map[string][]machine.Box{
	"session": session.Machine.Boxes, "agent": agent.Machine.Boxes, "turn": turn.Machine.Boxes, "tool": tool.Machine.Boxes,
	"workflow": workflow.Machine.Boxes, "stage": stage.Machine.Boxes,
}

// commandType finds a command by its machine and verb, and whether people send it.
func commandType(machineName, verb string) (t reflect.Type, person bool) {
	for _, b := range boxes[machineName] {
		for _, r := range b.Rows {
			if machine.Verb(reflect.Zero(r.Command).Interface()) == verb {
				t, person = r.Command, person || r.Person
			}
		}
	}
	return t, person
}

// jobVerbs are the commands by which jobs report; they carry the job's id.
const jobVerbs = " prepare initialize gate assert again break choose become_ready fail_init reserve compact delta receive_tool_calls finish fail report reattach succeed crash expire doubt "

// line is one line of a story: who, verb, key=value …
type line struct {
	who, verb string
	args      map[string]string
}

func parseLine(text string) (line, error) {
	fields, err := splitQuoted(text)
	if err != nil || len(fields) == 0 {
		return line{}, fmt.Errorf("%q: %v", text, err)
	}
	l := line{who: fields[0], args: map[string]string{}}
	if len(fields) > 1 && !strings.Contains(fields[1], "=") {
		l.verb = fields[1]
		fields = fields[1:]
	}
	for _, f := range fields[1:] {
		key, value, given := strings.Cut(f, "=")
		if !given {
			value = "true"
		}
		l.args[key] = value
	}
	return l, nil
}

// splitQuoted splits at spaces outside of double quotes and removes the quotes.
func splitQuoted(text string) ([]string, error) {
	var fields []string
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		end, field := 0, ""
		for end < len(rest) && rest[end] != ' ' {
			if rest[end] != '"' {
				field += rest[end : end+1]
				end++
				continue
			}
			quoted, err := strconv.QuotedPrefix(rest[end:])
			if err != nil {
				return nil, err
			}
			plain, _ := strconv.Unquote(quoted)
			field += plain
			end += len(quoted)
		}
		fields = append(fields, field)
		rest = rest[end:]
	}
	return fields, nil
}

// message turns a line into what the engine would send. newest is the turn that
// the story's short names mean.
func (l line) message(w *World, newest Path) (Message, error) {
	p := l.path(w, newest)
	t, person := commandType(p.machine(), l.verb)
	if t == nil {
		return Message{}, fmt.Errorf("%s has no command %q", p.machine(), l.verb)
	}
	m := Message{Path: p, By: engineName}
	if person || l.verb == "create" {
		m.By = "user:ann"
	}
	if job, ok := w.JobAt(p); ok && strings.Contains(jobVerbs, " "+l.verb+" ") {
		m.Job = job.ID
	}
	c := reflect.New(t).Elem()
	usual(c, p)
	for key, value := range l.args {
		switch key {
		case "by":
			m.By = value
		case "job":
			m.Job = value
		case "if_seq":
			m.IfSeq, _ = strconv.ParseUint(value, 10, 64)
		default:
			if err := setField(c, key, value); err != nil {
				return Message{}, err
			}
		}
	}
	m.Command = c.Interface()
	if create, ok := m.Command.(session.Create); ok {
		create.ConversationID, create.RootAgentID, create.Title = testLog, "agt_1", "a story"
		m.Command = create
	}
	return m, nil
}

// usual fills in what a story says only where it matters.
func usual(c reflect.Value, p Path) {
	switch cmd := c.Addr().Interface().(type) {
	case *turn.Finish:
		cmd.Stop, cmd.Usage = model.StopEnd, model.Usage{InputTokens: 10, OutputTokens: 5}
	case *turn.ReceiveToolCalls:
		cmd.Usage = model.Usage{InputTokens: 7, OutputTokens: 3}
	case *agent.Spawn:
		cmd.AgentID, cmd.ParentID, cmd.Depth = p.Name(), "agt_1", 1
	case *workflow.Start:
		cmd.Started = workflow.Started{RunID: p.Name(), Name: "codeReview", Hash: "h1", Definition: []byte("{}"), Task: "tidy up", ParentID: "agt_1", Parallel: 2}
	case *stage.Prepare:
		cmd.Context = []byte("{}")
	}
}

// path reads a short name: session, root, turn, turn:2, a call of the newest turn,
// or a stage, which begins with a capital.
func (l line) path(w *World, newest Path) Path {
	switch {
	case strings.ToLower(l.who) != l.who && !strings.Contains(l.who, ":"):
		return ofStage(w, l.who)
	case l.who == "session":
		return SessionPath
	case l.who == "root":
		return RootPath
	case l.who == "turn":
		return newest
	case strings.HasPrefix(l.who, "turn:"):
		return RootPath + "/" + Path(l.who)
	case strings.Contains(l.who, ":"):
		return Path(l.who)
	default:
		return newest.tool(l.who)
	}
}

// setField sets a field by the name it has in JSON. Answers and calls have their
// own short form.
func setField(c reflect.Value, key, value string) error {
	switch cmd := c.Addr().Interface().(type) {
	case *turn.Finish:
		if key == "text" {
			cmd.Output = []model.Part{{Text: value}}
			return nil
		}
	case *turn.ReceiveToolCalls:
		if key == "text" {
			cmd.Output = []model.Part{{Text: value}}
			return nil
		}
		if key == "calls" {
			for call := range strings.FieldsSeq(value) {
				cmd.Calls = append(cmd.Calls, proposal(call))
			}
			return nil
		}
	case *workflow.Start:
		if key == "stages" {
			cmd.Stages = briefs(value)
			return nil
		}
	case *workflow.Choose:
		if key == "stages" {
			cmd.Stages = briefs(value)
			return nil
		}
		if key == "join" {
			cmd.Join = &briefs(value)[0]
			return nil
		}
	case *session.Create:
		if key == "first" {
			cmd.First = &session.First{Say: session.Say{Text: value}, By: "user:ann"}
			return nil
		}
	}
	f := field(c, key)
	if !f.IsValid() {
		return fmt.Errorf("%s has no field %q", c.Type(), key)
	}
	return setValue(f, value)
}

func setValue(f reflect.Value, value string) error {
	switch known := f.Addr().Interface().(type) {
	case *model.Amount:
		return eachPair(value, func(key string, n int64) error { return setValue(field(f, key), strconv.FormatInt(n, 10)) })
	case *model.Usage:
		n, err := strconv.ParseInt(value, 10, 64)
		known.InputTokens, known.OutputTokens = n-n/3, n/3
		return err
	case *[]string:
		*known = append([]string{}, strings.Fields(value)...)
		return nil
	}
	switch f.Kind() {
	case reflect.String:
		f.SetString(value)
	case reflect.Bool:
		f.SetBool(value == "true")
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return err
		}
		f.SetInt(n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return err
		}
		f.SetUint(n)
	default:
		f.SetBytes([]byte(value))
	}
	return nil
}

// eachPair reads an amount as stories write it: tokens:100 tool_calls:2.
func eachPair(text string, do func(key string, n int64) error) error {
	for pair := range strings.FieldsSeq(text) {
		key, number, _ := strings.Cut(pair, ":")
		n, err := strconv.ParseInt(number, 10, 64)
		if err == nil {
			err = do(key, n)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", pair, err)
		}
	}
	return nil
}

// field finds a field by its name in JSON, in the command or in its config.
func field(c reflect.Value, key string) reflect.Value {
	name := ""
	for word := range strings.SplitSeq(key, "_") {
		switch word {
		case "id", "usd":
			name += strings.ToUpper(word)
		default:
			name += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	if f := c.FieldByName(name); f.IsValid() {
		return f
	}
	if config := c.FieldByName("Config"); config.IsValid() {
		return config.FieldByName(name)
	}
	return reflect.Value{}
}

// workshop holds the tools stories use, one for each way a call can differ.
var workshop = map[string]turn.Proposal{
	"read":  {Safety: "read_only", Parallel: true},
	"stat":  {Safety: "read_only"},
	"put":   {Safety: "idempotent", Parallel: true},
	"write": {Safety: "idempotent"},
	"post":  {Safety: "side_effect", Parallel: true},
	"bash":  {Safety: "side_effect"},
	"bad":   {Safety: "side_effect", Parallel: true, Invalid: "there is no tool bad"},
	"mine":  {Safety: "read_only", Parallel: true, Traits: []string{tool.Private}},
	"web":   {Safety: "read_only", Parallel: true, Traits: []string{tool.Untrusted}},
	"ask":   {Safety: tool.Question},
	"task":  {Safety: "read_only", Parallel: true}, // starts an agent and waits for it
	"hand":  {Safety: "read_only", Last: true},     // hands in the result of a stage
}

// proposal reads id:tool, or id:tool:what for a call that is not about itself.
func proposal(text string) turn.Proposal {
	id, name, _ := strings.Cut(text, ":")
	name, what, given := strings.Cut(name, ":")
	if !given {
		what = id
	}
	p, ok := workshop[name]
	if !ok {
		panic("no tool " + name)
	}
	p.CallID, p.Tool, p.Args, p.Digest = id, name, json.RawMessage(`{"of":"`+what+`"}`), "digest of "+what
	return p
}
