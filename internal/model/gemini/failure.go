package gemini

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"stave/internal/model"
)

// maxErrorBytes is how much of a refusal is read, and maxMessage how much of
// its text is kept.
const (
	maxErrorBytes = 64 << 10
	maxMessage    = 1 << 10
	maxRetryAfter = 24 * time.Hour
)

// failure is the service's own description of an error.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
	Details []struct {
		Reason     string `json:"reason"`     // of ErrorInfo
		RetryDelay string `json:"retryDelay"` // of RetryInfo
		Violations []struct {
			Quota string `json:"quotaId"`
		} `json:"violations"` // of QuotaFailure
	} `json:"details"`
}

// checkResponse returns an error unless a stream follows.
func checkResponse(resp *http.Response) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK {
		if media == "text/event-stream" {
			return nil
		}
		return &model.Error{
			Kind: model.ErrStream, Retryable: true,
			Message: fmt.Sprintf("the service answered with %.60q and not with a stream of events: does the base URL lead to Gemini?", media),
		}
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return &model.Error{Kind: model.ErrBadRequest, Message: fmt.Sprintf(
			"the service redirects to %.200q, where the key is not sent: set the base URL to where the service is", resp.Header.Get("Location"))}
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	f := readFailure(body)
	if f.Message == "" {
		f.Message = "HTTP " + strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode)
		if media != "" {
			f.Message += " with " + media
		}
	}
	return f.toError(resp.StatusCode, retryAfter(resp.Header.Get("Retry-After")))
}

// readFailure finds the error in a body; streams send it inside of a list.
func readFailure(body []byte) failure {
	var one struct {
		Error failure `json:"error"`
	}
	if json.Unmarshal(body, &one) == nil {
		return one.Error
	}
	many := []struct {
		Error failure `json:"error"`
	}{}
	if json.Unmarshal(body, &many) == nil && len(many) > 0 {
		return many[0].Error
	}
	return failure{}
}

// toError sorts a failure by its status and, where that says too little, by
// what the service adds to it.
func (f failure) toError(status int, wait time.Duration) *model.Error {
	e := &model.Error{Message: clip(f.Message), RetryAfter: wait}
	switch {
	case status == http.StatusTooManyRequests:
		e.Kind = model.ErrRateLimited
		if f.usedUp() {
			e.Kind = model.ErrQuota
		}
	case status == http.StatusPaymentRequired:
		e.Kind = model.ErrQuota
	case status == http.StatusUnauthorized, status == http.StatusForbidden, f.has("API_KEY_INVALID"):
		e.Kind = model.ErrAuth
	case status == http.StatusRequestEntityTooLarge, status == http.StatusBadRequest && f.tooLong():
		e.Kind = model.ErrTooLong
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		e.Kind = model.ErrTimeout
	case status >= 500 || status == 0:
		e.Kind = model.ErrOverloaded
	default:
		e.Kind = model.ErrBadRequest
	}
	if e.Message == "" {
		e.Message = strings.TrimSpace("the service failed " + clip(f.Status))
	}
	e.Retryable = e.Kind.Transient()
	if !e.Retryable {
		e.RetryAfter = 0
	} else if own := f.retryDelay(); own > 0 {
		e.RetryAfter = own
	}
	return e
}

func (f failure) has(reason string) bool {
	for _, d := range f.Details {
		if d.Reason == reason {
			return true
		}
	}
	return false
}

// usedUp reports a quota that no wait within a conversation brings back.
func (f failure) usedUp() bool {
	for _, d := range f.Details {
		for _, v := range d.Violations {
			if strings.Contains(v.Quota, "PerDay") {
				return true
			}
		}
	}
	return strings.Contains(f.Message, "credits are depleted")
}

func (f failure) tooLong() bool {
	return strings.Contains(f.Message, "token count") && strings.Contains(f.Message, "exceeds")
}

func (f failure) retryDelay() time.Duration {
	for _, d := range f.Details {
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && wait > 0 {
			return min(wait, maxRetryAfter)
		}
	}
	return 0
}

// retryAfter reads the header: seconds, or a date.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}

// unsent sorts what went wrong before the service answered.
func unsent(err error) error {
	e := &model.Error{Kind: model.ErrUnreachable, Message: "Gemini cannot be reached: " + clip(err.Error()), Retryable: true}
	var wrongName *tls.CertificateVerificationError
	var slow net.Error
	switch {
	case errors.As(err, &wrongName):
		e.Retryable = false
	case errors.As(err, &slow) && slow.Timeout():
		e.Kind = model.ErrTimeout
	}
	return e
}

// broken sorts what went wrong within a stream.
func broken(err error) error {
	var known *model.Error
	if errors.As(err, &known) {
		return known
	}
	e := &model.Error{Kind: model.ErrStream, Message: "the stream of Gemini broke: " + clip(err.Error()), Retryable: true}
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		e.Kind = model.ErrTimeout
	}
	return e
}

// clip keeps a message short and valid.
func clip(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage] + "…"
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return s
}
