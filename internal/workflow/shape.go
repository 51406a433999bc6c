package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// form is what a keyword of JSON Schema is followed by.
type form int

const (
	aSchema form = iota
	someSchemas
	namedSchemas
	patternSchemas
	aType
	aText
	aPattern
	anAnchor
	aBoolean
	aNumber
	aDivisor
	aCount
	someNames
	namedNames
	aList
	anything
	notTaken
)

type keyword struct {
	name string
	form form
	say  string // of one that is not taken: what to write
}

// keywords are those of draft 2020-12. The library takes much for a schema that is
// none, and takes names in any case, so we look first.
var keywords = []keyword{
	{name: "type", form: aType},
	{name: "enum", form: aList},
	{name: "const", form: anything},
	{name: "properties", form: namedSchemas},
	{name: "required", form: someNames},
	{name: "additionalProperties", form: aSchema},
	{name: "items", form: aSchema},
	{name: "prefixItems", form: someSchemas},
	{name: "contains", form: aSchema},
	{name: "title", form: aText},
	{name: "description", form: aText},
	{name: "format", form: aText},
	{name: "default", form: anything},
	{name: "examples", form: aList},
	{name: "$comment", form: aText},
	{name: "minLength", form: aCount},
	{name: "maxLength", form: aCount},
	{name: "pattern", form: aPattern},
	{name: "minimum", form: aNumber},
	{name: "maximum", form: aNumber},
	{name: "multipleOf", form: aDivisor},
	{name: "exclusiveMinimum", form: aNumber},
	{name: "exclusiveMaximum", form: aNumber},
	{name: "minItems", form: aCount},
	{name: "maxItems", form: aCount},
	{name: "uniqueItems", form: aBoolean},
	{name: "minContains", form: aCount},
	{name: "maxContains", form: aCount},
	{name: "minProperties", form: aCount},
	{name: "maxProperties", form: aCount},
	{name: "propertyNames", form: aSchema},
	{name: "patternProperties", form: patternSchemas},
	{name: "dependentRequired", form: namedNames},
	{name: "dependentSchemas", form: namedSchemas},
	{name: "unevaluatedItems", form: aSchema},
	{name: "unevaluatedProperties", form: aSchema},
	{name: "allOf", form: someSchemas},
	{name: "anyOf", form: someSchemas},
	{name: "oneOf", form: someSchemas},
	{name: "not", form: aSchema},
	{name: "if", form: aSchema},
	{name: "then", form: aSchema},
	{name: "else", form: aSchema},
	{name: "$ref", form: aText},
	{name: "$defs", form: namedSchemas},
	{name: "definitions", form: namedSchemas},
	{name: "$id", form: aText},
	{name: "$schema", form: aText},
	{name: "$anchor", form: anAnchor},
	{name: "deprecated", form: aBoolean},
	{name: "readOnly", form: aBoolean},
	{name: "writeOnly", form: aBoolean},
	{name: "contentEncoding", form: aText},
	{name: "contentMediaType", form: aText},
	{name: "contentSchema", form: aSchema},
	// of other drafts, or with no use in a schema that is whole in itself
	{name: "additionalItems", form: notTaken, say: "items beside prefixItems"},
	{name: "dependencies", form: notTaken, say: "dependentRequired or dependentSchemas"},
	{name: "$recursiveRef", form: notTaken, say: "$ref"},
	{name: "$recursiveAnchor", form: notTaken, say: "$anchor"},
	{name: "$dynamicRef", form: notTaken, say: "$ref"},
	{name: "$dynamicAnchor", form: notTaken, say: "$anchor"},
	{name: "$vocabulary", form: notTaken, say: "keywords of draft 2020-12 only"},
}

var schemaTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// shaper finds out whether a JSON value is a schema.
type shaper struct{ faults []Fault }

func (sh *shaper) fail(at, format string, args ...any) {
	sh.faults = append(sh.faults, Fault{at, shorten(fmt.Sprintf(format, args...))})
}

func (sh *shaper) schema(at string, v any) {
	object, ok := v.(map[string]any)
	if _, boolean := v.(bool); !ok && !boolean {
		sh.fail(at, "it is %s, but has to be a schema: an object or a boolean", kindOf(v))
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		below := at + pointerTo(name)
		for _, k := range keywords {
			switch {
			case k.name == name && k.form == notTaken:
				sh.fail(below, "it is not taken here; write %s", k.say)
			case k.name == name:
				sh.keyword(below, k.form, object[name])
			case strings.EqualFold(k.name, name):
				sh.fail(below, "there is no such keyword; write %s", k.name)
			}
		}
	}
	if s, ok := object["$schema"]; ok && s != draft {
		sh.fail(at+"/$schema", "it is %.80v; write %s or leave it out", s, draft)
	}
}

func (sh *shaper) keyword(at string, want form, v any) {
	switch want {
	case aSchema:
		sh.schema(at, v)
	case someSchemas:
		all, ok := v.([]any)
		if !ok || len(all) == 0 {
			sh.fail(at, "it has to be a list of schemas")
		}
		for i, one := range all {
			sh.schema(at+"/"+strconv.Itoa(i), one)
		}
	case namedSchemas, patternSchemas, namedNames:
		sh.named(at, want, v)
	case aType:
		sh.types(at, v)
	case aText, aPattern, anAnchor:
		sh.text(at, want, v)
	case aBoolean:
		if _, ok := v.(bool); !ok {
			sh.fail(at, "it is %s, but has to be boolean", kindOf(v))
		}
	case aNumber, aDivisor, aCount:
		sh.number(at, want, v)
	case someNames:
		sh.names(at, v)
	case aList:
		if _, ok := v.([]any); !ok {
			sh.fail(at, "it is %s, but has to be array", kindOf(v))
		}
		sh.exact(at, v)
	case anything:
		sh.exact(at, v)
	}
}

func (sh *shaper) named(at string, want form, v any) {
	object, ok := v.(map[string]any)
	if !ok {
		sh.fail(at, "it is %s, but has to be object", kindOf(v))
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		below := at + pointerTo(name)
		if want == namedNames {
			sh.names(below, object[name])
			continue
		}
		if want == patternSchemas {
			sh.pattern(below, name)
		}
		sh.schema(below, object[name])
	}
}

func (sh *shaper) types(at string, v any) {
	all, ok := v.([]any)
	if !ok {
		all = []any{v}
	}
	if len(all) == 0 {
		sh.fail(at, "it is empty; write one of %s", list(schemaTypes))
	}
	for i, t := range all {
		text, _ := t.(string)
		if !slices.Contains(schemaTypes, text) {
			sh.fail(at, "there is no type %.80v; write one of %s", t, list(schemaTypes))
		} else if slices.Contains(all[:i], t) {
			sh.fail(at, "%s is there twice", text)
		}
	}
}

func (sh *shaper) text(at string, want form, v any) {
	text, ok := v.(string)
	switch {
	case !ok:
		sh.fail(at, "it is %s, but has to be string", kindOf(v))
	case want == aPattern:
		sh.pattern(at, text)
	case want == anAnchor && CheckID(text) != nil:
		sh.fail(at, "%v", CheckID(text))
	}
}

func (sh *shaper) pattern(at, text string) {
	if _, err := regexp.Compile(text); err != nil {
		sh.fail(at, "%s is not valid regex: %v", quoted(text), err)
	}
}

func (sh *shaper) names(at string, v any) {
	all, ok := v.([]any)
	if !ok {
		sh.fail(at, "it is %s, but has to be a list of names", kindOf(v))
	}
	seen := map[string]bool{}
	for _, one := range all {
		name, ok := one.(string)
		if !ok || seen[name] {
			sh.fail(at, "it has %.80v, but has to be a list of different names", one)
		}
		seen[name] = true
	}
}

func (sh *shaper) number(at string, want form, v any) {
	n, ok := v.(json.Number)
	if !ok {
		sh.fail(at, "it is %s, but has to be number", kindOf(v))
		return
	}
	f, err := n.Float64()
	whole := err == nil && f == math.Trunc(f)
	switch {
	case want == aCount && (!whole || f < 0 || f > math.MaxInt32 || strings.ContainsAny(n.String(), "eE")):
		sh.fail(at, "it is %.40s, but has to be a whole number such as 3, not below 0", n)
	case want == aDivisor && (!whole || f <= 0):
		// The library divides floats, for which 0.3 is no multiple of 0.1.
		sh.fail(at, "it is %.40s, but only multiples of a whole number above 0 can be told; write one", n)
	default:
		sh.exact(at, v)
	}
}

// exact refuses numbers that are another one as a float, as which they are compared.
func (sh *shaper) exact(at string, v any) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		whole, isWhole := new(big.Int).SetString(v.String(), 10)
		if err != nil || isWhole && new(big.Float).SetInt(whole).Cmp(big.NewFloat(f)) != 0 {
			sh.fail(at, "%.40s is too large to be compared; write a smaller number, or text", v)
		}
	case []any:
		for i, one := range v {
			sh.exact(at+"/"+strconv.Itoa(i), one)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			sh.exact(at+pointerTo(name), v[name])
		}
	}
}
