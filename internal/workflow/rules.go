package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// scope is what one kind of rule sees and may answer.
type scope struct {
	field    string
	result   bool
	ctx      bool
	inputs   []string // the stage's own names in ctx
	verdicts []string // texts it may answer beside true and false
	boolean  bool     // it answers with true, false or those
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
