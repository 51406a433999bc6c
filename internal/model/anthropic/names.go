package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"stave/internal/model"
)

// The API takes names and ids of letters, digits, _ and -, of this length.
const (
	maxName = 64
	maxID   = 128
)

// wireName is the name a tool goes by at the API: its own, or, where that is
// not allowed, one that resembles it and is no other tool's.
func wireName(name string) string { return wireWord(name, maxName) }

func wireWord(s string, most int) string {
	if s != "" && len(s) <= most && !strings.ContainsFunc(s, notWire) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	mark := "_" + hex.EncodeToString(sum[:4])
	clean := strings.Map(func(r rune) rune {
		if notWire(r) {
			return '_'
		}
		return r
	}, s)
	return clean[:min(len(clean), most-len(mark))] + mark
}

func notWire(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
}

func validID(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, notWire)
}

// freeID is an id like the given one that is not taken.
func freeID(id string, taken map[string]bool) string {
	free := wireWord(id, maxID)
	for taken[free] {
		free = wireWord(free+"+", maxID) // the plus is not allowed and makes it another
	}
	return free
}

// toolNames leads back from the names at the API to ours, where they differ.
func toolNames(tools []model.ToolSpec) map[string]string {
	var names map[string]string
	for _, t := range tools {
		wire := wireName(t.Name)
		if wire == t.Name {
			delete(names, wire)
			continue
		}
		if names == nil {
			names = map[string]string{}
		}
		names[wire] = t.Name
	}
	return names
}
