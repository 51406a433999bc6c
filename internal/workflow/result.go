package workflow

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// What a stage came to. Next is asked after ok and skip.
const (
	OK    = "ok"
	Retry = "retry"
	Skip  = "skip"
	Fail  = "fail"
)

// Proceed is the gate's leave to begin.
const Proceed = "proceed"

// StageResult is all that Next and later stages learn of a stage. Its transcript
// is no part of it.
type StageResult struct {
	Stage   string          `json:"stage"`
	Status  string          `json:"status"`
	Attempt int             `json:"attempt"` // from 1
	Visit   int             `json:"visit"`   // from 1: how often the run has entered the stage
	Turns   int             `json:"turns"`
	CapHit  bool            `json:"capHit,omitzero"`
	Output  json.RawMessage `json:"output,omitzero"` // the completion payload, if there is one
}

// Context is what a stage's body and rules know. Setup writes it; nothing later does.
type Context struct {
	Task         string                     `json:"task"`
	Attempt      int                        `json:"attempt"`
	Visit        int                        `json:"visit"`
	Reason       string                     `json:"reason,omitzero"` // why the attempt before this one did not do
	AllowedTools []string                   `json:"allowedTools"`    // those the session really has
	Upstream     []StageResult              `json:"upstream"`        // the latest of each stage, in declared order
	Values       map[string]json.RawMessage `json:"values,omitzero"` // of the stage's own names
}

var (
	resultNames  = []string{"stage", "status", "attempt", "visit", "turns", "capHit", "output"}
	contextNames = []string{"task", "attempt", "visit", "reason", "allowedTools", "completionTool", "turnCap", "upstream"}
)

// fields are the result's as rules see them. A missing output is empty, so that
// has(result.output.x) is false and no error.
func (r StageResult) fields() (map[string]any, error) {
	output, err := decode(r.Output)
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = map[string]any{}
	}
	return map[string]any{
		"stage": r.Stage, "status": r.Status, "attempt": int64(r.Attempt), "visit": int64(r.Visit),
		"turns": int64(r.Turns), "capHit": r.CapHit, "output": output,
	}, nil
}

// fields are the context's as rules and templates see them.
func (c Context) fields(s Stage) (map[string]any, error) {
	upstream := map[string]any{}
	for _, r := range c.Upstream {
		fields, err := r.fields()
		if err != nil {
			return nil, err
		}
		upstream[r.Stage] = fields
	}
	tools := make([]any, len(c.AllowedTools))
	for i, t := range c.AllowedTools {
		tools[i] = t
	}
	all := map[string]any{
		"task": c.Task, "attempt": int64(c.Attempt), "visit": int64(c.Visit), "reason": c.Reason,
		"allowedTools": tools, "completionTool": s.CompletionTool, "turnCap": int64(s.TurnCap), "upstream": upstream,
	}
	for name, raw := range c.Values {
		value, err := decode(raw)
		if err != nil {
			return nil, err
		}
		all[name] = value
	}
	return all, nil
}

// decode reads JSON with whole numbers as int64.
func decode(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := decodeNumbers(raw)
	if err != nil {
		return nil, err
	}
	return numbers(v), nil
}

// decodeNumbers reads JSON with numbers as they are written.
func decodeNumbers(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i
		}
		f, _ := v.Float64() // out of range is infinite, which compares as it should
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}
