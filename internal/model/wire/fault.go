package wire

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stave/internal/model"
)

// FaultHeader is the header in which a request asks for a fault.
const FaultHeader = "X-Stave-Fault"

// FaultKind is a way to break.
type FaultKind string

// Kinds of faults. In a header or a query they are written as their name, with
// their number or duration after "=".
const (
	NoFault FaultKind = ""
	Cut     FaultKind = "cut"     // cut=N: the connection breaks after N bytes of the answer
	MidRune FaultKind = "midrune" // it breaks within the first character of several bytes, or else at the end
	Stall   FaultKind = "stall"   // stall=N: after N bytes nothing comes any more
	Drip    FaultKind = "drip"    // drip=10ms: one byte each time
	Status  FaultKind = "status"  // status=429: refused; with ",2s" the service says when to come back
	HTML    FaultKind = "html"    // status 200 and a web page
	Endless FaultKind = "endless" // text without end
	Pings   FaultKind = "pings"   // comments without end
)

// Fault is what goes wrong with one answer.
type Fault struct {
	Kind       FaultKind
	N          int           // bytes, or the status
	Wait       time.Duration // between bytes
	RetryAfter time.Duration // of Status
}

// ParseFault reads a fault as a header or a query has it.
func ParseFault(text string) (Fault, error) {
	name, value, _ := strings.Cut(strings.TrimSpace(text), "=")
	f := Fault{Kind: FaultKind(name)}
	var err error
	switch f.Kind {
	case NoFault, MidRune, HTML, Endless, Pings:
		if value != "" {
			err = fmt.Errorf("%s takes no value", name)
		}
	case Cut, Stall:
		f.N, err = strconv.Atoi(value)
	case Drip:
		f.Wait, err = time.ParseDuration(value)
	case Status:
		status, wait, waits := strings.Cut(value, ",")
		if f.N, err = strconv.Atoi(status); err == nil && waits {
			f.RetryAfter, err = time.ParseDuration(wait)
		}
		if err == nil && (f.N < 300 || f.N > 599) {
			err = fmt.Errorf("%d is no status of an error", f.N)
		}
	default:
		err = fmt.Errorf("the kind is not known: use cut=N, midrune, stall=N, drip=10ms, status=429,2s, html, endless or pings")
	}
	if err == nil && (f.N < 0 || f.Wait < 0 || f.RetryAfter < 0) {
		err = fmt.Errorf("a number is below zero")
	}
	if err != nil {
		return Fault{}, fmt.Errorf("fault %.60q: %w", text, err)
	}
	return f, nil
}

func (s *server) fault(r *http.Request) (Fault, error) {
	n := s.served.Add(1)
	if text := r.Header.Get(FaultHeader); text != "" {
		return ParseFault(text)
	}
	if r.URL.RawQuery != "" {
		if text := r.URL.Query().Get("fault"); text != "" {
			return ParseFault(text)
		}
	}
	if s.options.Fault != nil {
		return s.options.Fault(n, r), nil
	}
	return Fault{}, nil
}

const webPage = "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please sign in to this network.</body></html>\n"

// answerInstead plays the faults that have no answer in them.
func (f Fault) answerInstead(w http.ResponseWriter, d dialect) bool {
	switch f.Kind {
	case HTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(webPage))
		return true
	case Status:
		e := &model.Error{Kind: kindOf(f.N), Message: "refused because a fault was asked for", RetryAfter: f.RetryAfter}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		setRetryAfter(h, f.RetryAfter)
		if f.N < 400 {
			h.Set("Location", "https://elsewhere.invalid/")
		}
		w.WriteHeader(f.N)
		_, _ = w.Write(d.refuse(e))
		return true
	case NoFault, Cut, MidRune, Stall, Drip, Endless, Pings:
	}
	return false
}

// kindOf is the kind of error that a status stands for.
func kindOf(status int) model.ErrorKind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return model.ErrAuth
	case status == http.StatusTooManyRequests:
		return model.ErrRateLimited
	case status == http.StatusServiceUnavailable, status == 529:
		return model.ErrOverloaded
	case status >= 500:
		return model.ErrInternal
	}
	return model.ErrBadRequest
}

// endless is a model that never comes to an end.
type endless struct{}

// Stream talks until nobody listens.
func (endless) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		for yield(model.Event{Text: "and so on "}, nil) {
			if err := ctx.Err(); err != nil {
				yield(model.Event{}, err)
				return
			}
		}
	}
}
