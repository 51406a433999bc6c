package workflow

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
)

// dice make schemas and values that often meet.
type dice struct{ *rand.Rand }

func (d dice) one(of ...any) any { return of[d.IntN(len(of))] }

func (d dice) name() string { return d.one("a", "b", "c", "~/").(string) }

func (d dice) value(deep int) any {
	if deep > 0 && d.IntN(2) == 0 {
		if d.IntN(2) == 0 {
			all := []any{}
			for range d.IntN(4) {
				all = append(all, d.value(deep-1))
			}
			return all
		}
		all := map[string]any{}
		for range d.IntN(4) {
			all[d.name()] = d.value(deep - 1)
		}
		return all
	}
	return d.one(nil, true, "", "a", "bb", 0, 1, 3, 2.5, -1, json.Number("1.0"), json.Number("9007199254740993"))
}

func (d dice) some(deep int) []any {
	all := []any{}
	for range 1 + d.IntN(3) {
		all = append(all, d.schema(deep-1))
	}
	return all
}

func (d dice) schema(deep int) any {
	if deep <= 0 {
		return d.one(true, true, false, map[string]any{"type": d.one("null", "integer", "string", "object")}, map[string]any{"$ref": "#/$defs/a"})
	}
	s := map[string]any{}
	for range 1 + d.IntN(3) {
		switch k := d.one("type", "properties", "items", "prefixItems", "required", "additionalProperties", "patternProperties", "$ref",
			"allOf", "anyOf", "oneOf", "not", "if", "contains", "propertyNames", "dependentSchemas", "dependentRequired",
			"unevaluatedProperties", "unevaluatedItems", "enum", "const", "minLength", "maxItems", "minProperties", "uniqueItems",
			"minimum", "exclusiveMaximum", "multipleOf", "pattern").(string); k {
		case "type":
			s[k] = d.one("object", "array", "string", "integer", "number", []any{"null", "object"})
		case "properties", "dependentSchemas":
			s[k] = map[string]any{d.name(): d.schema(deep - 1), d.name(): d.schema(deep - 1)}
		case "patternProperties":
			s[k] = map[string]any{d.one("a", "^b", "~").(string): d.schema(deep - 1)}
		case "prefixItems", "allOf", "anyOf", "oneOf":
			s[k] = d.some(deep)
		case "if":
			s[k], s["then"], s["else"] = d.schema(deep-1), d.schema(deep-1), d.schema(deep-1)
		case "required":
			s[k] = []any{d.name()}
		case "dependentRequired":
			s[k] = map[string]any{d.name(): []any{d.name()}}
		case "$ref":
			s[k] = d.one("#/$defs/a", "#/$defs/b")
		case "enum":
			s[k] = []any{d.value(1), d.value(0)}
		case "const":
			s[k] = d.value(1)
		case "minLength", "maxItems", "minProperties", "minimum", "exclusiveMaximum", "multipleOf":
			s[k] = 1 + d.IntN(3)
		case "uniqueItems":
			s[k] = true
		case "pattern":
			s[k] = d.one("^a", "b$")
		default:
			s[k] = d.schema(deep - 1)
		}
	}
	return s
}

// throw makes a schema and a payload as text.
func (d dice) throw(t *testing.T) (schema, payload []byte) {
	t.Helper()
	top := map[string]any{
		"type": "object", "properties": map[string]any{"a": d.schema(3), "b": d.schema(2)},
		"$defs": map[string]any{"a": d.schema(2), "b": d.schema(1)},
	}
	if d.IntN(4) == 0 {
		top["additionalProperties"] = false
	}
	schema, err := json.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	payload, err = json.Marshal(map[string]any{"a": d.value(3), d.name(): d.value(2)})
	if err != nil {
		t.Fatal(err)
	}
	return schema, payload
}

// TestFaultsAgree shows for many schemas that there are faults exactly where the
// library says no, that they are about places the payload has, and that these do
// not depend on the order in which maps are gone through.
func TestFaultsAgree(t *testing.T) {
	valid, invalid := 0, 0
	for seed := range uint64(1000) {
		d := dice{rand.New(rand.NewPCG(seed, 1))}
		schema, payload := d.throw(t)
		tree, err := compileSchema(schema)
		if err != nil {
			continue // references in a circle, or numbers too large to be compared
		}
		decoded, _ := decodeNumbers(payload)
		v, _ := valueOf(decoded, "")
		no, faults := tree.library.Validate(v), tree.faults(payload)
		if (no == nil) != (len(faults) == 0) {
			t.Fatalf("seed %d: %s %s: %v, %v", seed, schema, payload, no, faults)
		}
		if no == nil {
			valid++
			continue
		}
		invalid++
		for _, f := range faults {
			if f.Text == "" || !has(decoded, f.Pointer) {
				t.Fatalf("seed %d: %s %s: %+v", seed, schema, payload, f)
			}
		}
		samePlace := func(a, b Fault) bool { return a.Pointer == b.Pointer }
		if again := tree.faults(payload); !slices.EqualFunc(faults, again, samePlace) {
			t.Fatalf("seed %d: %s %s: %v, then %v", seed, schema, payload, faults, again)
		}
	}
	if valid < 80 || invalid < 80 {
		t.Errorf("%d valid and %d invalid payloads show little", valid, invalid)
	}
}
