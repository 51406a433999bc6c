package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"stave/internal/model"
)

const (
	maxMessage   = 400 // bytes shown of what a service says
	minSecret    = 8   // shorter header values are no secrets worth hiding words for
	overloaded   = 529 // Anthropic's own status
	withoutRetry = "false"
)

// refusal turns a response that is no answer into a typed error.
func (p *Provider) refusal(resp *http.Response) error {
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return &model.Error{Kind: model.ErrBadRequest, Message: fmt.Sprintf(
			"the service answers with a redirect (%d), which is not followed because the key would go with it; set the base URL to the right address", resp.StatusCode)}
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, MaxErrorBytes))
	f, ok := failureIn(body)
	if !ok {
		media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		f.Message = p.describe(media, body)
	}
	e := p.failed(f, resp.StatusCode)
	if id := resp.Header.Get("Request-Id"); id != "" {
		e.Message += " (request " + p.clean(id) + ")"
	}
	if resp.Header.Get("X-Should-Retry") == withoutRetry {
		e.Retryable = false
	}
	if e.Retryable {
		e.RetryAfter = retryAfter(resp.Header, time.Now())
	}
	return e
}

// failureIn finds the API's own words about a failure.
func failureIn(body []byte) (failure, bool) {
	var f struct {
		Error *failure `json:"error"`
	}
	if json.Unmarshal(body, &f) != nil || f.Error == nil {
		return failure{}, false
	}
	return *f.Error, true
}

// failed makes the typed error of a failure with a status, or 0 for one that
// came inside a stream or in its place.
func (p *Provider) failed(f failure, status int) *model.Error {
	kind := kindOf(f, status)
	said := f.Message
	switch {
	case said == "" && f.Type == "":
		said = "the service reports an error without saying which"
	case said == "":
		said = f.Type
	}
	if status != 0 {
		said = fmt.Sprintf("HTTP %d: %s", status, said)
	}
	return &model.Error{Kind: kind, Message: p.clean(said), Retryable: kind.Transient()}
}

func kindOf(f failure, status int) model.ErrorKind {
	switch {
	case tooLong(f.Message) || f.Type == "request_too_large" || status == http.StatusRequestEntityTooLarge:
		return model.ErrTooLong
	case f.Type == "billing_error" || status == http.StatusPaymentRequired || f.Details.Code == "enforced_spend_limit_reached" || usedUp(f.Message):
		return model.ErrQuota
	}
	switch status {
	case 0:
		return kindOfType(f.Type)
	case http.StatusUnauthorized, http.StatusForbidden:
		return model.ErrAuth
	case http.StatusTooManyRequests:
		return model.ErrRateLimited
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return model.ErrTimeout
	case overloaded:
		return model.ErrOverloaded
	}
	if status >= 500 {
		return model.ErrOverloaded
	}
	return model.ErrBadRequest
}

func kindOfType(t string) model.ErrorKind {
	switch t {
	case "overloaded_error", "api_error":
		return model.ErrOverloaded
	case "rate_limit_error":
		return model.ErrRateLimited
	case "timeout_error":
		return model.ErrTimeout
	case "authentication_error", "permission_error":
		return model.ErrAuth
	case "invalid_request_error", "not_found_error", "conflict_error":
		return model.ErrBadRequest
	}
	return model.ErrStream
}

// The API has no code of its own for these, so its words have to do.

func tooLong(said string) bool {
	return containsAny(said, "prompt is too long", "exceed context limit", "context window", "maximum context length")
}

func usedUp(said string) bool {
	return containsAny(said, "credit balance is too low", "api usage limits", "spend limit")
}

// staleThought reports whether the API does not take a thought back.
func staleThought(err error) bool {
	var known *model.Error
	return errors.As(err, &known) && known.Kind == model.ErrBadRequest &&
		strings.Contains(known.Message, "thinking") && containsAny(known.Message, "signature", "cannot be modified")
}

func containsAny(s string, words ...string) bool {
	s = strings.ToLower(s)
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// retryAfter reads how long the service asks us to wait, at most MaxRetryAfter.
func retryAfter(h http.Header, now time.Time) time.Duration {
	said := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(said, 64); err == nil {
		if !(seconds > 0) {
			return 0
		}
		return time.Duration(min(seconds, MaxRetryAfter.Seconds()) * float64(time.Second))
	}
	at, err := http.ParseTime(said)
	if err != nil {
		return 0
	}
	// Against the service's own clock, where it tells it: ours may be wrong.
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}

// unreachable is the error of a call that got no response.
func (p *Provider) unreachable(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the address, which may hold secrets
	}
	kind := model.ErrUnreachable
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		kind = model.ErrTimeout
	}
	return &model.Error{Kind: kind, Message: p.clean("reach the service: " + err.Error()), Retryable: true}
}

// describe says what a body is that is none of the API's.
func (p *Provider) describe(media string, body []byte) string {
	start := strings.TrimSpace(string(body))
	switch {
	case strings.Contains(media, "html") || strings.HasPrefix(start, "<"):
		return "an HTML page"
	case start == "":
		return "nothing"
	case media == "":
		media = "something without a type"
	}
	return p.clean(media + ": " + start)
}

// clean makes words of others fit to be shown: one short line without secrets.
func (p *Provider) clean(s string) string {
	for _, secret := range p.secrets {
		s = strings.ReplaceAll(s, secret, "[secret]")
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

func secretsOf(opt Options) []string {
	var all []string
	add := func(s string) {
		if len(s) >= minSecret {
			all = append(all, s)
		}
	}
	add(opt.APIKey)
	for _, value := range opt.Headers {
		add(value)
		for word := range strings.FieldsSeq(value) { // the token of "Bearer token"
			add(word)
		}
	}
	return all
}
