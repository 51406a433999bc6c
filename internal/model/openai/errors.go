package openai

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"stave/internal/model"
)

const (
	maxErrorBytes = 64 << 10        // of an error's body that are read
	maxErrorRunes = 400             // of an error's text that are shown
	maxRetryAfter = 5 * time.Minute // a service may ask for any wait; a longer one is cut to this
	minSecretSize = 8               // a shorter key is a placeholder such as "none" and no secret
)

// refusal turns an answer that is no stream into an error. It reads the body.
func (s *service) refusal(res *http.Response) *model.Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes))
	f := parseFault(body)
	status := res.StatusCode
	if status/100 == 3 {
		return &model.Error{Kind: model.ErrBadRequest, Message: s.clean(fmt.Sprintf(
			"%s sent us elsewhere (HTTP %d to %s); redirects are not followed, so that no key leaves: set the base URL to where it lives now",
			s.Name, status, hostOf(res.Header.Get("Location"))))}
	}
	kind := classify(status, f)
	e := &model.Error{Kind: kind, Retryable: kind.Transient()}
	if kind.Transient() {
		e.RetryAfter = retryAfter(res.Header, time.Now())
	}
	what := f.message
	if looksLikeHTML(res.Header, body) {
		what = "it answered with an HTML page"
	}
	if what == "" {
		what = "no reason given"
	}
	e.Message = s.clean(fmt.Sprintf("%s: HTTP %d%s: %s", s.Name, status, s.hint(kind, status), what))
	return e
}

// hint says what a person can do, before the service's own words, which may be long.
func (s *service) hint(kind model.ErrorKind, status int) string {
	switch {
	case kind == model.ErrAuth && s.APIKey == "":
		return " (it wants a key and none is set)"
	case kind == model.ErrAuth:
		return " (check the key)"
	case kind == model.ErrQuota:
		return " (check the account's plan and credit)"
	case status == http.StatusNotFound:
		return " (check the model's name and the base URL, which usually ends in /v1)"
	}
	return ""
}

// streamFault turns an error that came inside a stream into one of ours.
func (s *service) streamFault(f fault) *model.Error {
	status, _ := strconv.Atoi(f.code)
	if status < 400 || status > 599 {
		status = 0
	}
	kind := classify(status, f)
	what := f.message
	if what == "" {
		what = strings.TrimSpace(f.kind + " " + f.code)
	}
	if what == "" {
		what = "no reason given"
	}
	return &model.Error{Kind: kind, Retryable: kind.Transient(), Message: s.clean(s.Name + " ended the stream with an error: " + what)}
}

func classify(status int, f fault) model.ErrorKind {
	switch {
	case status == http.StatusPaymentRequired,
		f.is("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits"):
		return model.ErrQuota
	case f.is("context_length_exceeded", "exceed_context_size_error"), f.tellsOfWindow(),
		status == http.StatusRequestEntityTooLarge && f.is("rate_limit_exceeded"): // larger than a whole minute's share
		return model.ErrTooLong
	case status == http.StatusTooManyRequests, f.is("rate_limit_exceeded", "rate_limit_error"):
		return model.ErrRateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden,
		f.is("invalid_api_key", "authentication_error", "permission_error"):
		return model.ErrAuth
	case status == http.StatusRequestTimeout:
		return model.ErrTimeout
	case status == http.StatusNotImplemented:
		return model.ErrBadRequest
	case status >= 500, status == http.StatusConflict, status == http.StatusTooEarly,
		f.is("server_error", "server_is_overloaded", "overloaded_error", "slow_down", "unavailable_error"):
		return model.ErrOverloaded
	case status >= 400, f.is("invalid_prompt", "invalid_request_error", "invalid_image"):
		return model.ErrBadRequest
	}
	return model.ErrStream
}

// unreachable explains why no answer came at all.
func (s *service) unreachable(err error) *model.Error {
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err // its text would repeat the whole URL
	}
	e := &model.Error{Kind: model.ErrUnreachable, Retryable: true}
	where, why := s.base.Host, err.Error()
	switch {
	case isTimeout(err):
		e.Kind = model.ErrTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "nobody listens there (connection refused)" + s.startHint()
	}
	e.Message = s.clean(fmt.Sprintf("%s cannot be reached at %s: %s", s.Name, where, why))
	return e
}

func (s *service) startHint() string {
	ip := net.ParseIP(s.base.Hostname())
	switch {
	case strings.EqualFold(s.Name, "ollama"):
		return "; is Ollama running? \"ollama serve\" starts it"
	case s.base.Hostname() == "localhost" || ip != nil && ip.IsLoopback():
		return "; is " + s.Name + " running on this machine?"
	}
	return ""
}

// readError explains why a stream ended before its end.
func (s *service) readError(err error) error {
	var known *model.Error
	switch {
	case errors.As(err, &known):
		return known
	case isTimeout(err):
		return &model.Error{Kind: model.ErrTimeout, Retryable: true, Message: s.clean(s.Name + " took too long: " + err.Error())}
	}
	return broken(s.clean(fmt.Sprintf("the connection to %s was lost before the response was complete: %v", s.Name, err)))
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// retryAfter reads how long a service asks us to wait, cut to what is sensible.
func retryAfter(h http.Header, now time.Time) time.Duration {
	wait := time.Duration(0)
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		wait = scaled(ms, time.Millisecond)
	} else if sec, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil {
		wait = scaled(sec, time.Second)
	} else if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		// Its own clock says best how far away that is.
		if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
			now = theirs
		}
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

func scaled(n float64, unit time.Duration) time.Duration {
	if !(n > 0) { // NaN too
		return 0
	}
	return time.Duration(min(n*float64(unit), float64(maxRetryAfter)))
}

func hostOf(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return "another path of the same host"
	}
	return u.Host
}

func looksLikeHTML(h http.Header, body []byte) bool {
	start := strings.ToLower(strings.TrimSpace(string(body[:min(len(body), 64)])))
	return strings.HasPrefix(h.Get("Content-Type"), "text/html") ||
		strings.HasPrefix(start, "<!doctype html") || strings.HasPrefix(start, "<html")
}

var keyShape = regexp.MustCompile(`\b(sk|gsk|xai|rk|pk)[-_][A-Za-z0-9_\-]{8,}`)

// clean makes a message fit to be shown and stored: no key, one line, not long.
func (s *service) clean(message string) string {
	if len(s.APIKey) >= minSecretSize {
		message = strings.ReplaceAll(message, s.APIKey, "[key]")
	}
	message = keyShape.ReplaceAllString(message, "[key]")
	runes := []rune(strings.ToValidUTF8(message, "\uFFFD"))
	if len(runes) > maxErrorRunes {
		runes = append(slices.Clip(runes[:maxErrorRunes]), '…')
	}
	return strings.Join(strings.FieldsFunc(string(runes), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}
