package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// gate stands between a server and the protocol library. It refuses messages
// that two readers could understand differently, and it keeps a flood out of
// the library's queues, which have no bound of their own.
type gate struct {
	maxBytes int

	breach chan struct{} // closed at the first violation
	once   sync.Once
	why    error

	mu       sync.Mutex
	requests int            // requests of the server we have not answered
	notices  map[string]int // notifications handed on and not handled yet
}

func newGate(maxBytes int) *gate {
	return &gate{maxBytes: maxBytes, notices: make(map[string]int), breach: make(chan struct{})}
}

// breakOff ends the connection for a reason.
func (g *gate) breakOff(why error) {
	g.once.Do(func() {
		g.why = why
		close(g.breach)
	})
}

// broken is why the connection was broken off, nil if it was not.
func (g *gate) broken() error {
	select {
	case <-g.breach:
		return g.why
	default:
		return nil
	}
}

// Notifications that are handed on. Everything else a server tells unasked is
// dropped: nothing here would act on it.
const (
	toolsChanged     = "notifications/tools/list_changed"
	promptsChanged   = "notifications/prompts/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
	progressMade     = "notifications/progress"
	subscribed       = "notifications/subscriptions/acknowledged"
)

// noticeRoom is how many of a kind may wait. One word that a list changed is as
// good as many.
var noticeRoom = map[string]int{
	toolsChanged: 1, promptsChanged: 1, resourcesChanged: 1,
	progressMade: maxNotices, subscribed: maxNotices,
}

var errFlood = fmt.Errorf("the server asks more than %d things without waiting for answers", maxServerRequests)

// in looks at a message from the server and says whether to hand it on. An
// error is the end of the connection.
func (g *gate) in(message []byte) (bool, error) {
	ok, err := g.admit(message)
	if err != nil {
		g.breakOff(err)
	}
	return ok, err
}

func (g *gate) admit(message []byte) (bool, error) {
	if len(message) > g.maxBytes {
		return false, fmt.Errorf("the server sent a message of %d bytes, at most %d are allowed", len(message), g.maxBytes)
	}
	if err := checkMessage(message); err != nil {
		return false, fmt.Errorf("the server sent a message that is not strict JSON: %w", err)
	}
	head := readHead(message)
	if head.Method == nil {
		return true, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if head.ID != nil {
		if g.requests >= maxServerRequests {
			return false, errFlood
		}
		g.requests++
		return true, nil
	}
	if g.notices[*head.Method] >= noticeRoom[*head.Method] {
		return false, nil
	}
	g.notices[*head.Method]++
	return true, nil
}

// out looks at a message of ours.
func (g *gate) out(message []byte) {
	if readHead(message).Method == nil {
		g.mu.Lock()
		g.requests = max(0, g.requests-1)
		g.mu.Unlock()
	}
}

// handled makes room for the next notification of a kind.
func (g *gate) handled(method string) {
	g.mu.Lock()
	g.notices[method] = max(0, g.notices[method]-1)
	g.mu.Unlock()
}

// head is what decides how a message is treated.
type head struct {
	ID     jsontext.Value `json:"id"`
	Method *string        `json:"method"`
}

// readHead takes the empty head for what is none; the library refuses it then.
func readHead(message []byte) head {
	var h head
	if err := jsonv2.Unmarshal(message, &h); err != nil {
		return head{}
	}
	return h
}

// checkMessage reads every token once. The decoder finds bad syntax, doubled
// names and text that is not UTF-8.
func checkMessage(message []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(message))
	if d.PeekKind() != jsontext.KindBeginObject {
		return errors.New("it is not one object")
	}
	for {
		if _, err := d.ReadToken(); err != nil {
			return strictProblem(err)
		}
		if d.StackDepth() > maxDepth {
			return fmt.Errorf("it nests deeper than %d levels", maxDepth)
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return errors.New("something follows the object")
	}
	return nil
}

// strictProblem leaves out what the message said: it is a stranger's text.
func strictProblem(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends too early")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return errors.New("a field is given twice")
	case errors.As(err, &s):
		return fmt.Errorf("bad text at byte %d", s.ByteOffset)
	}
	return errors.New("it cannot be read")
}
