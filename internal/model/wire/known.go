package wire

import (
	"encoding/json"
	"sync"

	"stave/internal/model/codec"
)

// maxKnownBytes is how much a memo remembers; past it, it begins anew.
const maxKnownBytes = 16 << 20

// memo remembers what pieces of requests were read as. A conversation comes
// again whole with every request: to read it anew each time would cost more
// than answering. Its zero value is ready.
type memo[T any] struct {
	mu    sync.Mutex
	seen  map[string]T
	bytes int
}

// read decodes a JSON text. What it returns may be shared and must not be changed.
func (m *memo[T]) read(raw []byte) (T, error) {
	m.mu.Lock()
	v, ok := m.seen[string(raw)]
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bytes += len(raw); m.seen == nil || m.bytes > maxKnownBytes {
		m.seen, m.bytes = map[string]T{}, len(raw)
	}
	m.seen[string(raw)] = v
	return v, nil
}

// known are the memos of a server.
type known struct {
	anthropic memo[anthropicMessage]
	chat      memo[chatMessage]
	responses memo[responsesItem]
	gemini    memo[geminiContent]

	anthropicTools memo[[]anthropicTool]
	chatTools      memo[[]chatTool]
	responsesTools memo[[]responsesTool]
	geminiTools    memo[[]geminiTools]
}

// readRequest decodes a request: the list and the tools by their memos, where
// they are found under these names, and the rest as usual.
func readRequest[T, U any](body []byte, in any, listName string, list *[]T, pieces *memo[T], tools *[]U, sets *memo[[]U]) error {
	var raw [][]byte
	var rawTools []byte
	rest := []byte{'{'}
	s := codec.Scan(body)
	s.Object(func(name []byte) {
		switch {
		case string(name) == listName && raw == nil:
			raw = [][]byte{}
			s.List(func() { raw = append(raw, s.Value()) })
		case string(name) == "tools" && rawTools == nil:
			rawTools = s.Value()
		default:
			rest = append(codec.Name(rest, string(name)), s.Value()...)
		}
	})
	if !s.Ok() {
		return json.Unmarshal(body, in)
	}
	if err := json.Unmarshal(append(rest, '}'), in); err != nil {
		return err
	}
	if rawTools != nil {
		var err error
		if *tools, err = sets.read(rawTools); err != nil {
			return err
		}
	}
	if raw == nil {
		return nil
	}
	*list = make([]T, len(raw))
	for i := range raw {
		var err error
		if (*list)[i], err = pieces.read(raw[i]); err != nil {
			return err
		}
	}
	return nil
}
