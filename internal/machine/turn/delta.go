package turn

import (
	"bytes"
	"unicode/utf8"
)

// The canonical bytes of a delta that is nothing but text.
var deltaBegin, deltaEnd = []byte(`{"content":"`), []byte(`"}`)

// ReadDelta reads a delta of plain text from its canonical bytes, without a
// decoder; false says that it is not so plain.
func ReadDelta(payload []byte) (AssistantDelta, bool) {
	text, begins := bytes.CutPrefix(payload, deltaBegin)
	text, ends := bytes.CutSuffix(text, deltaEnd)
	if !begins || !ends || !utf8.Valid(text) {
		return AssistantDelta{}, false
	}
	for _, c := range text {
		if c == '"' || c == '\\' || c < ' ' {
			return AssistantDelta{}, false
		}
	}
	return AssistantDelta{Content: string(text)}, true
}
