package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/common/types/ref"
)

// Setup computes the stage's own names and returns the context with them.
func (s Stage) Setup(c Context) (Context, error) {
	values := map[string]json.RawMessage{}
	for _, in := range s.Context {
		sc := s.inputScope()
		sc.field = "context." + in.Name
		v, _, err := s.evaluate(in.Value, sc, nil, &c)
		if err != nil {
			return c, err
		}
		plain, err := native(v)
		if err == nil {
			values[in.Name], err = json.Marshal(plain)
		}
		if err != nil {
			return c, &EvalError{Stage: s.ID, Field: sc.field, Expression: in.Value, Err: err}
		}
	}
	c.Values = values
	return c, nil
}

// CheckGate says whether the stage begins: proceed, retry or skip. A rule's true
// is proceed and its false is skip; without a rule a stage proceeds.
func (s Stage) CheckGate(c Context) (string, error) {
	if s.Gate == "" {
		return Proceed, nil
	}
	v, _, err := s.evaluate(s.Gate, s.gateScope(), nil, &c)
	if err != nil {
		return "", err
	}
	return s.verdict(v, s.Gate, s.gateScope(), Proceed, Skip)
}

// Judge says what an attempt came to: ok, retry, skip or fail. A rule's true is ok
// and its false is retry. An attempt that used up its turns is a retry, unless
// the rule itself asks about result.capHit.
func (s Stage) Judge(c Context, result StageResult) (string, error) {
	if s.Assert == "" {
		if result.CapHit {
			return Retry, nil
		}
		return OK, nil
	}
	if result.CapHit {
		if r, wrong := compile(s.Assert, s.assertScope()); len(wrong) == 0 && !r.mentions("result", "capHit") {
			return Retry, nil
		}
	}
	v, _, err := s.evaluate(s.Assert, s.assertScope(), &result, &c)
	if err != nil {
		return "", err
	}
	return s.verdict(v, s.Assert, s.assertScope(), OK, Retry)
}

// Choose says what follows the stage: the first choice that holds. It sees the
// result and nothing else. A choice without stages ends the run.
func (s Stage) Choose(result StageResult) (Choice, error) {
	if len(s.Next) == 0 {
		return Choice{Stages: []string{}, Execution: Sequential}, nil
	}
	for _, c := range s.Next {
		if c.When == "" {
			return c, nil
		}
		v, _, err := s.evaluate(c.When, s.nextScope(), &result, nil)
		if err != nil {
			return Choice{}, err
		}
		holds, err := s.verdict(v, c.When, s.nextScope(), "true", "false")
		if err != nil {
			return Choice{}, err
		}
		if holds == "true" {
			return c, nil
		}
	}
	return Choice{}, &EvalError{Stage: s.ID, Field: "next", Expression: s.Next[len(s.Next)-1].When, Err: errors.New("no choice holds")}
}

// verdict reads a rule's answer: a bool, or one of the texts of its scope.
func (s Stage) verdict(v ref.Val, text string, sc scope, yes, no string) (string, error) {
	switch answer := v.Value().(type) {
	case bool:
		if answer {
			return yes, nil
		}
		return no, nil
	case string:
		if slices.Contains(sc.verdicts, answer) {
			return answer, nil
		}
	}
	err := fmt.Errorf("it comes to %.80v; write a rule that comes to true or false", v.Value())
	if len(sc.verdicts) > 0 {
		err = fmt.Errorf("it comes to %.80v, which is not true, false or one of %s", v.Value(), list(sc.verdicts))
	}
	return "", &EvalError{Stage: s.ID, Field: sc.field, Expression: text, Err: err}
}

// Merge puts a result among the others: the latest of each stage, in declared order.
func (d Definition) Merge(upstream []StageResult, result StageResult) []StageResult {
	latest := map[string]StageResult{}
	for _, r := range upstream {
		latest[r.Stage] = r
	}
	latest[result.Stage] = result
	return slices.SortedStableFunc(maps.Values(latest), func(a, b StageResult) int {
		return d.index(a.Stage) - d.index(b.Stage)
	})
}
