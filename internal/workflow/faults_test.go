package workflow

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// faultsFor are the faults of a payload as lines.
func faultsFor(t *testing.T, schema, payload string) []string {
	t.Helper()
	err := stageWith(schema).Accept([]byte(payload))
	var wrong *PayloadError
	if errors.As(err, &wrong) {
		return wrong.lines("-")
	} else if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return nil
}

// TestFaults shows what a model is told for each keyword: where, what, and no
// more than is wrong.
func TestFaults(t *testing.T) {
	in := func(property string) string {
		return `{"type":"object","$defs":{"n":{"type":"object","required":["x"],"properties":{"x":{"type":"integer"}}}},"properties":{"a":` + property + `}}`
	}
	for _, c := range []struct {
		property, value string
		want            []string
	}{
		{`{"$ref":"#/$defs/n"}`, `{"x":1.5}`, []string{"/a/x: it is number, but has to be integer"}},
		{`{"$ref":"#/$defs/n","minProperties":2}`, `{}`, []string{"/a: minProperties: got 0, want 2", "/a: missing property 'x'"}},
		{`{"allOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}`, `{}`, []string{"/a: missing property 'x'"}},
		{`{"prefixItems":[{"type":"string"},{"$ref":"#/$defs/n"}],"items":{"type":"null"}}`, `[1,{"x":""},null,2]`, []string{"/a/0: it is number, but has to be string", "/a/1/x: it is string, but has to be integer", "/a/3: it is number, but has to be null"}},
		{`{"items":{"type":["object","null"]}}`, `["{}"]`, []string{"/a/0: it is string, but has to be object or null (the value itself, not JSON inside a string)"}},
		{`{"additionalProperties":false,"patternProperties":{"^y":{"type":"null"}}}`, `{"y/1":1,"z":1,"w":1}`, []string{"/a/y~11: it is number, but has to be null", "/a: additional properties 'w', 'z' not allowed"}},
		{`{"additionalProperties":{"maxLength":1}}`, `{"~":"ab","c":"d"}`, []string{"/a/~0: maxLength: got 2, want 1"}},
		{`{"properties":{"%#\n é/~":{"type":"null"}}}`, `{"%#\n é/~":1}`, []string{"/a/%#\n é~1~0: it is number, but has to be null"}},
		{`{"propertyNames":{"maxLength":1}}`, `{"bb":1}`, []string{"/a: the name 'bb' is not allowed: maxLength: got 2, want 1"}},
		{`{"enum":["x",1,null,{"b":[]}]}`, `"y"`, []string{`/a: value must be one of 'x', 1, null, {"b":[]}`}},
		{`{"const":{"b":1}}`, `{"b":2}`, []string{`/a: value must be {"b":1}`}},
		{`{"minimum":3,"multipleOf":2}`, `1`, []string{"/a: minimum: got 1, want 3", "/a: multipleOf: got 1, want 2"}},
		{`{"maximum":3,"exclusiveMaximum":3}`, `3`, []string{"/a: exclusiveMaximum: got 3, want 3"}},
		{`{"pattern":"^[0-9]+$","minLength":3}`, `"é"`, []string{"/a: minLength: got 1, want 3", "/a: 'é' does not match pattern '^[0-9]+$'"}},
		{`{"pattern":"^z"}`, `"` + strings.Repeat("x", 1000) + `"`, []string{"/a: '" + strings.Repeat("x", 80) + "…' does not match pattern '^z'"}},
		{`{"minItems":3,"uniqueItems":true}`, `[{"b":1},{"b":1.0}]`, []string{"/a: minItems: got 2, want 3", "/a: uniqueItems: array items 1 and 0 are equal"}},
		{`{"maxItems":1}`, `[1,2]`, []string{"/a: maxItems: got 2, want 1"}},
		{`{"dependentRequired":{"b":["c","d"]}}`, `{"b":1}`, []string{"/a: properties 'c', 'd' required, if 'b' exists"}},
		{`{"dependentSchemas":{"b":{"required":["c"]}}}`, `{"b":1}`, []string{"/a: missing property 'c'"}},
		{`{"if":{"required":["b"]},"then":{"required":["c"]},"else":{"required":["d"]}}`, `{"b":1}`, []string{"/a: missing property 'c'"}},
		{`{"if":{"required":["b"]},"then":{"required":["c"]},"else":{"required":["d"]}}`, `{}`, []string{"/a: missing property 'd'"}},
		{`{"not":{"type":"string"}}`, `"b"`, []string{"/a: it is what the schema's not forbids"}},
		{`false`, `1`, []string{"/a: no value is allowed here; leave it out"}},
		{`{"contains":{"type":"null"}}`, `[1]`, []string{"/a: contains: array does not have an item matching the schema"}},
		{`{"contains":{"type":"null"},"maxContains":1}`, `[null,null]`, []string{"/a: maxContains: contains validated 2 items, greater than 1"}},
		{`{"oneOf":[{"type":"integer"},{"type":"number"}]}`, `1`, []string{"/a: it fits more than one of the alternatives"}},
		{`{"oneOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}`, `{"x":""}`, []string{"/a: one of these has to be put right: /a/x: it is string, but has to be integer | it is object, but has to be null"}},
		{`{"anyOf":[{"properties":{"b":{"type":"null"},"c":{"type":"null"}}}],"required":["d"]}`, `{"b":1,"c":1}`, []string{"/a: missing property 'd'", "/a: one of these has to be put right: /a/b: it is number, but has to be null | /a/c: it is number, but has to be null"}},
		{`{"allOf":[{"$ref":"#/$defs/n"}],"unevaluatedProperties":false}`, `{"x":1,"y":2,"z":3}`, []string{"/a: additional properties 'y', 'z' not allowed"}},
		{`{"properties":{"x":{}},"unevaluatedProperties":{"type":"null"}}`, `{"x":1,"y":2,"z":null}`, []string{"/a/y: it is number, but has to be null"}},
		{`{"prefixItems":[{}],"unevaluatedItems":{"type":"null"}}`, `[1,2]`, []string{`/a: type: 2 has type "integer", want "null"`}},
	} {
		if diff := cmp.Diff(c.want, faultsFor(t, in(c.property), `{"a":`+c.value+`}`)); diff != "" {
			t.Errorf("%s: %.100s: %s", c.property, c.value, diff)
		}
	}
}

// TestFaultsFar shows that the one bad item of many is found.
func TestFaultsFar(t *testing.T) {
	got := faultsFor(t, `{"type":"object","properties":{"a":{"items":{"type":"integer"}}}}`, `{"a":[`+strings.Repeat("1,", 100_000)+`null]}`)
	if !slices.Equal(got, []string{"/a/100000: it is null, but has to be integer"}) {
		t.Error(got)
	}
}

// TestFaultsWithoutEnd shows that looking for faults ends, and says so.
func TestFaultsWithoutEnd(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"items":{"anyOf":[{"type":"null"},{"items":{"type":"null"}}]}}}}`
	got := faultsFor(t, schema, `{"a":[`+strings.Repeat("[1],", 40_000)+`[1]]}`)
	if len(got) != maxFaults+1 || !strings.HasPrefix(got[maxFaults], "-: and at least ") {
		t.Errorf("%d: %s", len(got), got[len(got)-1])
	}
}

// TestManyAlternatives shows that a large payload is not taken where each of its
// values is checked very often.
func TestManyAlternatives(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"items":{"anyOf":[` + strings.Repeat(`{"type":"null"},`, 3000) + `{}]}}}}`
	if got := faultsFor(t, schema, `{"a":[1,2]}`); got != nil {
		t.Error(got)
	}
	got := faultsFor(t, schema, `{"a":[`+strings.Repeat("1,", 100_000)+`1]}`)
	if len(got) != 1 || !strings.Contains(got[0], "because the schema has so many alternatives") {
		t.Errorf("%.200q", got)
	}
}

// TestDraft shows how schemas are understood where validators differ.
func TestDraft(t *testing.T) {
	for _, c := range []struct {
		property, value string
		valid           bool
	}{
		// a whole number is one however it is written, and 64 bits of it count
		{`{"type":"integer"}`, `1`, true},
		{`{"type":"integer"}`, `1.0`, true},
		{`{"type":"integer"}`, `1e2`, true},
		{`{"type":"integer"}`, `1.5`, false},
		{`{"type":"integer"}`, `9007199254740993`, true},
		{`{"type":"integer"}`, `123456789012345678901234567890`, true},
		{`{"type":"number"}`, `1`, true},
		{`{"type":"number"}`, `"1"`, false},
		{`{"type":"string"}`, `1`, false},
		{`{"const":1}`, `1.0`, true},
		{`{"const":1.0}`, `1`, true},
		{`{"const":0.1}`, `0.1`, true},
		{`{"const":0.1}`, `0.10`, true},
		{`{"const":9007199254740992}`, `9007199254740993`, false},
		{`{"const":9007199254740992}`, `9007199254740993.0`, false},
		{`{"maximum":9007199254740992}`, `9007199254740993`, false},
		{`{"maximum":9007199254740992}`, `9007199254740992.0`, true},
		{`{"maximum":18446744073709551616}`, `18446744073709551615`, true},
		{`{"exclusiveMaximum":18446744073709551616}`, `18446744073709551615`, true},
		{`{"multipleOf":3}`, `9`, true},
		{`{"multipleOf":3}`, `10`, false},
		{`{"uniqueItems":true}`, `[1,1.0]`, false},
		{`{"uniqueItems":true}`, `[1,"1",true,null]`, true},
		{`{"const":false}`, `0`, false},
		{`{"enum":[null]}`, `null`, true},
		{`{"const":null}`, `false`, false},
		// beyond 64 bits numbers are floats
		{`{"const":100000000000000000000}`, `100000000000000000001`, true},
		{`{"multipleOf":2}`, `9007199254740993`, true},
		// format says, it does not check
		{`{"format":"date-time"}`, `"yesterday"`, true},
		{`{"contentMediaType":"application/json"}`, `"{"`, true},
		// keywords look at their own type only
		{`{"minLength":3}`, `1`, true},
		{`{"required":["b"]}`, `[]`, true},
		{`{"maxLength":1}`, `"é"`, true},
		{`{"pattern":"b"}`, `"abc"`, true},
		// beside $ref other keywords count
		{`{"$ref":"#/$defs/s","maxLength":1}`, `"ab"`, false},
		{`{"$ref":"#anchored","maxLength":1}`, `1`, false},
		{`{"items":{"type":"null"},"prefixItems":[{}]}`, `[1,null]`, true},
		{`{"items":{"type":"null"},"prefixItems":[{}]}`, `[1,1]`, false},
		{`{"contains":{"type":"null"},"minContains":0}`, `[1]`, true},
		// what is evaluated elsewhere is not left over
		{`{"allOf":[{"properties":{"b":{}}}],"unevaluatedProperties":false}`, `{"b":1}`, true},
		{`{"allOf":[{"properties":{"b":{}}}],"additionalProperties":false}`, `{"b":1}`, false},
		{`{"anyOf":[{"properties":{"b":{"type":"null"}}},{}],"unevaluatedProperties":false}`, `{"b":1}`, false},
		{`{"if":{"properties":{"b":{}}},"unevaluatedProperties":false}`, `{"b":1}`, true},
		{`{"contains":{"type":"null"},"unevaluatedItems":false}`, `[null]`, true},
		{`{"contains":{"type":"null"},"unevaluatedItems":false}`, `[null,1]`, false},
		{`{"dependentSchemas":{"b":{"properties":{"b":{}}}},"unevaluatedProperties":false}`, `{"b":1}`, true},
		{`{"unknown":{"type":5}}`, `1`, true},
		{`true`, `1`, true},
	} {
		schema := `{"type":"object","$defs":{"s":{"type":"string","$anchor":"anchored"}},"properties":{"a":` + c.property + `}}`
		if got := faultsFor(t, schema, `{"a":`+c.value+`}`); (got == nil) != c.valid {
			t.Errorf("%s: %s: %v", c.property, c.value, got)
		}
	}
}

// TestSchemaRefused shows what is said of a schema that is none, or would be
// understood differently from what is written.
func TestSchemaRefused(t *testing.T) {
	for property, want := range map[string]string{
		`null`:                           "/properties/a: it is null, but has to be a schema",
		`{"type":[]}`:                    "/properties/a/type: it is empty",
		`{"type":["null","null"]}`:       "null is there twice",
		`{"type":1}`:                     "there is no type 1; write one of array",
		`{"Type":"string"}`:              "/properties/a/Type: there is no such keyword; write type",
		`{"maxlength":3}`:                "write maxLength",
		`{"items":[{}]}`:                 "/properties/a/items: it is array, but has to be a schema",
		`{"items":null}`:                 "/properties/a/items: it is null",
		`{"anyOf":[]}`:                   "/properties/a/anyOf: it has to be a list of schemas",
		`{"anyOf":[{"not":1}]}`:          "/properties/a/anyOf/0/not: it is number",
		`{"properties":[]}`:              "/properties/a/properties: it is array, but has to be object",
		`{"patternProperties":{"(":{}}}`: "/properties/a/patternProperties/(: '(' is not valid regex",
		`{"required":"b"}`:               "/properties/a/required: it is string, but has to be a list of names",
		`{"required":["b","b"]}`:         "different names",
		`{"dependentRequired":{"b":1}}`:  "/properties/a/dependentRequired/b: it is number",
		`{"minLength":-1}`:               "it is -1, but has to be a whole number",
		`{"minLength":1.5}`:              "it is 1.5",
		`{"minLength":1e1}`:              "it is 1e1",
		`{"minLength":3000000000}`:       "it is 3000000000",
		`{"minLength":"1"}`:              "it is string, but has to be number",
		`{"uniqueItems":1}`:              "it is number, but has to be boolean",
		`{"multipleOf":0}`:               "it is 0, but only multiples of a whole number above 0 can be told",
		`{"multipleOf":0.01}`:            "it is 0.01, but only multiples",
		`{"maximum":1e400}`:              "1e400 is too large to be compared",
		`{"const":9007199254740993}`:     "9007199254740993 is too large to be compared",
		`{"enum":[[9007199254740993]]}`:  "/properties/a/enum/0/0: 9007199254740993 is too large",
		`{"enum":1}`:                     "/properties/a/enum: it is number, but has to be array",
		`{"title":1}`:                    "/properties/a/title: it is number, but has to be string",
		`{"additionalItems":false}`:      "it is not taken here; write items beside prefixItems",
		`{"dependencies":{}}`:            "write dependentRequired or dependentSchemas",
		`{"$dynamicRef":"#b"}`:           "it is not taken here; write $ref",
		`{"$anchor":"/b"}`:               "is not a name",
		`{"$schema":"x"}`:                "/properties/a/$schema: it is x; write https",
		`{"$id":"https://example.org/"}`: "/properties/a/$id",
		`{"$ref":"#b"}`:                  "/properties/a/$ref: #b is not found; write #/$defs/name",
		`{"$ref":"#/not"}`:               "not found",
		`{"$ref":"#/properties/a/type"}`: "not found",
		`{"$ref":"#/properties/%61"}`:    "not found",
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`:      "leads out of the schema",
		`{"$ref":"#/properties/a"}`:                                    "for ever",
		`{"$defs":{},"definitions":{}}`:                                "both Defs and Definitions",
		`{"allOf":[{"$anchor":"b"},{"$anchor":"b"}]}`:                  `$anchor "b" is there twice`,
		strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70): "nested more than 64 deep",
		`{"title":"` + strings.Repeat("x", MaxSchema) + `"}`:           "at most 65536 are allowed",
		`{"type":"null","type":"string"}`:                              "it is not JSON with unique names",
	} {
		schema := `{"type":"object","properties":{"a":` + property + `}}`
		if _, err := compileSchema(json.RawMessage(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", property, err, want)
		}
	}
}

// TestNames shows that names are looked at as these expressions would.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		shape string
		is    func(string) bool
	}{
		{`^[A-Za-z][A-Za-z0-9_]{0,63}$`, func(s string) bool { return isName(s, "_") }},
		{`^[A-Za-z][A-Za-z0-9_-]{0,63}$`, func(s string) bool { return isName(s, "_-") }},
		{`^[A-Za-z0-9](?:[A-Za-z0-9-]|_[A-Za-z0-9-]){0,31}__[A-Za-z0-9_-]+$`, isServerTool},
		{`^ctx(\.[A-Za-z_][A-Za-z0-9_]*)+$`, isPlaceholder},
	} {
		re := regexp.MustCompile(c.shape)
		var all []string
		for _, a := range []string{"", "a", "Z", "9", "_", "-", "@", "[", "`", "{", "é", "a_b", "ctx", "ctx.", strings.Repeat("a", 31), strings.Repeat("b", 32), strings.Repeat("_c", 31)} {
			for _, b := range []string{"", "_", "__", "___", ".", "..", "-", "a", ".9", "\n", " "} {
				for _, c := range []string{"", "x", "_", "-", "1", "a.b", "é", "\n", strings.Repeat("y", 32), strings.Repeat("z", 62)} {
					all = append(all, a+b+c)
				}
			}
		}
		for _, text := range all {
			if c.is(text) != re.MatchString(text) {
				t.Errorf("%s: %q: %t", c.shape, text, c.is(text))
			}
		}
	}
}

// FuzzAccept shows that a payload has faults exactly if the library does not take
// it, that they are few, and that they are about places it has.
func FuzzAccept(f *testing.F) {
	f.Add(planSchema, `{"goal":"","steps":[{"file":1},{}],"who":1,"n":1}`)
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"type":"null"}},"patternProperties":{"a":{"const":1}}}`, `{"a":2}`)
	f.Add(`{"type":"object","unevaluatedProperties":false,"allOf":[{"if":{"required":["a"]},"then":{"properties":{"a":{"contains":{"oneOf":[true,{"not":{}}]}}}}}]}`, `{"a":[],"b":1e3}`)
	f.Add(`{"type":"object","additionalProperties":{"$ref":"#"},"propertyNames":{"enum":["a~/"]},"minProperties":1}`, `{"a~/":{"a~/":{"b":0}}}`)
	f.Add(`{"type":"object","properties":{"a":{"uniqueItems":true,"items":{"multipleOf":3,"maximum":9007199254740992}}}}`, `{"a":[9007199254740993,9.0,9,18446744073709551615,1e300]}`)
	f.Fuzz(func(t *testing.T, schema, payload string) {
		tree, err := compileSchema(json.RawMessage(schema))
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("an error says nothing")
			}
			return
		}
		err = stageWith(schema).Accept([]byte(payload))
		var wrong *PayloadError
		if err != nil && (!errors.As(err, &wrong) || len(wrong.Faults) == 0 || len(wrong.Faults) > maxFaults+1) {
			t.Fatalf("%v", err)
		}
		var plain any
		if json.Unmarshal([]byte(payload), &plain) != nil {
			return
		}
		for i := 0; wrong != nil && i < len(wrong.Faults); i++ {
			if at := wrong.Faults[i]; at.Text == "" || len(at.Text) > maxFault+3 || !has(plain, at.Pointer) {
				t.Fatalf("%+v in %s", at, payload)
			}
		}
		decoded, _ := decodeNumbers(json.RawMessage(payload))
		v, unread := valueOf(decoded, "")
		if len(unread) > 0 || err != nil && len(wrong.Faults) == 1 && wrong.Faults[0].Pointer == "" {
			return // also what is refused before the library is asked
		}
		if valid := tree.library.Validate(v) == nil; valid != (err == nil) {
			t.Fatalf("the library says %t: %v", valid, err)
		}
	})
}

// has reports whether a JSON pointer leads to something.
func has(v any, pointer string) bool {
	if pointer == "" {
		return true
	}
	for _, step := range strings.Split(pointer[1:], "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch at := v.(type) {
		case map[string]any:
			below, ok := at[step]
			if !ok {
				return false
			}
			v = below
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(at) {
				return false
			}
			v = at[i]
		default:
			return false
		}
	}
	return true
}
