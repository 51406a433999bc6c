package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stave/internal/model"
)

// breaker stops the calls to a provider that fails again and again. After a
// while it lets one call through, the probe, whose end decides for all.
type breaker struct {
	limits   Limits
	failures int // in a row
	openings int // how often it has opened
	failed   int // probes in a row
	open     bool
	until    time.Time // of open: when a probe may go
	probing  bool      // a probe is under way
}

// openUntil reports whether no call may go, not even a probe.
func (b *breaker) openUntil(now time.Time) (time.Time, bool) {
	return b.until, b.open && now.Before(b.until)
}

// admit reports whether a call may go, and whether it is the probe.
func (b *breaker) admit() (probe, ok bool) {
	switch {
	case !b.open:
		return false, true
	case b.probing:
		return false, false
	}
	b.probing = true
	return true, true
}

// withdraw takes an admission back.
func (b *breaker) withdraw(probe bool) {
	if probe {
		b.probing = false
	}
}

type verdict int

const (
	noVerdict verdict = iota // the call says nothing about the provider
	works
	doesNotWork
)

// report takes the end of a call and reports whether the breaker has opened.
func (b *breaker) report(e *entry, v verdict, now time.Time) bool {
	if e.probe {
		return b.reportProbe(v, now)
	}
	if b.open || e.opening != b.openings {
		return false // the call is from before the failures that opened it
	}
	switch v {
	case works:
		b.failures = 0
	case doesNotWork:
		if b.failures++; b.limits.Failures > 0 && b.failures >= b.limits.Failures {
			b.shut(now)
			return true
		}
	case noVerdict:
	}
	return false
}

func (b *breaker) reportProbe(v verdict, now time.Time) bool {
	b.probing = false
	switch v {
	case works:
		b.open, b.failures, b.failed = false, 0, 0
	case doesNotWork:
		b.failed++
		b.shut(now)
		return true
	case noVerdict: // the next call is the probe
	}
	return false
}

// shut stops all calls, longer each time a probe has failed.
func (b *breaker) shut(now time.Time) {
	wait := b.limits.Open
	for i := 0; i < b.failed && wait < b.limits.MaxOpen; i++ {
		wait *= 2
	}
	b.open, b.openings = true, b.openings+1
	b.until = now.Add(min(wait, b.limits.MaxOpen))
}

// judge says what the end of a call tells about its provider. A refusal, even
// for too many calls, is the answer of a service that works.
func judge(err error) verdict {
	if err == nil {
		return works
	}
	var known *model.Error
	if errors.Is(err, context.Canceled) || !errors.As(err, &known) {
		return noVerdict
	}
	switch known.Kind {
	case model.ErrStream, model.ErrOverloaded, model.ErrTimeout, model.ErrUnreachable:
		return doesNotWork
	case model.ErrRateLimited, model.ErrAuth, model.ErrBadRequest, model.ErrTooLong, model.ErrQuota:
		return works
	case model.ErrLimit, model.ErrInternal:
	}
	return noVerdict
}

// retryAfter is the wait that a provider asked for.
func retryAfter(err error) time.Duration {
	var known *model.Error
	if !errors.As(err, &known) {
		return 0
	}
	return known.RetryAfter
}

// OpenError is what a call ends with while its provider does not work. It is a
// *model.Error too, for those who decide about a retry.
type OpenError struct {
	Provider string
	Until    time.Time // when the next call is tried
	reason   *model.Error
}

func (e *OpenError) Error() string { return e.reason.Error() }

// Unwrap returns the *model.Error.
func (e *OpenError) Unwrap() error { return e.reason }

func openError(provider string, until, now time.Time) error {
	wait := max(until.Sub(now), 0)
	return &OpenError{provider, until, &model.Error{
		Kind: model.ErrOverloaded, Retryable: true, RetryAfter: wait,
		Message: fmt.Sprintf("%s failed several times in a row; it is tried again in %v", provider, wait.Round(time.Millisecond)),
	}}
}
