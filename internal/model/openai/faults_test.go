package openai_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"stave/internal/model"
	"stave/internal/model/openai"
)

// mostMemory is how much the heap may grow for a hostile stream.
const mostMemory = 64 << 20

// bodyOf is an HTTP client whose every answer has this body, without a network.
func bodyOf(body func() io.Reader) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: io.NopCloser(body()), Request: r,
		}, nil
	})}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// attempt reads a stream as the engine does.
func attempt(t *testing.T, p model.Provider) (model.Response, error) {
	t.Helper()
	return model.Assemble(p.Stream(t.Context(), simpleRequest()), model.Limits{}, func(model.Delta) error { return nil })
}

func wantKind(t *testing.T, err error, kind model.ErrorKind) *model.Error {
	t.Helper()
	var known *model.Error
	if !errors.As(err, &known) {
		t.Fatalf("got %v, want a typed error", err)
	}
	if known.Kind != kind || known.Retryable != kind.Transient() {
		t.Fatalf("got %+v, want the kind %s, retryable %v", known, kind, kind.Transient())
	}
	return known
}

// repeat is a text again and again, without an end.
type repeat struct {
	text string
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], r.text[r.at:])
		n, r.at = n+k, (r.at+k)%len(r.text)
	}
	return n, nil
}

// TestEndless shows that whatever does not end, ends at one of our limits, and
// that the memory it takes is bounded.
func TestEndless(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		before, _, _ := strings.Cut(d.textEvent, "%s")
		for name, body := range map[string]func() io.Reader{
			"one delta":      func() io.Reader { return io.MultiReader(strings.NewReader(before+`"`), &repeat{text: "wood"}) },
			"one line":       func() io.Reader { return &repeat{text: "wood"} },
			"one event":      func() io.Reader { return &repeat{text: "data: wood\n"} },
			"empty deltas":   func() io.Reader { return &repeat{text: fmt.Sprintf(d.textEvent, `""`)} },
			"unknown events": func() io.Reader { return &repeat{text: "data: {}\n\n"} },
			"text":           func() io.Reader { return &repeat{text: fmt.Sprintf(d.textEvent, `"`+strings.Repeat("w", 1000)+`"`)} },
			"comments":       func() io.Reader { return &repeat{text: ":" + strings.Repeat("-", 10_000) + "\n"} },
			"blank lines":    func() io.Reader { return &repeat{text: strings.Repeat("\n", 64)} },
		} {
			t.Run(name, func(t *testing.T) {
				grew := heapGrowth(func() {
					_, err := attempt(t, d.newProvider(openai.Options{HTTP: bodyOf(body)}))
					wantKind(t, err, model.ErrLimit)
				})
				if grew > mostMemory {
					t.Errorf("the heap grew by %d MiB", grew>>20)
				}
			})
		}
	})
}

// heapGrowth tells by how much the heap had to grow for a function.
func heapGrowth(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return max(after.HeapSys, before.HeapSys) - before.HeapSys
}

// TestEndlessCalls shows that arguments without an end and calls without number
// are stopped before they are given out.
func TestEndlessCalls(t *testing.T) {
	arguments := strings.Repeat("w", 10_000)
	endlessChat := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"` + arguments + `"}}]}}]}` + "\n\n"
	endlessResponses := `data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"` + arguments + `"}` + "\n\n"
	var manyChat, manyResponses strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&manyChat, `data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"list","arguments":"{}"}}]}}]}`+"\n\n", i, i)
		fmt.Fprintf(&manyResponses, `data: {"type":"response.output_item.done","output_index":%d,"item":{"type":"function_call","call_id":"c%d","name":"list","arguments":"{}"}}`+"\n\n", i, i)
	}
	manyChat.WriteString(`data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n")
	manyResponses.WriteString(`data: {"type":"response.completed","response":{}}` + "\n\n")
	for _, c := range []struct {
		name string
		p    func(openai.Options) model.Provider
		body io.Reader
	}{
		{"chat arguments", openai.NewChat, &repeat{text: endlessChat}},
		{"chat calls", openai.NewChat, strings.NewReader(manyChat.String())},
		{"responses arguments", openai.NewResponses, &repeat{text: endlessResponses}},
		{"responses calls", openai.NewResponses, strings.NewReader(manyResponses.String())},
		{"responses items", openai.NewResponses, &repeat{text: `data: {"type":"response.output_item.added","item":{"type":"message"}}` + "\n\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			grew := heapGrowth(func() {
				r, err := attempt(t, c.p(openai.Options{HTTP: bodyOf(func() io.Reader { return c.body })}))
				wantKind(t, err, model.ErrLimit)
				if len(r.Calls)+r.WithheldCalls > 0 {
					t.Errorf("%d calls were given out", len(r.Calls)+r.WithheldCalls)
				}
			})
			if grew > mostMemory {
				t.Errorf("the heap grew by %d MiB", grew>>20)
			}
		})
	}
}

// TestCutAnywhere shows that a stream that is cut at any byte before its last
// event fails typed and gives no call, over TCP as in memory.
func TestCutAnywhere(t *testing.T) {
	streams := map[string]string{
		"responses": `data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"a","name":"read"}}` + "\n\n" +
			`data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"path\":\"ü\"}"}` + "\n\n" +
			`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"a","name":"read","arguments":"{\"path\":\"ü\"}"}}` + "\n\n" +
			`data: {"type":"response.completed","response":{"status":"completed"}}` + "\n\n",
		"chat": `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\":\"ü\"}"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n",
	}
	eachDialect(t, func(t *testing.T, d dialect) {
		stream := streams[d.name]
		cut := 0
		p := d.newProvider(openai.Options{HTTP: bodyOf(func() io.Reader { return strings.NewReader(stream[:cut]) })})
		for ; cut < len(stream); cut++ {
			r, err := attempt(t, p)
			wantKind(t, err, model.ErrStream)
			if len(r.Calls) > 0 {
				t.Fatalf("cut at %d of %d the stream gave a call", cut, len(stream))
			}
		}
		if r, err := attempt(t, p); err != nil || len(r.Calls) != 1 {
			t.Fatalf("the whole stream gave %d calls and %v", len(r.Calls), err)
		}
	})
}

// serveRaw answers every connection with bytes and ends it as told.
func serveRaw(t *testing.T, answer string, end func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := readRequest(conn); err == nil {
				_, _ = io.WriteString(conn, answer)
			}
			end(conn)
		}
	}()
	return "http://" + listener.Addr().String() + "/v1"
}

// TestConnections shows what becomes of connections that are lost or lie.
func TestConnections(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	shut := func(c net.Conn) { _ = c.Close() }
	reset := func(c net.Conn) {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	eachDialect(t, func(t *testing.T, d dialect) {
		half, _, _ := strings.Cut(d.complete, "\n\n")
		for _, c := range []struct {
			name, answer string
			end          func(net.Conn)
			want         model.ErrorKind // empty for success
		}{
			{"whole answer", head + "\r\n" + d.complete, shut, ""},
			{"claims 4 GB and is whole", head + "Content-Length: 4294967296\r\n\r\n" + d.complete, shut, ""},
			{"claims 4 GB and is cut", head + "Content-Length: 4294967296\r\n\r\n" + half, shut, model.ErrStream},
			{"reset in the stream", head + "Transfer-Encoding: chunked\r\n\r\n2\r\nda", reset, model.ErrStream},
			{"cut in a chunk", head + "Transfer-Encoding: chunked\r\n\r\nff\r\ndata", shut, model.ErrStream},
			{"no answer", "", shut, model.ErrUnreachable},
			{"cut in the headers", "HTTP/1.1 200 OK\r\nConte", shut, model.ErrUnreachable},
			{"not HTTP", "SSH-2.0-OpenSSH\r\n", shut, model.ErrUnreachable},
			{"endless headers", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", shut, model.ErrUnreachable},
		} {
			t.Run(c.name, func(t *testing.T) {
				r, err := attempt(t, d.newProvider(openai.Options{BaseURL: serveRaw(t, c.answer, c.end)}))
				if c.want == "" {
					if err != nil || r.Text != "hi" {
						t.Fatalf("got %q and %v", r.Text, err)
					}
					return
				}
				wantKind(t, err, c.want)
			})
		}
	})
}

// TestNotAStream shows that an answer that is no stream is refused as what it is.
func TestNotAStream(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		for _, c := range []struct {
			name    string
			handle  http.HandlerFunc
			want    model.ErrorKind
			message string
		}{
			{"HTML", write("text/html", "<html>Welcome</html>"), model.ErrStream, "base URL"},
			{"HTML without a type", write("text/plain", "<html>\n\nWelcome</html>\n\n"), model.ErrStream, "ended before"},
			{"JSON", write("application/json", `{"choices":[{"message":{"content":"hi"}}]}`), model.ErrStream, "stream"},
			{"error as 200", write("application/json", `{"error":{"message":"no such model","code":404}}`), model.ErrBadRequest, "no such model"},
			{"empty", write("text/event-stream", ""), model.ErrStream, "ended before"},
			{"gzip bomb", bomb, model.ErrStream, "compressed"},
		} {
			t.Run(c.name, func(t *testing.T) {
				for _, client := range []*http.Client{nil, {}} {
					_, err := attempt(t, d.newProvider(openai.Options{BaseURL: serve(t, c.handle), HTTP: client}))
					if e := wantKind(t, err, c.want); !strings.Contains(e.Message, c.message) {
						t.Errorf("the message is %q, want something with %q", e.Message, c.message)
					}
				}
			})
		}
	})
}

func write(media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		_, _ = io.WriteString(w, body)
	}
}

func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Content-Encoding", "gzip")
	packed := gzip.NewWriter(w)
	_, _ = io.CopyN(packed, &repeat{text: "data: wood\n"}, 100<<20)
	_ = packed.Close()
}

// readRequest takes a whole request, so that closing does not reset it.
func readRequest(conn net.Conn) (int64, error) {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return 0, err
	}
	return io.Copy(io.Discard, r.Body)
}
