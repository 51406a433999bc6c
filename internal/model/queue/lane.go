package queue

import (
	"container/heap"
	"time"

	"golang.org/x/time/rate"
)

// lane is the part of the queue that belongs to one provider. Whoever calls its
// methods holds the queue's lock.
type lane struct {
	queue   *Queue
	name    string
	limits  Limits
	rate    *rate.Limiter // nil: no limit
	breaker breaker
	running int
	held    time.Time // no call goes before this
	waiting order
	wake    Timer     // the next look at the lane, if one is planned
	wakeAt  time.Time // zero: none is
}

func newLane(q *Queue, name string, l Limits) *lane {
	made := &lane{queue: q, name: name, limits: l, breaker: breaker{limits: l}}
	if l.Rate > 0 {
		made.rate = rate.NewLimiter(rate.Limit(l.Rate), l.Burst)
	}
	return made
}

func (l *lane) push(e *entry)   { heap.Push(&l.waiting, e) }
func (l *lane) remove(e *entry) { heap.Remove(&l.waiting, e.place) }

// hold keeps the whole provider back for as long as it asked for.
func (l *lane) hold(now time.Time, d time.Duration) {
	if until := now.Add(min(d, l.limits.MaxHold)); d > 0 && until.After(l.held) {
		l.held = until
	}
}

// dispatch lets go whoever may go now, and plans the next look if only time is
// in the way.
func (l *lane) dispatch(now time.Time) {
	for len(l.waiting) > 0 {
		if l.limits.Concurrency > 0 && l.running >= l.limits.Concurrency {
			return // a release looks again
		}
		if wait := l.delay(now); wait > 0 {
			l.lookAgain(now.Add(wait))
			return
		}
		probe, ok := l.breaker.admit()
		if !ok {
			return // the answer to the probe looks again
		}
		// Tokens last, so that none is spent on a call that does not go.
		if wait := l.takeToken(now); wait > 0 {
			l.breaker.withdraw(probe)
			l.lookAgain(now.Add(wait))
			return
		}
		e, _ := heap.Pop(&l.waiting).(*entry)
		e.probe, e.opening = probe, l.breaker.openings
		l.running++
		l.queue.waiting--
		e.answer <- nil
	}
	l.sleep()
}

// delay is how long the provider is to be left alone.
func (l *lane) delay(now time.Time) time.Duration {
	wait := l.held.Sub(now)
	if until, open := l.breaker.openUntil(now); open {
		wait = max(wait, until.Sub(now))
	}
	return wait
}

// takeToken spends one call of the rate, or says how long there is none.
func (l *lane) takeToken(now time.Time) time.Duration {
	if l.rate == nil {
		return 0
	}
	r := l.rate.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// lookAgain plans a dispatch; a plan that is early enough stays.
func (l *lane) lookAgain(at time.Time) {
	if !l.wakeAt.IsZero() && !at.Before(l.wakeAt) {
		return
	}
	l.sleep()
	l.wakeAt = at
	l.wake = l.queue.clock.AfterFunc(max(at.Sub(l.queue.clock.Now()), 0), func() {
		l.queue.mu.Lock()
		defer l.queue.mu.Unlock()
		if l.wakeAt.Equal(at) {
			l.wakeAt = time.Time{}
			l.dispatch(l.queue.clock.Now())
		}
	})
}

// sleep gives up a planned look: nobody waits.
func (l *lane) sleep() {
	if l.wake != nil {
		l.wake.Stop()
	}
	l.wake, l.wakeAt = nil, time.Time{}
}

// order is a heap: lower priority first, then whoever came first.
type order []*entry

func (o order) Len() int { return len(o) }

func (o order) Less(i, j int) bool { return o[i].before(o[j]) }

func (e *entry) before(other *entry) bool {
	if e.ticket.Priority != other.ticket.Priority {
		return e.ticket.Priority < other.ticket.Priority
	}
	return e.number < other.number
}

func (o order) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}

// Push is for package heap.
func (o *order) Push(x any) {
	e, _ := x.(*entry)
	e.place = len(*o)
	*o = append(*o, e)
}

// Pop is for package heap.
func (o *order) Pop() any {
	last := len(*o) - 1
	e := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	e.place = -1
	return e
}
