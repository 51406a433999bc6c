package codec

import (
	"bytes"
	"container/list"
	"encoding/json"
	"sync"
	"unsafe"

	"stave/internal/model"
)

// MaxKept is how many bytes a Cache keeps, of all conversations together.
const MaxKept = 64 << 20

// Cache keeps something for each conversation, the newest used, within a size.
// Its zero value is ready and keeps MaxKept bytes.
type Cache[T any] struct {
	Most int // bytes kept; 0 is MaxKept

	mu    sync.Mutex
	size  int
	order list.List // of *kept[T]: the newest first
	byKey map[string]*list.Element
}

type kept[T any] struct {
	key   string
	value T
	size  int
}

// Take removes what is kept for a key and gives it to the caller alone: a second
// call with the same key, before Put, finds nothing.
func (c *Cache[T]) Take(key string) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[key]; at != nil {
		return c.remove(at).value, true
	}
	var none T
	return none, false
}

// Put keeps a value, for which the caller says how much it holds. Where that is
// too much, what was not used for longest goes, in the end the value itself.
func (c *Cache[T]) Put(key string, value T, size int) {
	most := c.Most
	if most == 0 {
		most = MaxKept
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[key]; at != nil {
		c.remove(at)
	}
	if c.byKey == nil {
		c.byKey = map[string]*list.Element{}
	}
	c.byKey[key] = c.order.PushFront(&kept[T]{key, value, size})
	for c.size += size; c.size > most; {
		c.remove(c.order.Back())
	}
}

func (c *Cache[T]) remove(at *list.Element) *kept[T] {
	k := c.order.Remove(at).(*kept[T]) //nolint:forcetypeassert // the list holds nothing else
	delete(c.byKey, k.key)
	c.size -= k.size
	return k
}

// Messages remembers messages by what they say, so that it can be told how far
// a conversation is still the same. It trusts nobody to leave a message alone:
// what could be changed in place is copied, but for the bytes of pictures.
type Messages struct {
	list []model.Message
	size []int // bytes of each
}

// Len is how many messages are remembered.
func (m *Messages) Len() int { return len(m.list) }

// Same is how many of the first messages are the remembered ones. A text that
// is the same string costs nothing to compare, however long.
func (m *Messages) Same(messages []model.Message) int {
	for i := range min(len(m.list), len(messages)) {
		if !sameMessage(&m.list[i], &messages[i]) {
			return i
		}
	}
	return min(len(m.list), len(messages))
}

// Remember takes the messages after the first n, which stay.
func (m *Messages) Remember(n int, messages []model.Message) {
	clear(m.list[n:])
	m.list, m.size = m.list[:n], m.size[:n]
	for i := range messages[n:] {
		c := copyOf(&messages[n+i])
		m.list, m.size = append(m.list, c), append(m.size, sizeOf(&c))
	}
}

// Size is about how many bytes are held.
func (m *Messages) Size() int {
	n := 0
	for _, s := range m.size {
		n += s
	}
	return n
}

func sizeOf(m *model.Message) int {
	n := int(unsafe.Sizeof(*m)) + len(m.Parts)*int(unsafe.Sizeof(model.Part{}))
	for i := range m.Parts {
		p := &m.Parts[i]
		n += len(p.Text)
		if p.Image != nil {
			n += len(p.Image.Data)
		}
		if r := p.Reasoning; r != nil {
			n += int(unsafe.Sizeof(*r)) + len(r.Text) + len(r.Opaque)
		}
		if c := p.Call; c != nil {
			n += int(unsafe.Sizeof(*c)) + len(c.ID) + len(c.Name) + len(c.Args) + len(c.Opaque)
		}
		if r := p.Result; r != nil {
			n += int(unsafe.Sizeof(*r)) + len(r.ID) + len(r.Text)
			for j := range r.Images {
				n += len(r.Images[j].Data)
			}
		}
	}
	return n
}

func copyOf(m *model.Message) model.Message {
	parts := append([]model.Part(nil), m.Parts...)
	for i := range parts {
		p := &parts[i]
		p.Image, p.Reasoning, p.Call, p.Result = copied(p.Image), copied(p.Reasoning), copied(p.Call), copied(p.Result)
		if p.Call != nil {
			p.Call.Args = bytes.Clone(p.Call.Args)
		}
		if p.Result != nil {
			p.Result.Images = append([]model.Image(nil), p.Result.Images...)
		}
	}
	return model.Message{Role: m.Role, Parts: parts}
}

func copied[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}

func sameMessage(a, b *model.Message) bool {
	if a.Role != b.Role || len(a.Parts) != len(b.Parts) {
		return false
	}
	for i := range a.Parts {
		if !samePart(&a.Parts[i], &b.Parts[i]) {
			return false
		}
	}
	return true
}

func samePart(a, b *model.Part) bool {
	return a.Text == b.Text && same(a.Image, b.Image, sameImage) && same(a.Call, b.Call, sameCall) && same(a.Result, b.Result, sameResult) &&
		same(a.Reasoning, b.Reasoning, func(a, b *model.Reasoning) bool { return *a == *b })
}

func same[T any](a, b *T, equal func(a, b *T) bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return equal(a, b)
}

func sameCall(a, b *model.ToolCall) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Opaque == b.Opaque && a.Origin == b.Origin && bytes.Equal(a.Args, b.Args)
}

func sameResult(a, b *model.ToolResult) bool {
	if a.ID != b.ID || a.Text != b.Text || a.IsError != b.IsError || len(a.Images) != len(b.Images) {
		return false
	}
	for i := range a.Images {
		if !sameImage(&a.Images[i], &b.Images[i]) {
			return false
		}
	}
	return true
}

// sameImage compares where the picture lies: its bytes may be millions.
func sameImage(a, b *model.Image) bool {
	return a.MediaType == b.MediaType && len(a.Data) == len(b.Data) && unsafe.SliceData(a.Data) == unsafe.SliceData(b.Data)
}

// Tools remembers the tools of the latest request and how they are written: one
// program mostly has the same tools for all its requests. Its zero value is ready.
type Tools struct {
	mu    sync.Mutex
	specs []model.ToolSpec
	text  []byte
}

// Text returns how the tools are written, asking write only for others than the
// latest. The caller must not change it.
func (t *Tools) Text(specs []model.ToolSpec, write func([]model.ToolSpec) ([]byte, error)) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text != nil && sameTools(t.specs, specs) {
		return t.text, nil
	}
	text, err := write(specs)
	if err != nil {
		return nil, err
	}
	t.specs, t.text = make([]model.ToolSpec, len(specs)), text
	for i, s := range specs {
		s.Schema = json.RawMessage(bytes.Clone(s.Schema))
		t.specs[i] = s
	}
	return text, nil
}

func sameTools(a, b []model.ToolSpec) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Description != b[i].Description || !bytes.Equal(a[i].Schema, b[i].Schema) {
			return false
		}
	}
	return true
}
