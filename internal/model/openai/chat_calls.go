package openai

import (
	"cmp"
	"slices"

	"stave/internal/model"
)

// chatCalls puts tool calls together from their fragments. The index says which
// call a fragment belongs to; where servers leave it out, use it twice or give
// no ids, the rules of find decide.
type chatCalls struct {
	calls []*chatCall
	held  int
	next  int64 // the index of a call that comes without one
}

type chatCall struct {
	index int64
	id    string
	name  string
	args  []byte
	shape nesting
}

type chatCallDelta struct {
	Index    *int64 `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// addAll takes the fragments of one chunk. Named ones without an index that
// come together are as many calls.
func (c *chatCalls) addAll(deltas []chatCallDelta) error {
	for i := range deltas {
		d := &deltas[i]
		var call *chatCall
		if d.Index != nil || d.Function.Name == "" || len(deltas) == 1 {
			call = c.find(d)
		}
		if err := c.add(call, d); err != nil {
			return err
		}
	}
	return nil
}

func (c *chatCalls) add(call *chatCall, d *chatCallDelta) error {
	if call == nil {
		if d.ID == "" && d.Function.Name == "" {
			if d.Function.Arguments == "" {
				return nil
			}
			return broken("arguments came for a tool call that had not begun")
		}
		if len(c.calls) == model.MaxResponseCalls {
			return overLimit(model.MaxResponseCalls, "tool calls")
		}
		call = &chatCall{index: c.next}
		if d.Index != nil {
			call.index = *d.Index
		}
		c.next = max(c.next, call.index) + 1
		c.calls = append(c.calls, call)
	}
	if call.id == "" {
		call.id = d.ID
		c.held += len(d.ID)
	}
	if call.name == "" {
		call.name = d.Function.Name
		c.held += len(d.Function.Name)
	}
	if d.Function.Name != "" && d.Function.Name != call.name {
		return broken("a tool call changed its name on the way")
	}
	call.args = append(call.args, d.Function.Arguments...)
	call.shape.add(string(d.Function.Arguments))
	if c.held += len(d.Function.Arguments); c.held > model.MaxResponseBytes {
		return overLimit(model.MaxResponseBytes, "bytes of calls")
	}
	return nil
}

// find returns the call a fragment continues, or nil where it begins one.
func (c *chatCalls) find(d *chatCallDelta) *chatCall {
	for _, call := range slices.Backward(c.calls) {
		if d.Index != nil && call.index != *d.Index {
			continue
		}
		switch {
		case d.ID != "" && call.id != "" && d.ID != call.id:
			if d.Index != nil {
				return nil // another id at the same index: the index is used twice
			}
			continue
		case d.ID == "" && call.closedBefore(d):
			return nil
		case d.ID != "" && call.id == "" && d.Index == nil:
			return nil
		}
		return call
	}
	return nil
}

// closedBefore reports whether a fragment without an id comes too late for a
// call: its arguments are whole, and here is a name again.
func (c *chatCall) closedBefore(d *chatCallDelta) bool {
	name := d.Function.Name
	switch {
	case name == "":
		return false
	case c.shape.whole:
		return name != c.name || d.Function.Arguments != ""
	}
	return d.Index == nil && name != c.name && c.name != "" && len(c.args) == 0
}

// nesting watches arguments grow and knows when their outermost bracket closes.
// Looking at them as a whole after every fragment would cost the square.
type nesting struct {
	depth           int
	inText, escaped bool
	whole           bool
}

func (n *nesting) add(fragment string) {
	for i := range len(fragment) {
		switch c := fragment[i]; {
		case n.escaped:
			n.escaped = false
		case n.inText:
			n.escaped = c == '\\'
			n.inText = c != '"'
		case c == '"':
			n.inText = true
		case c == '{' || c == '[':
			n.depth++
		case c == '}' || c == ']':
			n.depth--
			n.whole = n.whole || n.depth == 0
		}
	}
}

func (c *chatCalls) list() []model.RawCall {
	slices.SortStableFunc(c.calls, func(a, b *chatCall) int { return cmp.Compare(a.index, b.index) })
	list := make([]model.RawCall, len(c.calls))
	for i, call := range c.calls {
		list[i] = model.RawCall{ID: call.id, Name: call.name, Args: orEmpty(string(call.args))}
	}
	return list
}
