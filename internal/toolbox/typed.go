package toolbox

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	jsonv2 "github.com/go-json-experiment/json"
)

// New makes a Tool from a function of typed arguments. The schema comes from A,
// a struct whose fields may carry these tags:
//
//	json        the field's name; omitempty or omitzero makes it optional
//	jsonschema  its description, read by the model
//	min, max    bounds of a number, of a string's length in characters, or of a list's
//	enum        the allowed strings, separated by commas
//
// It panics when A cannot be described, which only a change of the program can cause.
func New[A any](name, doc string, safety Safety, parallel bool, run func(context.Context, Env, A) (Output, error)) Tool {
	schema, err := schemaFor[A]()
	if err != nil {
		panic(fmt.Sprintf("toolbox: arguments of %s: %v", name, err))
	}
	text, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("toolbox: schema of %s: %v", name, err))
	}
	decode := func(raw json.RawMessage) (A, error) {
		var args A
		if err := checkSchema(schema, raw); err != nil {
			return args, err
		}
		// The schema has spoken already; this guards the types it cannot describe.
		if err := jsonv2.Unmarshal(raw, &args, jsonv2.RejectUnknownMembers(true)); err != nil {
			return args, fmt.Errorf("decoding arguments: %w", err)
		}
		return args, nil
	}
	// A call is checked and, mostly at once, run: what was read is not read again.
	var checked atomic.Pointer[read[A]]
	return Tool{
		Name: name, Description: doc, Schema: text, Safety: safety, Parallel: parallel,
		Check: func(raw json.RawMessage) error {
			args, err := decode(raw)
			if err == nil {
				checked.Store(&read[A]{string(raw), args})
			}
			return err
		},
		Run: func(ctx context.Context, env Env, raw json.RawMessage) (Output, error) {
			if c := checked.Swap(nil); c != nil && c.raw == string(raw) {
				return run(ctx, env, c.args)
			}
			args, err := decode(raw)
			if err != nil {
				return Output{}, err
			}
			return run(ctx, env, args)
		},
	}
}

// read is what arguments say.
type read[A any] struct {
	raw  string
	args A
}
