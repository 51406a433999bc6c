package queue

import "time"

// Clock tells the time and wakes the queue.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own once d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a planned call of a Clock.
type Timer interface {
	// Stop gives the plan up; false means that it is too late.
	Stop() bool
}

type machineClock struct{}

func (machineClock) Now() time.Time { return time.Now() }

func (machineClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
