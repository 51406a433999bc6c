package queue

import (
	"cmp"
	"slices"
	"time"
)

// State says how far a call is.
type State string

// States.
const (
	Waiting State = "waiting" // for a place
	Held    State = "held"    // for its provider, which asked for patience
	Running State = "running"
)

// Entry is one call as others see it.
type Entry struct {
	ID           string
	Provider     string
	Conversation string
	Model        string
	Priority     int
	Since        time.Time // when it came
	State        State
}

// List returns all calls: those under way first, then in the order they will go,
// as far as they need the same provider.
func (q *Queue) List() []Entry {
	q.mu.Lock()
	now := q.clock.Now()
	entries := make([]*entry, 0, len(q.entries))
	running := make(map[*entry]bool, len(q.entries)-q.waiting)
	held := make(map[*lane]bool, len(q.lanes))
	for _, e := range q.entries {
		entries = append(entries, e)
		if e.place < 0 {
			running[e] = true
		}
	}
	for _, l := range q.lanes {
		held[l] = l.held.After(now)
	}
	q.mu.Unlock()
	// What is read from here on never changes.
	slices.SortFunc(entries, func(a, b *entry) int {
		switch {
		case running[a] != running[b]:
			if running[a] {
				return -1
			}
			return 1
		case running[a]:
			return cmp.Compare(a.number, b.number)
		}
		return cmp.Or(cmp.Compare(a.ticket.Priority, b.ticket.Priority), cmp.Compare(a.number, b.number))
	})
	list := make([]Entry, len(entries))
	for i, e := range entries {
		state := Waiting
		switch {
		case running[e]:
			state = Running
		case held[e.lane]:
			state = Held
		}
		list[i] = Entry{e.id, e.ticket.Provider, e.ticket.Conversation, e.ticket.Model, e.ticket.Priority, e.since, state}
	}
	return list
}

// Health is how one provider does.
type Health struct {
	Provider string
	Running  int
	Waiting  int
	Held     time.Time // the provider asked for patience until then; zero if not
	Open     time.Time // it does not work and is tried again then; zero if not
	Probing  bool      // one call is under way to see whether it works again
}

// Providers returns the health of every provider that was called, by name.
func (q *Queue) Providers() []Health {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	list := make([]Health, 0, len(q.lanes))
	for _, l := range q.lanes {
		h := Health{Provider: l.name, Running: l.running, Waiting: len(l.waiting), Probing: l.breaker.probing}
		if l.held.After(now) {
			h.Held = l.held
		}
		if until, open := l.breaker.openUntil(now); open {
			h.Open = until
		}
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b Health) int { return cmp.Compare(a.Provider, b.Provider) })
	return list
}
