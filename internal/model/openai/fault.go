package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// fault is an error in a service's own words. Services agree on little more
// than that there is a message somewhere.
type fault struct {
	message, kind, code string
}

type wireFault struct {
	Error   json.RawMessage `json:"error"`
	Object  text            `json:"object"`
	Message json.RawMessage `json:"message"`
	Detail  json.RawMessage `json:"detail"`
	Type    text            `json:"type"`
	Code    json.RawMessage `json:"code"`
}

// parseFault finds the message in a body of any shape.
func parseFault(body []byte) fault {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var w wireFault
	if json.Unmarshal(body, &w) != nil {
		return fault{message: string(body)}
	}
	return w.fault()
}

func (w wireFault) fault() fault {
	if present(w.Error) {
		var inner wireFault
		if json.Unmarshal(w.Error, &inner) != nil {
			return fault{message: plain(w.Error), kind: string(w.Type), code: plain(w.Code)}
		}
		inner.Error = nil
		return inner.fault()
	}
	f := fault{message: plain(w.Message), kind: string(w.Type), code: plain(w.Code)}
	if f.message == "" {
		f.message = plain(w.Detail)
	}
	return f
}

// is reports whether the fault has one of these codes or types.
func (f fault) is(names ...string) bool {
	return slices.Contains(names, f.code) || slices.Contains(names, f.kind)
}

// tellsOfWindow recognises a prompt that is too long where no code says so.
func (f fault) tellsOfWindow() bool {
	m := strings.ToLower(f.message)
	return slices.ContainsFunc([]string{
		"maximum context length", "context window", "context length exceeded",
		"exceeds the available context", "prompt is too long", "input is too long",
	}, func(words string) bool { return strings.Contains(m, words) })
}

func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) && !bytes.Equal(raw, []byte("false"))
}

// plain is a string without its quotes and anything else as it stands.
func plain(raw json.RawMessage) string {
	if !present(raw) {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
