package wire

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// stream is one answer on its way out: bytes are gathered in buf and sent with
// flush. It is also where a connection breaks on demand.
type stream struct {
	ctx     context.Context // of the request
	w       http.ResponseWriter
	flusher http.Flusher
	fault   Fault
	ids     *atomic.Uint64 // of the server: the last number given
	buf     []byte
	sent    int
	broken  bool // the client is gone
}

// buffers are reused: at a thousand streams side by side they would be most of
// the garbage.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxKept is the largest buffer worth keeping.
const maxKept = 64 << 10

func newStream(ctx context.Context, w http.ResponseWriter, f Fault, ids *atomic.Uint64) *stream {
	s := &stream{ctx: ctx, w: w, fault: f, ids: ids}
	s.flusher, _ = w.(http.Flusher)
	if b, ok := buffers.Get().(*[]byte); ok {
		s.buf = (*b)[:0]
	}
	return s
}

func (s *stream) close() {
	if cap(s.buf) <= maxKept {
		b := s.buf[:0]
		buffers.Put(&b)
	}
	s.buf = nil
}

// number makes an id that no other answer of this server has.
func (s *stream) number(prefix string) string { return fmt.Sprintf("%s_%08x", prefix, s.ids.Add(1)) }

// header begins the answer.
func (s *stream) header(media string) {
	h := s.w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-store")
	s.w.WriteHeader(http.StatusOK)
	if s.fault.Kind == Pings {
		s.ping()
	}
}

func (s *stream) ping() {
	for !s.broken {
		s.buf = append(s.buf, ": ping\n\n"...)
		s.flush()
	}
	panic(http.ErrAbortHandler)
}

// raw, text and integer append to the event that is being made; begin starts one.
func (s *stream) raw(b string) *stream { s.buf = append(s.buf, b...); return s }

func (s *stream) text(v string) *stream { s.buf = appendQuoted(s.buf, v); return s }

func (s *stream) integer(n int64) *stream { s.buf = strconv.AppendInt(s.buf, n, 10); return s }

func (s *stream) begin(event string) *stream {
	if event != "" {
		s.raw("event: ").raw(event).raw("\n")
	}
	return s.raw("data: ")
}

// end completes an event.
func (s *stream) end() { s.buf = append(s.buf, "\n\n"...) }

// flush sends what was gathered.
func (s *stream) flush() {
	if s.broken || len(s.buf) == 0 {
		s.buf = s.buf[:0]
		return
	}
	b := s.buf
	s.buf = s.buf[:0]
	switch s.fault.Kind {
	case Cut:
		if s.sent+len(b) >= s.fault.N {
			s.write(b[:s.fault.N-s.sent])
			panic(http.ErrAbortHandler)
		}
	case Stall:
		if s.sent+len(b) >= s.fault.N {
			s.write(b[:s.fault.N-s.sent])
			<-s.ctx.Done()
			panic(http.ErrAbortHandler)
		}
	case MidRune:
		for i, c := range b {
			if c >= utf8.RuneSelf {
				s.write(b[:i+1])
				panic(http.ErrAbortHandler)
			}
		}
	case Drip:
		for i := range b {
			select {
			case <-s.ctx.Done():
				panic(http.ErrAbortHandler)
			case <-time.After(s.fault.Wait):
			}
			s.write(b[i : i+1])
		}
		return
	case NoFault, Status, HTML, Endless, Pings:
	}
	s.write(b)
}

func (s *stream) write(b []byte) {
	n, err := s.w.Write(b)
	s.sent += n
	if err != nil {
		s.broken = true
		return
	}
	if s.flusher != nil {
		s.flusher.Flush()
	}
}

// finish is the end of an answer that was told as far as it went.
func (s *stream) finish() {
	s.flush()
	if s.fault.Kind == MidRune || s.fault.Kind == Cut {
		panic(http.ErrAbortHandler)
	}
}

const hexDigits = "0123456789abcdef"

// appendQuoted writes a JSON string. Bytes that are no UTF-8 stay as they are:
// what the model says is what is on the wire, even where no service should.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}
