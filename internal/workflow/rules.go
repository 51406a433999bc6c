package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxCost bounds the evaluation of a rule, in steps of the evaluator.
const maxCost = 1_000_000

// maxValue bounds a value shown in an error.
const maxValue = 300

// scope is what one kind of rule sees and may answer.
type scope struct {
	field    string
	result   bool
	ctx      bool
	inputs   []string // the stage's own names in ctx
	verdicts []string // texts it may answer beside true and false
	boolean  bool     // must it answer at all with those
}

func (s Stage) inputNames() []string {
	names := make([]string, len(s.Context))
	for i, in := range s.Context {
		names[i] = in.Name
	}
	return names
}

func (s Stage) gateScope() scope {
	return scope{field: "gate", ctx: true, inputs: s.inputNames(), boolean: true, verdicts: []string{Proceed, Retry, Skip}}
}

func (s Stage) assertScope() scope {
	return scope{field: "assert", result: true, ctx: true, inputs: s.inputNames(), boolean: true, verdicts: []string{OK, Retry, Skip, Fail}}
}

func (s Stage) nextScope() scope { return scope{field: "next", result: true, boolean: true} }

func (s Stage) inputScope() scope { return scope{field: "context", ctx: true} }

// variables are the names of a scope with their types. They are qualified, so
// that the type checker knows every field without a type of ours.
func (sc scope) variables() map[string]*cel.Type {
	all := map[string]*cel.Type{}
	if sc.result {
		maps.Copy(all, map[string]*cel.Type{
			"result.stage": cel.StringType, "result.status": cel.StringType, "result.attempt": cel.IntType,
			"result.visit": cel.IntType, "result.turns": cel.IntType, "result.capHit": cel.BoolType, "result.output": cel.DynType,
		})
	}
	if sc.ctx {
		maps.Copy(all, map[string]*cel.Type{
			"ctx.task": cel.StringType, "ctx.attempt": cel.IntType, "ctx.visit": cel.IntType, "ctx.reason": cel.StringType,
			"ctx.allowedTools": cel.ListType(cel.StringType), "ctx.completionTool": cel.StringType, "ctx.turnCap": cel.IntType,
			"ctx.upstream": cel.MapType(cel.StringType, cel.DynType),
		})
		for _, name := range sc.inputs {
			all["ctx."+name] = cel.DynType
		}
	}
	return all
}

// rule is an expression that has passed the type checker.
type rule struct {
	text  string
	scope scope
	env   *cel.Env
	ast   *cel.Ast
	paths [][]string // what it names: result.output.steps as its parts
}

// fault is one mistake in an expression.
type fault struct {
	line int // of the expression, from 0
	text string
}

func compile(text string, sc scope) (rule, []fault) {
	if len(text) > MaxExpression {
		return rule{}, []fault{{0, fmt.Sprintf("the rule has %d bytes, at most %d are allowed; shorten it", len(text), MaxExpression)}}
	}
	options := []cel.EnvOption{cel.CrossTypeNumericComparisons(true), cel.ParserRecursionLimit(100)}
	variables := sc.variables()
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		options = append(options, cel.Variable(name, variables[name]))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return rule{}, []fault{{0, err.Error()}}
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return rule{}, faults(issues, sc)
	}
	r := rule{text: text, scope: sc, env: env, paths: paths(parsed.NativeRep())}
	if r.ast, issues = env.Check(parsed); issues.Err() != nil {
		return r, faults(issues, sc)
	}
	return r, r.answers()
}

func faults(issues *cel.Issues, sc scope) []fault {
	var all []fault
	for _, e := range issues.Errors() {
		text := strings.TrimSuffix(e.Message, " (in container '')")
		if strings.Contains(text, "undeclared reference") {
			text += "; known: " + list(slices.Sorted(maps.Keys(sc.variables())))
		}
		all = append(all, fault{max(0, e.Location.Line()-1), text})
	}
	return all
}

// answers checks what the rule comes to as far as its type tells.
func (r rule) answers() []fault {
	if !r.scope.boolean {
		return nil
	}
	want := "true or false"
	if len(r.scope.verdicts) > 0 {
		want += ", or one of the texts " + list(r.scope.verdicts)
	}
	switch t := r.ast.OutputType(); {
	case t.Kind() == types.BoolKind || t.Kind() == types.DynKind:
	case t.Kind() == types.StringKind && len(r.scope.verdicts) > 0:
	default:
		return []fault{{0, fmt.Sprintf("the rule comes to a value of type %s; write one that comes to %s", t, want)}}
	}
	var all []fault
	for _, text := range leaves(r.ast.NativeRep().Expr()) {
		if !slices.Contains(r.scope.verdicts, text) {
			all = append(all, fault{0, fmt.Sprintf("the rule may come to %q; write one that comes to %s", text, want)})
		}
	}
	return all
}

// leaves are the texts written out as a rule's possible answers.
func leaves(e ast.Expr) []string {
	switch e.Kind() {
	case ast.LiteralKind:
		if text, ok := e.AsLiteral().Value().(string); ok {
			return []string{text}
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Conditional {
			return append(leaves(call.Args()[1]), leaves(call.Args()[2])...)
		}
	}
	return nil
}

// paths lists the names an expression reads, each as long as it is constant.
func paths(a *ast.AST) [][]string {
	var all [][]string
	bound, part := map[string]bool{}, map[int64]bool{}
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			c := e.AsComprehension()
			bound[c.IterVar()], bound[c.IterVar2()], bound[c.AccuVar()] = true, true, true
		}
		if part[e.ID()] {
			return
		}
		if p := chain(e, part); len(p) > 0 {
			all = append(all, p)
		}
	}))
	return slices.DeleteFunc(all, func(p []string) bool { return bound[p[0]] })
}

// chain reads a row of names and marks its links as seen.
func chain(e ast.Expr, part map[int64]bool) []string {
	var operand ast.Expr
	var name string
	switch e.Kind() {
	case ast.IdentKind:
		return []string{e.AsIdent()}
	case ast.SelectKind:
		operand, name = e.AsSelect().Operand(), e.AsSelect().FieldName()
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index || call.Args()[1].Kind() != ast.LiteralKind {
			return nil
		}
		text, ok := call.Args()[1].AsLiteral().Value().(string)
		if !ok {
			return nil
		}
		operand, name = call.Args()[0], text
	default:
		return nil
	}
	before := chain(operand, part)
	if before == nil {
		return nil
	}
	part[operand.ID()] = true
	return append(before, name)
}

// mentions reports whether the rule reads a name such as result.capHit.
func (r rule) mentions(names ...string) bool {
	return slices.ContainsFunc(r.paths, func(p []string) bool { return slices.Equal(p, names) })
}

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
