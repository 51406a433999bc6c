package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// jsonObject and jsonArray are values as the library takes them. In its errors it
// prints each value it refuses, which for these is one word and not the payload.
type (
	jsonObject map[string]any
	jsonArray  []any
)

func (jsonObject) String() string { return "object" }
func (jsonArray) String() string  { return "array" }

// valueOf turns decoded JSON into what the library takes, with numbers as exact as
// Go has them: the library takes a json.Number for a text.
func valueOf(v any, at string) (any, []Fault) {
	var wrong []Fault
	switch v := v.(type) {
	case json.Number:
		n, err := numberOf(v.String())
		if err != nil {
			return nil, []Fault{{at, shorten(err.Error())}}
		}
		return n, nil
	case []any:
		all := make(jsonArray, len(v))
		for i := range v {
			one, faults := valueOf(v[i], at+"/"+strconv.Itoa(i))
			all[i], wrong = one, append(wrong, faults...)
		}
		return all, wrong
	case map[string]any:
		all := make(jsonObject, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			one, faults := valueOf(v[name], at+pointerTo(name))
			all[name], wrong = one, append(wrong, faults...)
		}
		return all, wrong
	}
	return v, nil
}

// numberOf is a whole number of 64 bits however it is written, or else a float.
func numberOf(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %.40s is too large; write a smaller one, or text", text)
	}
	if strings.ContainsAny(text, ".eE") && (f >= 1<<53 || f <= -1<<53) { // below that floats are exact
		if r, ok := new(big.Rat).SetString(text); ok && r.IsInt() && r.Num().IsInt64() {
			return r.Num().Int64(), nil
		}
	}
	return f, nil
}

// kindOf names a value's type as a schema does.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case jsonArray, []any:
		return "array"
	case jsonObject, map[string]any:
		return "object"
	}
	return "number"
}
