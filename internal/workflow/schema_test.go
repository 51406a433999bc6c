package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func stageWith(schema string) Stage {
	return Stage{ID: "S", CompletionTool: "submit", CompletionSchema: json.RawMessage(schema)}
}

const planSchema = `{"type":"object","additionalProperties":false,"required":["goal","steps"],"properties":{
	"goal":{"type":"string","minLength":1},
	"steps":{"type":"array","items":{"type":"object","required":["file"],"properties":{"file":{"type":"string"}}}},
	"who":{"anyOf":[{"type":"string"},{"type":"array"}]},
	"n":{"type":"integer","minimum":3}}}`

func TestAccept(t *testing.T) {
	s := stageWith(planSchema)
	for payload, want := range map[string][]string{
		`{"goal":"g","steps":[]}`:                            nil,
		`{"goal":"g","steps":[{"file":"a"}],"who":[],"n":3}`: nil,
		`{"goal":"","steps":[{"file":1},{}]}`:                {"- /goal: minLength: got 0, want 1", "- /steps/0/file: it is number, but has to be string", "- /steps/1: missing property 'file'"},
		`{}`:                                                 {"submit was not accepted:\n- the payload: missing properties 'goal', 'steps'\nCall submit again with the whole payload, corrected."},
		`{"goal":"g","steps":"[]"}`:                          {"- /steps: it is string, but has to be array (the value itself, not JSON inside a string)"},
		`{"goal":"g","steps":[],"x":1}`:                      {"additional properties 'x' not allowed"},
		`{"goal":"g","steps":[],"who":1}`:                    {"- /who: one of these has to be put right: it is number, but has to be string | it is number, but has to be array"},
		`{"goal":"g","steps":[],"n":1e999999999}`:            {"/n"},
		`[]`:                                 {"the payload: it is array, but has to be object"},
		``:                                   {"it is not one JSON object"},
		`{"goal":"g","steps":[]} x`:          {"it is not one JSON object"},
		`{"goal":"g","goal":"h","steps":[]}`: {"unique names"},
		"{\"goal\":\"\xff\",\"steps\":[]}":   {"UTF-8"},
		`{"a":` + deep(100) + `}`:            {"nested more than 32 deep"},
		`{"goal":"` + strings.Repeat("x", 10<<20) + `"}`:           {"it has 10485771 bytes, at most 262144 are taken; write large results to files"},
		`{"goal":"g","steps":[` + strings.Repeat("1,", 99) + `1]}`: {"/steps/0: it is number", "and 80 more faults"},
	} {
		err := s.Accept([]byte(payload))
		var wrong *PayloadError
		if (err != nil) != (want != nil) || err != nil && !errors.As(err, &wrong) {
			t.Errorf("%.60s: %v", payload, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%.60s: %v, want %q", payload, err, w)
			}
		}
		if err != nil && len(err.Error()) > (maxFaults+2)*(maxFault+100) {
			t.Errorf("%.60s: %d bytes of faults", payload, len(err.Error()))
		}
	}
}

// TestAcceptBadSchema shows that a definition's mistake is not told as the model's.
func TestAcceptBadSchema(t *testing.T) {
	var wrong *PayloadError
	if err := stageWith(`{"type":"objekt"}`).Accept([]byte(`{}`)); err == nil || errors.As(err, &wrong) {
		t.Error(err)
	}
}

func TestDepth(t *testing.T) {
	for text, want := range map[string]int{`1`: 0, `{}`: 1, `{"a":[{}]}`: 3, `["[[\"[[",[]]`: 2} {
		if got := depth([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// TestHeavySchema shows that schemas whose checks multiply are refused, and that
// ordinary recursion is not.
func TestHeavySchema(t *testing.T) {
	chain := func(format string) string {
		var defs []string
		for i := range 40 {
			defs = append(defs, fmt.Sprintf(`"d%d":%s`, i, strings.ReplaceAll(format, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1))))
		}
		return `{"type":"object","$defs":{` + strings.Join(defs, ",") + `,"d40":{}},"properties":{"a":{"$ref":"#/$defs/d0"}}}`
	}
	for _, c := range []struct {
		schema string
		heavy  bool
	}{
		{planSchema, false},
		{`{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}},"additionalProperties":{"$ref":"#"}}`, false},
		{`{"type":"object","$defs":{"v":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/v"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/v"}}]}},"properties":{"v":{"$ref":"#/$defs/v"}}}`, false},
		{chain(`{"allOf":[NEXT]}`), false},
		{chain(`{"allOf":[NEXT,NEXT]}`), true},
		{chain(`{"anyOf":[{"items":NEXT},{"items":NEXT}]}`), true},
		{`{"type":"object","allOf":[{"$ref":"#"}]}`, true},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"allOf":[{"items":{"$ref":"#/$defs/a"}},{"items":{"$ref":"#/$defs/a"}}]}}}`, true},
	} {
		_, err := compileSchema([]byte(c.schema))
		if (err != nil) != c.heavy || err != nil && !strings.Contains(err.Error(), "for ever") {
			t.Errorf("%.100s: %v", c.schema, err)
		}
	}
}
