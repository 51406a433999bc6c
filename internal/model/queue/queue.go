// Package queue is the one queue that every model call passes: it lets calls go
// by priority, within each provider's limits, and keeps them back while a
// provider asks for patience or does not work.
package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"stave/internal/model"
)

// DefaultPriority is that of a call which names none.
const DefaultPriority = 100

// DefaultWaiting is the most calls that wait at once where nothing else is said.
const DefaultWaiting = 100_000

// Defaults of Limits.
const (
	DefaultFailures = 5
	DefaultOpen     = 5 * time.Second
	DefaultMaxOpen  = 5 * time.Minute
	DefaultMaxHold  = 5 * time.Minute
)

// ErrCancelled is what a call ends with when Cancel has taken it out.
var ErrCancelled error = &model.Error{Kind: model.ErrInternal, Message: "the call was cancelled in the queue"}

// Options configures a queue.
type Options struct {
	Limits    Limits            // of a provider that has none of its own
	Providers map[string]Limits // by name
	Waiting   int               // most calls that wait, of all providers; 0 is DefaultWaiting
	Clock     Clock             // the machine's if nil
}

// Limits bounds the calls of one provider; a field that is zero has its default.
type Limits struct {
	Concurrency int           // calls under way at once; 0 is no limit
	Rate        float64       // calls begun in a second; 0 is no limit
	Burst       int           // calls begun at once within that rate; 0 is 1
	Failures    int           // failures in a row after which no call is let through; below 0 is never
	Open        time.Duration // how long, at first; each failed probe doubles it
	MaxOpen     time.Duration
	MaxHold     time.Duration // longest wait a provider may ask for
}

func (l Limits) withDefaults() Limits {
	if l.Failures == 0 {
		l.Failures = DefaultFailures
	}
	if l.Open <= 0 {
		l.Open = DefaultOpen
	}
	if l.MaxOpen <= 0 {
		l.MaxOpen = DefaultMaxOpen
	}
	if l.MaxHold <= 0 {
		l.MaxHold = DefaultMaxHold
	}
	l.Burst = max(l.Burst, 1)
	return l
}

// Ticket is what a caller says about a call.
type Ticket struct {
	Provider     string
	Conversation string
	Model        string
	Priority     int    // lower first; 0 is DefaultPriority
	Stop         func() // called when Cancel meets the call under way; may be nil
}

// Queue holds the calls of all providers. It may be used concurrently.
type Queue struct {
	clock   Clock
	limits  func(provider string) Limits
	most    int
	mu      sync.Mutex
	last    uint64
	waiting int
	lanes   map[string]*lane
	entries map[string]*entry
}

// New returns an empty queue.
func New(o Options) *Queue {
	q := &Queue{clock: o.Clock, most: o.Waiting, lanes: map[string]*lane{}, entries: map[string]*entry{}}
	if q.clock == nil {
		q.clock = machineClock{}
	}
	if q.most <= 0 {
		q.most = DefaultWaiting
	}
	own := make(map[string]Limits, len(o.Providers))
	for name, l := range o.Providers {
		own[name] = l.withDefaults()
	}
	q.limits = func(provider string) Limits {
		if l, ok := own[provider]; ok {
			return l
		}
		return o.Limits.withDefaults()
	}
	return q
}

// entry is one call, waiting or under way.
type entry struct {
	id       string
	number   uint64 // order of arrival
	ticket   Ticket
	since    time.Time
	lane     *lane
	place    int        // in the heap of its lane; -1 once it has left it
	answer   chan error // takes one value: nil to go
	probe    bool
	opening  int // how often its lane had opened when it went
	released bool
}

// Enter waits until the call may go. The caller must call release once, with
// what the call ended with; more often does no harm. Without a release the place
// stays taken, so an error of Enter comes without one.
func (q *Queue) Enter(ctx context.Context, t Ticket) (release func(error), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e, err := q.join(t)
	if err != nil {
		return nil, err
	}
	if err := q.wait(ctx, e); err != nil {
		return nil, err
	}
	release = func(err error) { q.release(e, err) }
	// Both may have been ready: a call whose caller is gone does not begin.
	if err := ctx.Err(); err != nil {
		release(err)
		return nil, err
	}
	return release, nil
}

// pulseEvery is how often a call that waits for its turn shows that it lives.
const pulseEvery = 5 * time.Second

// wait returns the answer to a call. Most have it at once and need no ticker.
func (q *Queue) wait(ctx context.Context, e *entry) error {
	select {
	case err := <-e.answer:
		return err
	default:
	}
	every := time.NewTicker(pulseEvery)
	defer every.Stop()
	for {
		select {
		case err := <-e.answer:
			return err
		case <-ctx.Done():
			q.leave(e)
			return ctx.Err()
		case <-every.C:
			model.Pulse(ctx)
		}
	}
}

func (q *Queue) join(t Ticket) (*entry, error) {
	if t.Priority == 0 {
		t.Priority = DefaultPriority
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	l := q.lane(t.Provider)
	if until, open := l.breaker.openUntil(now); open {
		return nil, openError(t.Provider, until, now)
	}
	if q.waiting >= q.most {
		return nil, &model.Error{
			Kind: model.ErrOverloaded, Retryable: true,
			Message: fmt.Sprintf("%d calls are waiting already, and no more may", q.most),
		}
	}
	q.last++
	e := &entry{
		id: "q" + strconv.FormatUint(q.last, 10), number: q.last, ticket: t,
		since: now, lane: l, answer: make(chan error, 1),
	}
	q.entries[e.id] = e
	q.waiting++
	l.push(e)
	l.dispatch(now)
	return e, nil
}

// leave is for a caller that does not wait any longer.
func (q *Queue) leave(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.place >= 0 {
		q.remove(e)
		e.lane.dispatch(q.clock.Now())
		return
	}
	q.free(e, context.Canceled)
}

// remove takes a waiting call out.
func (q *Queue) remove(e *entry) {
	e.lane.remove(e)
	q.waiting--
	delete(q.entries, e.id)
}

func (q *Queue) release(e *entry, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free(e, err)
}

// free gives back the place of a call that had gone, and lets others go.
func (q *Queue) free(e *entry, err error) {
	if _, known := q.entries[e.id]; !known || e.released {
		return // it was refused, or is back already
	}
	e.released = true
	delete(q.entries, e.id)
	now := q.clock.Now()
	l := e.lane
	l.running--
	l.hold(now, retryAfter(err))
	if l.breaker.report(e, judge(err), now) {
		until, _ := l.breaker.openUntil(now)
		q.refuseAll(l, until, now)
	}
	l.dispatch(now)
}

// refuseAll ends the wait of all calls of a provider that does not work.
func (q *Queue) refuseAll(l *lane, until, now time.Time) {
	for _, e := range l.waiting {
		e.place = -1
		delete(q.entries, e.id)
		e.answer <- openError(l.name, until, now)
	}
	q.waiting -= len(l.waiting)
	l.waiting = nil
}

// Cancel takes a call out, or stops it if it is under way and its caller can be
// told. It reports whether there was such a call.
func (q *Queue) Cancel(id string) bool {
	q.mu.Lock()
	e, ok := q.entries[id]
	if ok && e.place >= 0 {
		q.remove(e)
		e.answer <- ErrCancelled
		e.lane.dispatch(q.clock.Now())
		ok, e = true, nil
	}
	q.mu.Unlock()
	if e != nil && e.ticket.Stop != nil {
		e.ticket.Stop() // without the lock: it is the caller's code
	}
	return ok
}

// lane returns the lane of a provider.
func (q *Queue) lane(provider string) *lane {
	l, ok := q.lanes[provider]
	if !ok {
		l = newLane(q, provider, q.limits(provider))
		q.lanes[provider] = l
	}
	return l
}
