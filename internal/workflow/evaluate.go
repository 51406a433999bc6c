package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxCost bounds the evaluation of a rule, in steps of the evaluator.
const maxCost = 1_000_000

// maxValue bounds a value shown in an error, in bytes.
const maxValue = 300

// EvalError is a rule that could not be evaluated, with what it was given.
type EvalError struct {
	Stage, Field string
	Expression   string
	Values       map[string]string // as JSON, shortened, by name
	Err          error
}

func (e *EvalError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "stage %s, %s: %v, in %s", e.Stage, e.Field, e.Err, e.Expression)
	for i, name := range slices.Sorted(maps.Keys(e.Values)) {
		b.WriteString([]string{", where ", ", "}[min(i, 1)])
		b.WriteString(name + " = " + e.Values[name])
	}
	return b.String()
}

func (e *EvalError) Unwrap() error { return e.Err }

// evaluate compiles and runs a rule of a stage.
func (s Stage) evaluate(text string, sc scope, result *StageResult, c *Context) (ref.Val, rule, error) {
	fail := func(values map[string]any, r rule, err error) error {
		return &EvalError{Stage: s.ID, Field: sc.field, Expression: text, Values: r.shown(values), Err: err}
	}
	r, wrong := compile(text, sc)
	if len(wrong) > 0 {
		return nil, r, fail(nil, r, errors.New(wrong[0].text))
	}
	values, err := sc.values(s, result, c)
	if err != nil {
		return nil, r, fail(nil, r, err)
	}
	program, err := r.env.Program(r.ast, cel.CostLimit(maxCost))
	if err != nil {
		return nil, r, fail(values, r, err)
	}
	v, _, err := program.Eval(values)
	if err != nil {
		return nil, r, fail(values, r, err)
	}
	return v, r, nil
}

// values are the variables of a scope.
func (sc scope) values(s Stage, result *StageResult, c *Context) (map[string]any, error) {
	all := map[string]any{}
	if sc.result {
		fields, err := result.fields()
		if err != nil {
			return nil, fmt.Errorf("reading the result: %w", err)
		}
		for name, v := range fields {
			all["result."+name] = v
		}
	}
	if sc.ctx {
		for _, name := range sc.inputs {
			all["ctx."+name] = nil
		}
		fields, err := c.fields(s)
		if err != nil {
			return nil, fmt.Errorf("reading the context: %w", err)
		}
		for name, v := range fields {
			all["ctx."+name] = v
		}
	}
	return all, nil
}

// shown are the values an expression names, as a person can read them.
func (r rule) shown(values map[string]any) map[string]string {
	all := map[string]string{}
	for _, p := range r.paths {
		if len(p) < 2 {
			continue
		}
		name := p[0] + "." + p[1]
		v, ok := values[name]
		if !ok {
			continue
		}
		if steps, ok := v.(map[string]any); ok && name == "ctx.upstream" && len(p) > 2 {
			name, v = name+"."+p[2], steps[p[2]]
		}
		b, err := json.Marshal(v)
		if err != nil {
			b = []byte(err.Error())
		}
		if len(b) > maxValue {
			b = append([]byte(strings.ToValidUTF8(string(b[:maxValue]), "")), "…"...)
		}
		all[name] = string(b)
	}
	return all
}

// native turns a rule's answer into what encoding/json writes.
func native(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool, types.Int, types.Uint, types.Double, types.String:
		return v.Value(), nil
	case traits.Mapper:
		all := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, ok := key.Value().(string)
			if !ok {
				return nil, fmt.Errorf("a name is %v of type %s; write text", key.Value(), key.Type().TypeName())
			}
			item, err := native(v.Get(key))
			if err != nil {
				return nil, err
			}
			all[name] = item
		}
		return all, nil
	case traits.Lister:
		all := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			item, err := native(it.Next())
			if err != nil {
				return nil, err
			}
			all = append(all, item)
		}
		return all, nil
	}
	return nil, fmt.Errorf("a value of type %s has no JSON form", v.Type().TypeName())
}
