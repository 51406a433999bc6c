package anthropic

import (
	"slices"
	"strings"

	"stave/internal/model"
	"stave/internal/model/codec"
)

// conversation is what was written of one, turn by turn.
type conversation struct {
	told  codec.Messages // what the turns say
	turns []turn
	taken map[string]bool // ids of calls
	size  int             // of the turns, written
}

// turn is one message as the API wants it: user and assistant take turns.
type turn struct {
	assistant bool
	from      int       // the message it begins with
	opens     blockKind // of its first block
	text      []byte    // JSON
	calls     []madeCall
}

// turnEnd closes the last block of a turn, its blocks and the turn.
const turnEnd = "}]}"

// madeCall is a call by our id and by the one it goes by at the API.
type madeCall struct{ id, wire string }

func (t *turn) role() string {
	if t.assistant {
		return "assistant"
	}
	return "user"
}

// follow writes messages down as the API demands them: neighbours of one role
// are one turn, nothing is empty, and every call is answered at the beginning
// of the turn that follows it, in the order of the calls. A turn depends on what
// came before it and on nothing after the first message of the next one, so up to
// there it is not written again.
func (c *conversation) follow(messages []model.Message, thoughts bool) {
	same := c.told.Same(messages)
	whole := 0
	for whole+1 < len(c.turns) && c.turns[whole+1].from < same {
		whole++
	}
	begin := 0
	if whole > 0 {
		begin = c.turns[whole].from
	}
	c.forget(whole)
	c.told.Remember(same, messages)
	var open draft
	for i := begin; i < len(messages); i++ {
		d := c.draft(&messages[i], thoughts)
		if len(d.blocks)+len(d.results) == 0 {
			continue
		}
		if !open.empty() && open.assistant == d.assistant {
			open.join(d)
			continue
		}
		c.settle(open)
		open, open.from = d, i
	}
	c.settle(open)
	if n := len(c.turns); n > 0 && len(c.turns[n-1].calls) > 0 {
		c.write(draft{from: len(messages)})
	}
}

// forget drops the turns after the first n.
func (c *conversation) forget(n int) {
	for i := range c.turns[n:] {
		t := &c.turns[n+i]
		c.size -= t.size()
		for _, made := range t.calls {
			delete(c.taken, made.wire)
		}
	}
	clear(c.turns[n:])
	c.turns = c.turns[:n]
	if c.taken == nil {
		c.taken = map[string]bool{}
	}
}

// size is about what a turn is when it is sent.
func (t *turn) size() int { return len(",") + len(t.text) + len(cacheMark) }

func (c *conversation) settle(d draft) {
	if !d.empty() {
		c.write(d)
	}
}

// write puts a turn together once all of it is known.
func (c *conversation) write(d draft) {
	if !d.assistant {
		var calls []madeCall
		if n := len(c.turns); n > 0 {
			calls = c.turns[n-1].calls
		}
		d.pair(calls)
	}
	t := turn{assistant: d.assistant, from: d.from, opens: d.blocks[0].kind, calls: d.calls}
	size := len(`{"role":"assistant","content":[`) + len(d.blocks) + len(turnEnd)
	for _, b := range d.blocks {
		size += len(b.text)
	}
	b := codec.Field(append(make([]byte, 0, size), '{'), "role", t.role())
	b = append(codec.Name(b, "content"), '[')
	for i := range d.blocks {
		b = append(codec.Comma(b), d.blocks[i].text...)
	}
	t.text = append(b, "]}"...)
	c.turns = append(c.turns, t)
	c.size += t.size()
}

// draft is a turn of which more may come.
type draft struct {
	assistant bool
	from      int
	blocks    []written
	calls     []madeCall         // of the assistant, as they stand in blocks
	results   []model.ToolResult // of the user's side; blocks once they are paired
}

// written is one block as it is sent.
type written struct {
	kind blockKind
	text []byte
}

func (d *draft) empty() bool { return len(d.blocks)+len(d.results) == 0 }

func (c *conversation) draft(m *model.Message, thoughts bool) draft {
	d := draft{assistant: m.Role == model.RoleAssistant}
	for i := range m.Parts {
		part := &m.Parts[i]
		switch {
		case part.Reasoning != nil:
			if sendable(part.Reasoning) && d.assistant && thoughts {
				d.blocks = append(d.blocks, written{thinkingBlock, appendThought(nil, part.Reasoning)})
			}
		case part.Call != nil && d.assistant:
			made := madeCall{part.Call.ID, c.wireID(part.Call)}
			d.calls = append(d.calls, made)
			d.blocks = append(d.blocks, written{callBlock, appendCall(nil, part.Call, made.wire)})
		case part.Result != nil && !d.assistant:
			d.results = append(d.results, *part.Result)
		case part.Image != nil:
			d.addImage(part.Image)
		case strings.TrimSpace(part.Text) != "":
			d.blocks = append(d.blocks, written{textBlock, appendText(nil, part.Text)})
		}
	}
	d.trimThoughts()
	return d
}

// wireID is the id a call goes by at the API, which no other call has.
func (c *conversation) wireID(call *model.ToolCall) string {
	wire := call.ID
	if call.Origin == Origin && validID(call.Opaque) && !c.taken[call.Opaque] {
		wire = call.Opaque
	}
	wire = freeID(wire, c.taken)
	c.taken[wire] = true
	return wire
}

func (d *draft) addImage(i *model.Image) {
	if showable(i) && !d.assistant {
		d.blocks = append(d.blocks, written{otherBlock, appendImage(nil, i)})
		return
	}
	d.blocks = append(d.blocks, written{textBlock, appendText(nil, unseen(i))})
}

// trimThoughts takes thoughts from the end of a message: the API refuses a turn
// that ends with one.
func (d *draft) trimThoughts() {
	for n := len(d.blocks); n > 0 && d.blocks[n-1].kind == thinkingBlock; n-- {
		d.blocks = d.blocks[:n-1]
	}
}

func (d *draft) join(next draft) {
	d.blocks = append(d.blocks, next.blocks...)
	d.calls = append(d.calls, next.calls...)
	d.results = append(d.results, next.results...)
}

// pair puts the results of the calls before everything else of the turn. A call
// without a result is answered with that; a result without a call, which the
// API would refuse, is told as text.
func (d *draft) pair(calls []madeCall) {
	answered := make(map[string]*model.ToolResult, len(calls))
	var spare draft
	for i := range d.results {
		r := &d.results[i]
		asked := slices.ContainsFunc(calls, func(c madeCall) bool { return c.id == r.ID })
		if asked && answered[r.ID] == nil {
			answered[r.ID] = r
			continue
		}
		spare.blocks = append(spare.blocks, written{textBlock, appendText(nil, "[the result of an earlier call]\n"+r.Text)})
		for j := range r.Images {
			spare.addImage(&r.Images[j])
		}
	}
	var first []written
	for _, c := range calls {
		r := answered[c.id]
		if r == nil {
			r = &model.ToolResult{Text: "no result of this call is recorded", IsError: true}
		}
		first = append(first, written{resultBlock, appendResult(nil, c.wire, r)})
	}
	d.blocks = slices.Concat(first, d.blocks, spare.blocks)
	d.results = nil
}

func hasThoughts(r model.Request) bool {
	for _, m := range r.Messages {
		for _, part := range m.Parts {
			if part.Reasoning != nil && sendable(part.Reasoning) {
				return true
			}
		}
	}
	return false
}
