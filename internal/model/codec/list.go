package codec

import "stave/internal/model"

// List is what was written of a conversation, message after message. Its zero
// value is that of nothing.
type List struct {
	told Messages
	text []byte
	ends []int // of each message in text
}

// Follow brings the list up to messages and returns its text, which the caller
// must not change. What was written of the first reuse messages stays, as far as
// they are still the same; write appends each of the others. It is told the
// message before it that was worth writing, -1 for none. It may look at messages
// before its own and at none after it.
func (l *List) Follow(messages []model.Message, reuse int, write func(b []byte, i, before int) ([]byte, error)) ([]byte, error) {
	same := min(l.told.Same(messages), reuse)
	l.told.Remember(same, messages)
	l.ends = l.ends[:same]
	l.text = l.text[:l.end(same)]
	for i := same; i < len(messages); i++ {
		text, err := write(l.text, i, l.lastWritten())
		if err != nil {
			*l = List{}
			return nil, err
		}
		l.text = text
		l.ends = append(l.ends, len(text))
	}
	return l.text, nil
}

func (l *List) end(n int) int {
	if n == 0 {
		return 0
	}
	return l.ends[n-1]
}

// lastWritten is the last message that has text.
func (l *List) lastWritten() int {
	for i := len(l.ends) - 1; i >= 0; i-- {
		if l.end(i+1) > l.end(i) {
			return i
		}
	}
	return -1
}

// Size is about how many bytes are held.
func (l *List) Size() int { return cap(l.text) + l.told.Size() }
