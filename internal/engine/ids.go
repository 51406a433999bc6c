package engine

import (
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/google/uuid"
)

// NewID returns prefix_ and the hex of a time-ordered id.
func NewID(prefix string) string {
	id, err := uuid.NewV7()
	if err != nil {
		panic("the system has no randomness: " + err.Error())
	}
	return prefix + "_" + hex.EncodeToString(id[:])
}

// unreadable keeps what can be shown of arguments that are not JSON.
func unreadable(raw string) json.RawMessage {
	if len(raw) > maxInvalidArgs {
		raw = raw[:maxInvalidArgs]
	}
	b, err := json.Marshal(map[string]string{"unreadable": strings.ToValidUTF8(raw, "\uFFFD")})
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}
