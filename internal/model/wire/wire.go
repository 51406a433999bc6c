// Package wire puts a Provider on the network: an HTTP server that speaks as
// Anthropic, OpenAI and Gemini do, for tests, measurements and trying Stave
// without a key. On demand it breaks as real services do.
package wire

import (
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stave/internal/model"
)

// MaxBody is the most bytes of a request.
const MaxBody = 64 << 20

// Options configures a handler.
type Options struct {
	// Fault says what goes wrong with a request, the nth since the handler was
	// made. Nil: only what the request itself asks for.
	Fault func(n int64, r *http.Request) Fault
	// Key, if set, is the API key a request must carry.
	Key string
}

// Handler serves p in every dialect:
//
//	POST /v1/messages                                Anthropic Messages
//	POST /v1/responses                               OpenAI Responses
//	POST /v1/chat/completions                        OpenAI Chat Completions
//	POST /v1beta/models/{model}:streamGenerateContent  Gemini
//
// The paths work below any prefix. A request can ask for a fault in the header
// FaultHeader or in the query, as fault=….
func Handler(p model.Provider) http.Handler { return New(p, Options{}) }

// New is Handler with options.
func New(p model.Provider, o Options) http.Handler {
	return &server{provider: p, options: o, tries: tries{seed: maphash.MakeSeed(), seen: map[uint64]int{}}}
}

type server struct {
	provider model.Provider
	options  Options
	served   atomic.Int64
	ids      atomic.Uint64
	tries    tries
	known    known
}

// dialect is one way to speak.
type dialect interface {
	// read turns the body of a request into a call.
	read(r *http.Request, body []byte) (call, error)
	// refuse returns the body of an error.
	refuse(e *model.Error) []byte
	// talk begins an answer.
	talk(out *stream, c call) speaker
	// whole writes an answer that is not streamed.
	whole(out *stream, c call, r model.Response)
}

// speaker writes one answer. What it writes for one event is sent at once.
type speaker interface {
	begin()
	say(ev model.Event)
	fail(e *model.Error) // in the middle of the answer
}

// call is a request that was understood.
type call struct {
	request model.Request
	stream  bool
	usage   bool // Chat: a chunk with the usage is wanted
}

// dialectOf finds the dialect by the end of the path.
func dialectOf(path string, k *known) dialect {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return anthropic{k}
	case strings.HasSuffix(path, "/responses"):
		return responses{k}
	case strings.HasSuffix(path, "/chat/completions"):
		return chat{k}
	case strings.HasSuffix(path, ":streamGenerateContent"), strings.HasSuffix(path, ":generateContent"):
		return gemini{k}
	}
	return nil
}

// ServeHTTP answers one call.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := dialectOf(r.URL.Path, &s.known)
	if d == nil || r.Method != http.MethodPost {
		http.Error(w, "this server knows only POST to /v1/messages, /v1/responses, /v1/chat/completions and /v1beta/models/…:streamGenerateContent", http.StatusNotFound)
		return
	}
	fault, err := s.fault(r)
	if err != nil {
		writeError(w, d, &model.Error{Kind: model.ErrBadRequest, Message: err.Error()})
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		writeError(w, d, &model.Error{Kind: model.ErrTooLong, Message: "the request cannot be read: " + err.Error()})
		return
	}
	if s.options.Key != "" && keyOf(r) != s.options.Key {
		writeError(w, d, &model.Error{Kind: model.ErrAuth, Message: "the API key is not valid"})
		return
	}
	if fault.answerInstead(w, d) {
		return
	}
	c, err := d.read(r, body)
	if err != nil {
		writeError(w, d, &model.Error{Kind: model.ErrBadRequest, Message: "the request is not understood: " + err.Error()})
		return
	}
	key := s.tries.key(r.URL.Path, body)
	c.request.Attempt = s.tries.next(key)
	provider := s.provider
	if fault.Kind == Endless {
		provider = endless{}
	}
	out := newStream(r.Context(), w, fault, &s.ids)
	defer out.close()
	play := answer
	if !c.stream {
		play = answerWhole
	}
	if done := play(out, d, c, provider); done {
		s.tries.forget(key)
	}
}

// readBody reads a request into one piece where its length is known.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	in := http.MaxBytesReader(w, r.Body, MaxBody)
	if r.ContentLength <= 0 || r.ContentLength > MaxBody {
		return io.ReadAll(in)
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(in, body)
	return body, err
}

// keyOf returns the key of a request, which each dialect has elsewhere.
func keyOf(r *http.Request) string {
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if key := r.Header.Get(name); key != "" {
			return key
		}
	}
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// answer plays one attempt and reports whether it was told whole.
func answer(out *stream, d dialect, c call, p model.Provider) (done bool) {
	defer breakOnPanic()
	talk := d.talk(out, c)
	begun := false
	for ev, err := range p.Stream(out.ctx, c.request) {
		if err != nil {
			end(out, d, talk, err, begun)
			return false
		}
		if !begun {
			begun = true
			out.header("text/event-stream")
			talk.begin()
		}
		talk.say(ev)
		out.flush()
		if done = ev.Done != ""; done || out.broken {
			break
		}
	}
	out.finish()
	return done && !out.broken
}

// answerWhole is answer for a caller that wants no stream.
func answerWhole(out *stream, d dialect, c call, p model.Provider) (done bool) {
	defer breakOnPanic()
	r, err := model.Assemble(p.Stream(out.ctx, c.request), model.Limits{}, func(model.Delta) error { return nil })
	if err != nil {
		end(out, d, nil, err, false)
		return false
	}
	out.header("application/json")
	d.whole(out, c, r)
	out.finish()
	return !out.broken
}

// breakOnPanic makes a provider that panics a connection that breaks, and no
// news for the server's log.
func breakOnPanic() {
	if recover() != nil {
		panic(http.ErrAbortHandler)
	}
}

// end tells of an error: as a status if nothing was said yet, otherwise as the
// dialect does, and a cut stream as what it is.
func end(out *stream, d dialect, talk speaker, err error, begun bool) {
	var known *model.Error
	if !errors.As(err, &known) {
		known = &model.Error{Kind: model.ErrInternal, Message: err.Error()}
	}
	switch {
	case out.ctx.Err() != nil, known.Kind == model.ErrStream:
		panic(http.ErrAbortHandler)
	case begun:
		talk.fail(known)
		out.finish()
	default:
		writeError(out.w, d, known)
	}
}

// statuses are how services put the kinds of errors.
var statuses = map[model.ErrorKind]int{
	model.ErrRateLimited: http.StatusTooManyRequests,
	model.ErrOverloaded:  http.StatusServiceUnavailable,
	model.ErrTimeout:     http.StatusGatewayTimeout,
	model.ErrAuth:        http.StatusUnauthorized,
	model.ErrBadRequest:  http.StatusBadRequest,
	model.ErrTooLong:     http.StatusBadRequest,
	model.ErrQuota:       http.StatusTooManyRequests,
	model.ErrUnreachable: http.StatusBadGateway,
	model.ErrLimit:       http.StatusBadRequest,
	model.ErrInternal:    http.StatusInternalServerError,
}

func statusOf(e *model.Error) int {
	if status, ok := statuses[e.Kind]; ok {
		return status
	}
	return http.StatusInternalServerError
}

func writeError(w http.ResponseWriter, d dialect, e *model.Error) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	setRetryAfter(h, e.RetryAfter)
	w.WriteHeader(statusOf(e))
	_, _ = w.Write(d.refuse(e))
}

// setRetryAfter says when to come back: in whole seconds for all, and exactly
// for those who read the other header.
func setRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(d.Milliseconds(), 10))
	}
}

// maxTries is how many requests that did not succeed are remembered.
const maxTries = 4096

// tries counts how often the same request came without a whole answer, which is
// what an attempt is; the network itself does not tell.
type tries struct {
	seed maphash.Seed
	mu   sync.Mutex
	seen map[uint64]int
}

func (t *tries) key(path string, body []byte) uint64 {
	return maphash.Bytes(t.seed, body) ^ maphash.String(t.seed, path)
}

func (t *tries) next(key uint64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.seen) >= maxTries && t.seen[key] == 0 {
		clear(t.seen) // better to begin anew than to grow
	}
	t.seen[key]++
	return t.seen[key]
}

func (t *tries) forget(key uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.seen, key)
}
